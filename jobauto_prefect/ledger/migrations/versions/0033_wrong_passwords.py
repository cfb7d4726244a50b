"""The same wrong password counts once, and tokens of disabled users are revoked"""

import sqlalchemy as sa
from alembic import op

revision = "0033"
down_revision = "0032"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.execute("DELETE FROM sign_in_failure")  # those there are were of the last minutes
    with op.batch_alter_table("sign_in_failure") as table:
        table.add_column(sa.Column("guess", sa.String(), nullable=False))
    op.execute(
        """UPDATE token SET revoked_at = CURRENT_TIMESTAMP WHERE revoked_at IS NULL
        AND user_id IN (SELECT id FROM "user" WHERE NOT enabled)"""
    )


def downgrade() -> None:
    raise NotImplementedError("restore a backup instead")
