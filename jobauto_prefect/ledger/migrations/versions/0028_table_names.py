"""Tables of the service's own bookkeeping have the names that others give such tables"""

import re

import sqlalchemy as sa
from alembic import op

revision = "0028"
down_revision = "0027"
branch_labels = None
depends_on = None

TABLES = {
    "wish": "outbox_message",
    "turn": "named_lock",
    "fact": "installation_value",
    "kept_answer": "idempotency_record",
    "owed_action": "pending_action",
}

CONSTRAINTS = "SELECT conname FROM pg_constraint WHERE conrelid = CAST(:table AS regclass)"
INDEXES = """
SELECT relname FROM pg_class JOIN pg_index ON pg_index.indexrelid = pg_class.oid
WHERE pg_index.indrelid = CAST(:table AS regclass)
"""
TRIGGERS = """
SELECT tgname FROM pg_trigger WHERE tgrelid = CAST(:table AS regclass) AND NOT tgisinternal
"""
SEQUENCES = """
SELECT relname FROM pg_class JOIN pg_depend ON pg_depend.objid = pg_class.oid
WHERE pg_class.relkind = 'S' AND pg_depend.refobjid = CAST(:table AS regclass)
"""
STATEMENTS = """
SELECT sql FROM sqlite_master WHERE tbl_name = :table AND sql IS NOT NULL
ORDER BY CASE type WHEN 'table' THEN 0 ELSE 1 END
"""


def upgrade() -> None:
    rename = _rename_postgresql if op.get_bind().dialect.name == "postgresql" else _rename_sqlite
    for old, new in TABLES.items():
        rename(old, new)


def _rename_postgresql(old: str, new: str) -> None:
    """Rename the table in its place, and what is named after it."""
    for query, statement in (
        (CONSTRAINTS, f"ALTER TABLE {old} RENAME CONSTRAINT {{}} TO {{}}"),  # and their indexes
        (INDEXES, "ALTER INDEX {} RENAME TO {}"),
        (TRIGGERS, f"ALTER TRIGGER {{}} ON {old} RENAME TO {{}}"),
        (SEQUENCES, "ALTER SEQUENCE {} RENAME TO {}"),
    ):
        for name in _column(query, old):
            if (renamed := _renamed(name, old, new)) != name:
                op.execute(statement.format(name, renamed))
    op.execute(f"ALTER TABLE {old} RENAME TO {new}")


def _rename_sqlite(old: str, new: str) -> None:
    """Make the table again: SQLite can't rename constraints."""
    table, *indexes = _column(STATEMENTS, old)
    op.get_bind().exec_driver_sql(_renamed(table, old, new))
    op.execute(f"INSERT INTO {new} SELECT * FROM {old}")  # the columns have the same order
    op.execute(f"DROP TABLE {old}")
    for index in indexes:
        op.get_bind().exec_driver_sql(_renamed(index, old, new))


def _column(query: str, table: str) -> list[str]:
    return list(op.get_bind().scalars(sa.text(query), {"table": table}))


def _renamed(text: str, old: str, new: str) -> str:
    """Return the text with the table's name, also as a part of other names, replaced."""
    return re.sub(rf"\b((?:pk|uq|fk|ix)_)?{old}(?=_|\b)", rf"\1{new}", text)


def downgrade() -> None:
    raise NotImplementedError("restore a backup instead")
