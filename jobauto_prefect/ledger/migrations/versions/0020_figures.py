"""Indexes by which monitoring counts jobs and dead letters"""

import sqlalchemy as sa
from alembic import op

revision = "0020"
down_revision = "0019"
branch_labels = None
depends_on = None

ACTIVE = sa.text("retired_at IS NULL")
DEAD = sa.text("state = 'dead'")


def upgrade() -> None:
    op.create_index(
        "ix_job_figures", "job", ["company_id", "state", "severity"],
        sqlite_where=ACTIVE, postgresql_where=ACTIVE,
    )
    for table, column in (("delivery", "rule_id"), ("owed_action", "kind")):
        op.create_index(
            f"ix_{table}_dead", table, [column], sqlite_where=DEAD, postgresql_where=DEAD
        )


def downgrade() -> None:
    raise NotImplementedError("restore a backup instead")
