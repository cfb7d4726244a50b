"""Ends of jobs that Prefect may not show yet"""

from datetime import UTC, datetime, timedelta

import sqlalchemy as sa
from alembic import op

revision = "0010"
down_revision = "0009"
branch_labels = None
depends_on = None

RECENT = timedelta(days=1)
"""What ended longer ago has been compared with Prefect by the release before."""


def upgrade() -> None:
    op.create_table(
        "unconfirmed_end",
        sa.Column(
            "job_id", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), nullable=False
        ),
        sa.Column("not_before", sa.DateTime(timezone=True), nullable=False),
        sa.Column("looks", sa.Integer(), nullable=False),
        sa.ForeignKeyConstraint(
            ["job_id"],
            ["job.id"],
            name=op.f("fk_unconfirmed_end_job_id_job"),
            ondelete="CASCADE",
        ),
        sa.PrimaryKeyConstraint("job_id", name=op.f("pk_unconfirmed_end")),
    )
    op.create_index(op.f("ix_unconfirmed_end_not_before"), "unconfirmed_end", ["not_before"])
    op.create_index(op.f("ix_job_end"), "job", ["end"])
    now = datetime.now(UTC)
    job = sa.table(
        "job", *(sa.column(name) for name in ("id", "state", "flow_run_id")),
        sa.column("end", sa.DateTime(timezone=True)),
    )  # fmt: skip
    unconfirmed = sa.table(
        "unconfirmed_end", *(sa.column(name) for name in ("job_id", "not_before", "looks"))
    )
    over = job.c.state.not_in(["scheduled", "running"]) & job.c.flow_run_id.is_not(None)
    recent = sa.select(
        job.c.id, sa.literal(now, sa.DateTime(timezone=True)), sa.literal(0)
    ).where(over, job.c.end >= now - RECENT)
    op.execute(unconfirmed.insert().from_select(["job_id", "not_before", "looks"], recent))


def downgrade() -> None:
    op.drop_index(op.f("ix_job_end"), table_name="job")
    op.drop_table("unconfirmed_end")
