"""Freezes for maintenance, and what windows do in closed time"""

import sqlalchemy as sa
from alembic import op

revision = "0021"
down_revision = "0020"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "freeze",
        sa.Column("id", sa.Integer(), nullable=False),
        sa.Column("reason", sa.Text()),
        sa.Column("since", sa.DateTime(timezone=True), nullable=False),
        sa.Column("until", sa.DateTime(timezone=True)),
        sa.Column("ended_at", sa.DateTime(timezone=True)),
        sa.Column("begun_by", sa.String(), nullable=False),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_freeze")),
    )
    op.create_index(
        "uq_freeze_present",
        "freeze",
        [sa.text("(ended_at IS NULL)")],
        unique=True,
        sqlite_where=sa.text("ended_at IS NULL"),
        postgresql_where=sa.text("ended_at IS NULL"),
    )
    op.add_column(
        "runtemplate",
        sa.Column("on_closed", sa.String(), nullable=False, server_default="excuse"),
    )


def downgrade() -> None:
    raise NotImplementedError("restore a backup instead")
