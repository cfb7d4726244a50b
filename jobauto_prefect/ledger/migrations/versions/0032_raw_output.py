"""A job's output is kept as it was written, where its lines do not tell"""

import sqlalchemy as sa
from alembic import op

revision = "0032"
down_revision = "0031"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column("job_output_line", sa.Column("raw", sa.LargeBinary(), nullable=True))


def downgrade() -> None:
    raise NotImplementedError("restore a backup instead")
