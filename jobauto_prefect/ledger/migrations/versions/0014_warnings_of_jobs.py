"""What was produced otherwise than declared is said on the job"""

import sqlalchemy as sa
from alembic import op

revision = "0014"
down_revision = "0013"
branch_labels = None
depends_on = None


def upgrade() -> None:
    # The default is for the rows there are.
    op.add_column("job", sa.Column("warnings", sa.JSON(), nullable=False, server_default="[]"))


def downgrade() -> None:
    op.drop_column("job", "warnings")
