"""Whether the deployment of a run template was given a schedule"""

import sqlalchemy as sa
from alembic import op

revision = "0037"
down_revision = "0036"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column("runtemplate", sa.Column("applied_schedule", sa.Boolean(), nullable=True))


def downgrade() -> None:
    raise NotImplementedError("restore a backup instead")
