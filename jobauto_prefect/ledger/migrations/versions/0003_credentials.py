"""Credentials of run templates, and what Prefect holds of them"""

import sqlalchemy as sa
from alembic import op

revision = "0003"
down_revision = "0002"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column("credential_type", filled("tags", "[]"))
    op.add_column("credential_type", filled("translations", "{}"))
    op.add_column("credential_type", sa.Column("availability", sa.JSON()))
    op.add_column("credential_type", sa.Column("block_type_id", sa.Uuid()))
    op.add_column("credential", sa.Column("block_document_id", sa.Uuid()))
    op.add_column("runtemplate", filled("blocks", "[]"))
    op.create_table(
        "runtemplate_credential",
        sa.Column("id", sa.Integer(), nullable=False),
        sa.Column("runtemplate_id", sa.Integer(), nullable=False),
        sa.Column("credential_id", sa.Integer(), nullable=False),
        sa.Column("position", sa.Integer(), nullable=False),
        sa.ForeignKeyConstraint(
            ["runtemplate_id"],
            ["runtemplate.id"],
            name=op.f("fk_runtemplate_credential_runtemplate_id_runtemplate"),
        ),
        sa.ForeignKeyConstraint(
            ["credential_id"],
            ["credential.id"],
            name=op.f("fk_runtemplate_credential_credential_id_credential"),
        ),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_runtemplate_credential")),
        sa.UniqueConstraint(
            "runtemplate_id",
            "credential_id",
            name=op.f("uq_runtemplate_credential_runtemplate_id_credential_id"),
        ),
    )
    op.create_index(
        op.f("ix_runtemplate_credential_credential_id"),
        "runtemplate_credential",
        ["credential_id"],
    )


def filled(name: str, value: str) -> sa.Column[sa.JSON]:
    """Return a column of JSON that may not be empty; the rows there are get this value."""
    return sa.Column(name, sa.JSON(), nullable=False, server_default=sa.text(f"'{value}'"))


def downgrade() -> None:
    op.drop_table("runtemplate_credential")
    op.drop_column("runtemplate", "blocks")
    op.drop_column("credential", "block_document_id")
    for name in ("block_type_id", "availability", "translations", "tags"):
        op.drop_column("credential_type", name)
