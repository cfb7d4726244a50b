"""Leases are of one start of a worker; what keeps a worker from working"""

import sqlalchemy as sa
from alembic import op

revision = "0012"
down_revision = "0011"
branch_labels = None
depends_on = None

ADDED = (
    ("lease", sa.Column("instance", sa.Uuid(), nullable=True)),
    (
        "lease",
        sa.Column("granted_renewal", sa.Integer(), nullable=False, server_default="0"),
    ),
    (
        "worker",
        sa.Column("renewal", sa.Integer(), nullable=False, server_default="0"),
    ),
    (
        "worker",
        sa.Column("hindrances", sa.JSON(), nullable=False, server_default="{}"),
    ),
    ("worker", sa.Column("lost_at", sa.DateTime(timezone=True), nullable=True)),
    (
        "job",
        sa.Column("worker_losses", sa.Integer(), nullable=False, server_default="0"),
    ),
)


def upgrade() -> None:
    # The defaults are for the rows there are.
    for table, column in ADDED:
        op.add_column(table, column)


def downgrade() -> None:
    for table, column in ADDED:
        op.drop_column(table, column.name)
