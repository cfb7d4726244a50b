"""Topics are attached to companies, applications and run templates"""

from collections.abc import Iterator
from datetime import UTC, datetime

import sqlalchemy as sa
from alembic import op

revision = "0017"
down_revision = "0016"
branch_labels = None
depends_on = None

BEARERS = ("company", "app", "runtemplate")
REGISTRATION = 1
"""The priority of what Prefect is to hold."""


def upgrade() -> None:
    # The default is for the rows there are.
    for table in BEARERS:
        op.add_column(table, sa.Column("topics", sa.JSON(), nullable=False, server_default="[]"))
    messages = [message(kind, record_id) for kind, record_id in tagged_by_requirements()]
    if messages:
        op.bulk_insert(outbox(), messages)


def tagged_by_requirements() -> Iterator[tuple[str, int]]:
    """Yield the applications and run templates that have tags which are no topics any more."""
    app = sa.table("app", sa.column("id"), sa.column("retired_at"), sa.column("document", sa.JSON))
    template = sa.table(
        "runtemplate", sa.column("id"), sa.column("retired_at"), sa.column("app_id")
    )
    connection = op.get_bind()
    found = connection.execute(sa.select(app.c.id, app.c.document).where(app.c.retired_at.is_(None)))
    for app_id, document in found.all():
        if not document.get("requirements"):
            continue
        yield "apply_app", app_id
        of_app = sa.select(template.c.id).where(
            template.c.app_id == app_id, template.c.retired_at.is_(None)
        )
        yield from (("apply_template", one_id) for one_id in connection.scalars(of_app))


def outbox() -> sa.TableClause:
    times = ("created_at", "not_before")
    return sa.table(
        "wish",
        *(sa.column(name) for name in ("kind", "priority", "subject_id", "attempts")),
        sa.column("payload", sa.JSON()),
        *(sa.column(name, sa.DateTime(timezone=True)) for name in times),
    )


def message(kind: str, record_id: int) -> dict[str, object]:
    now = datetime.now(UTC)
    return {
        "kind": kind,
        "priority": REGISTRATION,
        "subject_id": record_id,
        "attempts": 0,
        "payload": {},
        "created_at": now,
        "not_before": now,
    }


def downgrade() -> None:
    for table in BEARERS:
        op.drop_column(table, "topics")
