"""Wrong passwords are counted for all processes"""

import sqlalchemy as sa
from alembic import op

revision = "0005"
down_revision = "0004"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "sign_in_failure",
        sa.Column(
            "id", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), nullable=False
        ),
        sa.Column("key", sa.String(), nullable=False),
        sa.Column("failed_at", sa.DateTime(timezone=True), nullable=False),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_sign_in_failure")),
    )
    for name in ("key", "failed_at"):
        op.create_index(op.f(f"ix_sign_in_failure_{name}"), "sign_in_failure", [name])


def downgrade() -> None:
    op.drop_table("sign_in_failure")
