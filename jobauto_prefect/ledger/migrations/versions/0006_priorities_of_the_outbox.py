"""Messages of the outbox have a priority"""

import sqlalchemy as sa
from alembic import op

revision = "0006"
down_revision = "0005"
branch_labels = None
depends_on = None

REGISTRATIONS = (
    "apply_template",
    "retire_deployment",
    "apply_rule",
    "retire_automation",
    "apply_credential_type",
    "retire_block_type",
    "apply_credential",
    "retire_block",
)


def upgrade() -> None:
    # The default is for the rows there are.
    op.add_column(
        "wish", sa.Column("priority", sa.SmallInteger(), nullable=False, server_default="0")
    )
    wish = sa.table("wish", sa.column("kind"), sa.column("priority"))
    op.execute(wish.update().where(wish.c.kind.in_(REGISTRATIONS)).values(priority=1))
    op.create_index("ix_wish_priority_id", "wish", ["priority", "id"])


def downgrade() -> None:
    op.drop_index("ix_wish_priority_id", table_name="wish")
    op.drop_column("wish", "priority")
