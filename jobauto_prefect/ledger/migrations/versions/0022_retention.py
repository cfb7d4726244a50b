"""Companies and run templates say how long what their jobs leave is kept"""

import sqlalchemy as sa
from alembic import op

revision = "0022"
down_revision = "0021"
branch_labels = None
depends_on = None


def upgrade() -> None:
    for table in ("company", "runtemplate"):
        op.add_column(
            table, sa.Column("retention", sa.JSON(), nullable=False, server_default="{}")
        )


def downgrade() -> None:
    raise NotImplementedError("restore a backup instead")
