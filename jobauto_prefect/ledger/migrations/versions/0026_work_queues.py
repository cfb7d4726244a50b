"""Run templates name the work queue of their runs"""

import sqlalchemy as sa
from alembic import op

revision = "0026"
down_revision = "0025"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column("runtemplate", sa.Column("queue", sa.String()))
    op.add_column("runtemplate", sa.Column("queue_priority", sa.Integer()))


def downgrade() -> None:
    raise NotImplementedError("restore a backup instead")
