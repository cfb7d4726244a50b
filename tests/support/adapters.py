"""Adapter databases for tests: the published schema, on each kind of database."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sqlalchemy import (
    JSON,
    Column,
    DateTime,
    Engine,
    Integer,
    MetaData,
    String,
    Table,
    create_engine,
    insert,
    make_url,
    select,
)

from jobauto_prefect.ledger.audit.trail import SERVICE
from jobauto_prefect.ledger.records import Event, EventSource
from jobauto_prefect.ledger.store import Ledger
from jobauto_prefect.sources.targets import Target
from tests.support.databases import database, mariadb
from tests.support.ledger_rows import fetch_all

KINDS = ("sqlite", "pgsql", "mysql")


def changes_table(*, newer: bool = True) -> Table:
    """The table as adapters make it; newer ones have two more columns."""
    columns: list[Column[Any]] = [
        Column("inversion", Integer, primary_key=True, autoincrement=False),
        Column("recordid", Integer),
        Column("evidence", String(60)),
        Column("operation", String(10)),
        Column("externalids", String(300)),
        Column("created", DateTime),
        Column("source", Integer),
        Column("target", String(30)),
    ]
    more: list[Column[Any]] = [Column("document_uri", String(300)), Column("context", JSON)]
    return Table("changes_cache", MetaData(), *columns, *(more if newer else []))


@dataclass(frozen=True, slots=True)
class AdapterDatabase:
    """An adapter database, seen from its own side."""

    target: Target
    engine: Engine
    table: Table

    def add(self, first: int, last: int | None = None, **members: Any) -> None:
        """Changes with these inversions, both included."""
        rows = [
            {"inversion": number, "recordid": 1000 + number, "evidence": "invoice",
             "operation": "create"} | members
            for number in range(first, (last or first) + 1)
        ]  # fmt: skip
        with self.engine.begin() as connection:
            connection.execute(insert(self.table), rows)

    def inversions(self) -> list[int]:
        """Of the changes that are there."""
        column = self.table.c.inversion
        with self.engine.connect() as connection:
            return list(connection.scalars(select(column).order_by(column)))

    def as_source(self, name: str, **members: Any) -> dict[str, Any]:
        """The body of the event source that reads it."""
        target = self.target
        return {
            "name": name,
            "db_connection": target.kind,
            "db_host": target.host,
            "db_port": target.port,
            "db_database": target.database,
            "db_username": target.username,
            "db_password": target.password,
            **members,
        }


@contextmanager
def adapter_database(
    kind: str, directory: Path, *, newer: bool = True
) -> Iterator[AdapterDatabase]:
    """An adapter database with its empty table."""
    with _url(kind, directory) as text:
        url = make_url(text)
        engine = create_engine(url)
        table = changes_table(newer=newer)
        table.metadata.create_all(engine)
        target = Target(
            kind,
            url.host or "localhost",
            str(url.port or ""),
            url.database or "",
            url.username,
            str(url.password or "") or None,
        )
        try:
            yield AdapterDatabase(target, engine, table)
        finally:
            engine.dispose()


@contextmanager
def _url(kind: str, directory: Path) -> Iterator[str]:
    if kind == "mysql":
        with mariadb() as url:
            yield url.render_as_string(hide_password=False)
        return
    directory.mkdir(exist_ok=True)
    with database("postgresql" if kind == "pgsql" else kind, directory) as text:
        yield text.replace("postgresql://", "postgresql+psycopg://")


def add_source(ledger: Ledger, adapter: AdapterDatabase, **members: Any) -> int:
    """The id of a new event source that reads an adapter database."""
    target = adapter.target
    sealed = ledger.box.seal({"p": target.password})["p"] if target.password else None
    with ledger.writing(SERVICE) as session:
        source = EventSource(
            name=f"source of {target.database}"[-200:],
            db_connection=target.kind,
            db_host=target.host,
            db_port=target.port,
            db_database=target.database,
            db_username=target.username,
            db_password=sealed,
            **members,
        )
        session.add(source)
        session.flush()
        return source.id


def stored(ledger: Ledger, source_id: int) -> Sequence[int | None]:
    """The inversions of the changes of a source that the ledger has, as they came."""
    query = select(Event.inversion).where(Event.event_source_id == source_id).order_by(Event.id)
    return fetch_all(ledger, query)
