"""Indexes for the orders of large lists, counts of jobs, and failed sign-ins by network"""

import sqlalchemy as sa
from alembic import op

revision = "0015"
down_revision = "0014"
branch_labels = None
depends_on = None

ORDERS: dict[str, tuple[str, ...]] = {
    "job": (
        "app_id", "company_id", "runtemplate_id", "task_id", "attempt", "retry_of", "state",
        "severity", "exitcode", "schedule", "schedule_type", "begin", "end", "executor",
        "event_id", "eventrule_id", "launched_by", "flow_run_id", "pid", "created_at",
    ),
    "task": (
        "runtemplate_id", "window_start", "window_end", "deadline", "state", "reason", "attempts",
        "fulfilled_by_job_id", "fulfilled_at", "created_at",
    ),
    "audit_entry": (
        "created_at", "user_id", "door", "entity_type", "entity_id", "company_id", "action",
    ),
    "event": (
        "kind", "event_source_id", "runtemplate_id", "company_id", "inversion", "depth",
        "created_at", "emitted_at",
    ),
}
"""The columns that lists are ordered by; the id settles what is equal."""

BEFORE: dict[str, tuple[str, ...]] = {
    "job": (
        "app_id", "company_id", "runtemplate_id", "task_id", "retry_of", "state", "end",
        "event_id", "flow_run_id",
    ),
    "task": (),
    "audit_entry": ("created_at", "user_id", "company_id"),
    "event": ("runtemplate_id", "company_id"),
}
"""The columns that had an index of their own; that of column and id does the same."""


def upgrade() -> None:
    op.create_index("ix_sign_in_failure_network", "sign_in_failure", ["network"])
    _replace(BEFORE, ORDERS, ["id"])
    active = sa.text("retired_at IS NULL")
    op.create_index(
        "ix_job_runtemplate_states", "job", ["runtemplate_id", "state", "schedule"],
        sqlite_where=active, postgresql_where=active,
    )


def downgrade() -> None:
    op.drop_index("ix_job_runtemplate_states", "job")
    _replace(ORDERS, BEFORE, [])
    op.drop_index("ix_sign_in_failure_network", "sign_in_failure")


def _replace(
    gone: dict[str, tuple[str, ...]], made: dict[str, tuple[str, ...]], more: list[str]
) -> None:
    for table, columns in gone.items():
        for column in columns:
            op.drop_index(f"ix_{table}_{column}", table)
    for table, columns in made.items():
        for column in columns:
            op.create_index(f"ix_{table}_{column}", table, [column, *more])
