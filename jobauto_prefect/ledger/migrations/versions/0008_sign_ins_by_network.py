"""Sign-ins are counted by account and network"""

import sqlalchemy as sa
from alembic import op

revision = "0008"
down_revision = "0007"
branch_labels = None
depends_on = None


ID = sa.BigInteger().with_variant(sa.Integer(), "sqlite")


def upgrade() -> None:
    make_failures("account", "network")  # those there are were of the last minutes
    op.create_table(
        "sign_in_success",
        sa.Column("account", sa.String(), nullable=False),
        sa.Column("network", sa.String(), nullable=False),
        sa.Column("day", sa.Date(), nullable=False),
        sa.PrimaryKeyConstraint("account", "network", name=op.f("pk_sign_in_success")),
    )
    op.create_index(op.f("ix_sign_in_success_day"), "sign_in_success", ["day"])


def downgrade() -> None:
    op.drop_table("sign_in_success")
    make_failures("key")


def make_failures(key: str, *others: str) -> None:
    op.drop_table("sign_in_failure")
    op.create_table(
        "sign_in_failure",
        sa.Column("id", ID, nullable=False),
        *(sa.Column(name, sa.String(), nullable=False) for name in (key, *others)),
        sa.Column("failed_at", sa.DateTime(timezone=True), nullable=False),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_sign_in_failure")),
    )
    for name in (key, "failed_at"):
        op.create_index(op.f(f"ix_sign_in_failure_{name}"), "sign_in_failure", [name])
