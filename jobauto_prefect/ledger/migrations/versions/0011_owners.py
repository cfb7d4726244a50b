"""Applications, credential types and topics are shared, or belong to one company"""

import json
from datetime import UTC, datetime

import sqlalchemy as sa
from alembic import op

revision = "0011"
down_revision = "0010"
branch_labels = None
depends_on = None

OWNED = {"app": "App", "credential_type": "CredentialType", "topic": "Topic"}
"""Table -> what the audit trail calls its records."""

KEYS = (("credential_type", "code"), ("topic", "name"))
ACTIVE = "retired_at IS NULL"
SHARED = f"{ACTIVE} AND company_id IS NULL"

APP_USERS = """
    SELECT app_id, company_id FROM runtemplate
    UNION SELECT app_id, company_id FROM job WHERE state IN ('scheduled', 'running')
"""
TYPE_USERS = "SELECT credential_type_id, company_id FROM credential"


def upgrade() -> None:
    for table in OWNED:
        # As the databases write it: Alembic knows no constraint inside of a column for SQLite.
        op.execute(
            f"ALTER TABLE {table} ADD COLUMN company_id INTEGER "
            f"CONSTRAINT fk_{table}_company_id_company REFERENCES company (id)"
        )
    op.create_index(op.f("ix_app_company_id"), "app", ["company_id"])
    for table, key in KEYS:
        op.drop_index(f"uq_{table}_{key}", table)
        unique(f"uq_{table}_company_id_{key}", table, ["company_id", key], ACTIVE)
        unique(f"uq_{table}_shared_{key}", table, [key], SHARED)
    give_owners()


def unique(name: str, table: str, columns: list[str], where: str) -> None:
    condition = sa.text(where)
    op.create_index(
        name, table, columns, unique=True, sqlite_where=condition, postgresql_where=condition
    )


def give_owners() -> None:
    """Give a record that exactly one company uses to that company; each has its audit entry."""
    connection = op.get_bind()
    users_of_apps = users(connection.execute(sa.text(APP_USERS)))
    owners = {
        "app": sole(users_of_apps),
        "credential_type": sole(users(connection.execute(sa.text(TYPE_USERS)))),
        "topic": sole(users_of_topics(connection, users_of_apps)),
    }
    for table, entity in OWNED.items():
        for record_id, company_id in sorted(owners[table].items()):
            connection.execute(
                sa.text(f"UPDATE {table} SET company_id = :company_id WHERE id = :id"),  # noqa: S608
                {"company_id": company_id, "id": record_id},
            )
            connection.execute(sa.insert(audit_entry()), entry(entity, record_id, company_id))


def users(rows: sa.CursorResult[tuple[int, int]]) -> dict[int, set[int]]:
    """Return record -> the companies that use it."""
    found: dict[int, set[int]] = {}
    for record_id, company_id in rows:
        found.setdefault(record_id, set()).add(company_id)
    return found


def users_of_topics(
    connection: sa.Connection, users_of_apps: dict[int, set[int]]
) -> dict[int, set[int]]:
    """Return topic -> the companies whose applications require it: their flows bear the tag."""
    found: dict[str, set[int]] = {}
    for app_id, document in connection.execute(sa.text("SELECT id, document FROM app")):
        read = json.loads(document) if isinstance(document, str) else document
        for name in read.get("requirements") or ():
            found.setdefault(str(name), set()).update(users_of_apps.get(app_id, ()))
    topics = connection.execute(sa.text("SELECT id, name FROM topic"))
    return {topic_id: found.get(name, set()) for topic_id, name in topics}


def sole(found: dict[int, set[int]]) -> dict[int, int]:
    return {
        record_id: next(iter(companies))
        for record_id, companies in found.items()
        if len(companies) == 1
    }


def audit_entry() -> sa.TableClause:
    names = ("actor", "door", "entity_type", "entity_id", "company_id", "action")
    return sa.table(
        "audit_entry",
        *(sa.column(name) for name in names),
        sa.column("created_at", sa.DateTime(timezone=True)),
        sa.column("changes", sa.JSON()),
    )


def entry(entity: str, record_id: int, company_id: int) -> dict[str, object]:
    return {
        "created_at": datetime.now(UTC),
        "actor": "service",
        "door": "service",
        "entity_type": entity,
        "entity_id": record_id,
        "company_id": company_id,
        "action": "update",
        "changes": {"company_id": [None, company_id]},
    }


def downgrade() -> None:
    for table, key in KEYS:
        op.drop_index(f"uq_{table}_company_id_{key}", table)
        op.drop_index(f"uq_{table}_shared_{key}", table)
        unique(f"uq_{table}_{key}", table, [key], ACTIVE)
    op.drop_index(op.f("ix_app_company_id"), "app")
    for table in OWNED:
        with op.batch_alter_table(table) as batch:
            batch.drop_constraint(f"fk_{table}_company_id_company", type_="foreignkey")
            batch.drop_column("company_id")
