"""Calendars, and who has which"""

import sqlalchemy as sa
from alembic import op

revision = "0025"
down_revision = "0024"
branch_labels = None
depends_on = None

ACTIVE = sa.text("retired_at IS NULL")


def upgrade() -> None:
    op.create_table(
        "calendar",
        sa.Column("id", sa.Integer(), nullable=False),
        sa.Column("name", sa.String(), nullable=False),
        sa.Column("timezone", sa.String()),
        sa.Column("country", sa.String()),
        sa.Column("subdivision", sa.String()),
        sa.Column("days", sa.JSON(), nullable=False),
        sa.Column("times", sa.JSON(), nullable=False),
        sa.Column("periods", sa.JSON(), nullable=False),
        sa.Column("labels", sa.JSON(), nullable=False),
        sa.Column("created_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("updated_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("retired_at", sa.DateTime(timezone=True)),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_calendar")),
    )
    op.create_index(
        "uq_calendar_name",
        "calendar",
        ["name"],
        unique=True,
        sqlite_where=ACTIVE,
        postgresql_where=ACTIVE,
    )
    for table in ("company", "runtemplate"):
        column = sa.Column("calendars", sa.JSON(), nullable=False, server_default=sa.text("'[]'"))
        op.add_column(table, column)


def downgrade() -> None:
    raise NotImplementedError("restore a backup instead")
