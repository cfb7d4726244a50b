"""Credential types name where further values come from, and whether they are stock"""

import sqlalchemy as sa
from alembic import op

revision = "0018"
down_revision = "0017"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column("credential_type", sa.Column("source", sa.String()))
    op.add_column(
        "credential_type",
        sa.Column("stock", sa.Boolean(), nullable=False, server_default=sa.false()),
    )


def downgrade() -> None:
    raise NotImplementedError("restore a backup instead")
