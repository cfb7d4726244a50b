"""Settings of executors, and whom the jobs of workers run as"""

import sqlalchemy as sa
from alembic import op

revision = "0004"
down_revision = "0003"
branch_labels = None
depends_on = None

ADDED = (("runtemplate", "executor_settings"), ("worker", "run_as"))


def upgrade() -> None:
    # The defaults are for the rows there are.
    for table, name in ADDED:
        op.add_column(table, sa.Column(name, sa.JSON(), nullable=False, server_default="{}"))


def downgrade() -> None:
    for table, name in ADDED:
        op.drop_column(table, name)
