"""How many jobs a worker runs at once, and how far its host's clock is off"""

import sqlalchemy as sa
from alembic import op

revision = "0013"
down_revision = "0012"
branch_labels = None
depends_on = None


def upgrade() -> None:
    # The default is for the rows there are.
    ahead = sa.Column("clock_ahead", sa.Float(), nullable=False, server_default="0")
    op.add_column("worker", ahead)
    op.add_column("worker", sa.Column("limit", sa.Integer(), nullable=True))


def downgrade() -> None:
    op.drop_column("worker", "limit")
    op.drop_column("worker", "clock_ahead")
