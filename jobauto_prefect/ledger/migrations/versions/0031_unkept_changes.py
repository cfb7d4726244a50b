"""A change that can't be kept as it is says why"""

import sqlalchemy as sa
from alembic import op

revision = "0031"
down_revision = "0030"
branch_labels = None
depends_on = None

WHERE = sa.text("error IS NOT NULL")


def upgrade() -> None:
    op.add_column("event", sa.Column("error", sa.Text()))
    op.create_index(
        "ix_event_unkept",
        "event",
        ["event_source_id", "id"],
        sqlite_where=WHERE,
        postgresql_where=WHERE,
    )


def downgrade() -> None:
    raise NotImplementedError("restore a backup instead")
