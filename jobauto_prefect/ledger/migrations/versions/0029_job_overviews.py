"""Jobs are read by when they are due and counted by how they ended, however many there are"""

import sqlalchemy as sa
from alembic import op

revision = "0029"
down_revision = "0028"
branch_labels = None
depends_on = None

ACTIVE = sa.text("retired_at IS NULL")


def upgrade() -> None:
    for name, columns in (
        ("ix_job_state_schedule", ["state", "schedule", "id"]),
        ("ix_job_ended", ["state", "end", "company_id", "retired_at"]),
    ):
        op.create_index(name, "job", columns, sqlite_where=ACTIVE, postgresql_where=ACTIVE)


def downgrade() -> None:
    raise NotImplementedError("restore a backup instead")
