"""Jobs and events know the trace they are part of"""

import sqlalchemy as sa
from alembic import op

revision = "0024"
down_revision = "0023"
branch_labels = None
depends_on = None


def upgrade() -> None:
    for table in ("job", "event"):
        op.add_column(table, sa.Column("traceparent", sa.String()))


def downgrade() -> None:
    raise NotImplementedError("restore a backup instead")
