"""Which executors a job may name instead of its run template's"""

import sqlalchemy as sa
from alembic import op

revision = "0007"
down_revision = "0006"
branch_labels = None
depends_on = None


def upgrade() -> None:
    # The default is for the rows there are: their own executor alone.
    column = sa.Column("executors", sa.JSON(), nullable=False, server_default="[]")
    op.add_column("runtemplate", column)


def downgrade() -> None:
    op.drop_column("runtemplate", "executors")
