"""Companies apart: whose word rules between them rest on, and names of sources for each of them"""

import json
from typing import Any

import sqlalchemy as sa
from alembic import op

revision = "0034"
down_revision = "0033"
branch_labels = None
depends_on = None

OPERATED = {"enabled", "labels", "priority"}
MODES = ("success", "fail")
ACTIVE = "retired_at IS NULL"


def upgrade() -> None:
    op.add_column("event_rule", sa.Column("written_by", sa.Integer()))
    # The default is for the rows there are.
    op.add_column(
        "runtemplate", sa.Column("action_writers", sa.JSON(), nullable=False, server_default="{}")
    )
    op.drop_index("uq_event_source_name", "event_source")
    unique("uq_event_source_company_id_name", ["company_id", "name"], ACTIVE)
    unique("uq_event_source_shared_name", ["name"], f"{ACTIVE} AND company_id IS NULL")
    connection = op.get_bind()
    written = sa.text("UPDATE event_rule SET written_by = :user WHERE id = :id")
    for rule_id, entries in history(connection, "EventRule").items():
        users = [user for user, changes in entries if changes.keys() - OPERATED]
        connection.execute(written, {"user": users[-1] if users else None, "id": rule_id})
    acted = sa.text("UPDATE runtemplate SET action_writers = :writers WHERE id = :id")
    for template_id, entries in history(connection, "RunTemplate").items():
        writers = {
            mode: user for user, changes in entries for mode in MODES if mode in changes and user
        }
        connection.execute(acted, {"writers": json.dumps(writers), "id": template_id})


def unique(name: str, columns: list[str], where: str) -> None:
    condition = sa.text(where)
    op.create_index(
        name,
        "event_source",
        columns,
        unique=True,
        sqlite_where=condition,
        postgresql_where=condition,
    )


def history(connection: sa.Connection, kind: str) -> dict[int, list[tuple[int | None, Any]]]:
    """Return record -> who changed what, the oldest first; archived entries are not there."""
    entry = sa.table(
        "audit_entry",
        *(sa.column(name) for name in ("id", "user_id", "entity_type", "entity_id", "action")),
        sa.column("changes", sa.JSON()),
    )
    query = (
        sa.select(entry.c.entity_id, entry.c.user_id, entry.c.changes)
        .where(entry.c.entity_type == kind, entry.c.action.in_(("create", "update")))
        .order_by(entry.c.id)
    )
    found: dict[int, list[tuple[int | None, Any]]] = {}
    for record_id, user_id, changes in connection.execute(query):
        found.setdefault(record_id, []).append((user_id, changes))
    return found


def downgrade() -> None:
    raise NotImplementedError("restore a backup instead")
