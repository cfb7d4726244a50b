"""What a ledger of before tables had the field's names becomes: the same rows, named anew."""

from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from uuid import UUID

import psycopg
import pytest
import sqlalchemy as sa
from alembic.migration import MigrationContext

from jobauto_prefect.ledger.base import Base
from jobauto_prefect.ledger.database import migration
from jobauto_prefect.ledger.database.announcements import CHANNEL, plain_url
from tests.support.databases import KINDS
from tests.support.former_ledger import former_ledger, version_before

NOW = datetime(2026, 5, 1, 10, tzinfo=UTC)
HOLDER = UUID(int=7)
NAMES = {
    "wish": "outbox_message",
    "turn": "named_lock",
    "fact": "installation_value",
    "kept_answer": "idempotency_record",
    "owed_action": "pending_action",
}
EVENT: dict[str, Any] = {
    "id": 1, "kind": "end", "operation": "succeeded", "data": {}, "depth": 0, "created_at": NOW,
}  # fmt: skip
ROWS: dict[str, dict[str, Any]] = {
    "wish": {
        "id": 41, "kind": "apply_template", "priority": 1, "subject_id": 3, "payload": {"a": 1},
        "created_at": NOW, "not_before": NOW, "attempts": 2, "error": "wish: away",
    },
    "turn": {"name": "windows", "holder": HOLDER, "until": NOW},
    "fact": {"name": "turn", "value": "owed_action"},
    "kept_answer": {
        "actor": "anna", "route": "POST /job", "key": "k", "digest": "d", "status": 201,
        "headers": {"Location": "/job/1"}, "body": b"{}", "created_at": NOW,
    },
    "owed_action": {
        "id": 5, "event_id": 1, "kind": "webhook", "target": "https://a.test", "config": {},
        "state": "owed", "attempts": 0, "due_at": NOW, "created_at": NOW,
    },
}  # fmt: skip


@pytest.fixture(params=KINDS)
def engine(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[sa.Engine]:
    """A database as the version before made it, with a row in each of these tables."""
    with former_ledger(request.param, tmp_path, version_before("table_names")) as engine:
        with engine.execution_options(jobauto_writes=True).begin() as connection:
            connection.execute(sa.insert(Base.metadata.tables["event"]).values(EVENT))
            for name, row in ROWS.items():
                connection.execute(sa.insert(_former(name)).values(row))
        yield engine


def _former(name: str) -> sa.Table:
    """The table of the former name, with the columns it has today."""
    columns = Base.metadata.tables[NAMES[name]].columns
    return sa.Table(name, sa.MetaData(), *(sa.Column(each.name, each.type) for each in columns))


def _names(inspector: sa.Inspector, table: str) -> set[str | None]:
    """The names of all constraints and indexes of a table."""
    listed = inspector.get_unique_constraints(table) + inspector.get_foreign_keys(table)
    return {
        inspector.get_pk_constraint(table)["name"],
        *(index["name"] for index in inspector.get_indexes(table)),
        *(constraint["name"] for constraint in listed),
    }


def _expected(table: sa.Table) -> set[str]:
    made = [*table.constraints, *table.indexes]
    return {str(part.name) for part in made if part.name is not None}


def test_rows_constraints_and_indexes_survive_the_new_names(engine: sa.Engine) -> None:
    migration.upgrade(engine)
    with engine.connect() as connection:
        inspector = sa.inspect(connection)
        assert not set(inspector.get_table_names()) & set(NAMES)
        for old, new in NAMES.items():
            table = Base.metadata.tables[new]
            assert _names(inspector, new) == _expected(table)
            row = connection.execute(sa.select(table)).mappings().one()
            assert {name: row[name] for name in ROWS[old]} == ROWS[old]
        assert migration.current(engine) == migration.newest()
    with engine.execution_options(jobauto_writes=True).begin() as connection:
        messages = Base.metadata.tables["outbox_message"]
        message = {name: value for name, value in ROWS["wish"].items() if name != "id"}
        if engine.dialect.name == "postgresql":  # the row of before did not use the sequence
            connection.execute(sa.text("SELECT setval('outbox_message_id_seq', 41)"))
        key = connection.execute(sa.insert(messages).values(message)).inserted_primary_key
        assert key is not None
        assert key[0] == 42


def test_nothing_of_postgresql_keeps_a_former_name(engine: sa.Engine) -> None:
    if engine.dialect.name != "postgresql":
        pytest.skip("only PostgreSQL has sequences and triggers here")
    migration.upgrade(engine)
    with engine.connect() as connection:
        kept = connection.scalars(
            sa.text(
                "SELECT relname FROM pg_class UNION SELECT conname FROM pg_constraint"
                " UNION SELECT tgname FROM pg_trigger"
            )
        ).all()
    former = [
        name
        for name in kept
        if any(name.removeprefix(kind).startswith(old) for kind in ("", "ix_", "pk_", "uq_", "fk_")
               for old in NAMES)
    ]  # fmt: skip
    assert former == []


def test_postgresql_goes_on_announcing_what_is_written(engine: sa.Engine) -> None:
    if engine.dialect.name != "postgresql":
        pytest.skip("only PostgreSQL announces")
    migration.upgrade(engine)
    address = plain_url(engine.url.render_as_string(hide_password=False))
    assert address is not None
    with psycopg.connect(address, autocommit=True) as listening:
        listening.execute(f"LISTEN {CHANNEL}")
        with engine.execution_options(jobauto_writes=True).begin() as connection:
            for old in ("wish", "owed_action"):
                table = Base.metadata.tables[NAMES[old]]
                connection.execute(sa.insert(table).values({**ROWS[old], "id": 99, "kind": "b"}))
        told = {notify.payload for notify in listening.notifies(timeout=10, stop_after=2)}
    assert told == {"outbox", "actions"}
    with engine.connect() as connection:
        assert MigrationContext.configure(connection).get_current_revision() == migration.newest()
