"""A credential says how many jobs may use it at a time"""

import sqlalchemy as sa
from alembic import op

revision = "0019"
down_revision = "0018"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column("credential", sa.Column("max_jobs", sa.Integer()))


def downgrade() -> None:
    raise NotImplementedError("restore a backup instead")
