"""Records that many tests begin with: made over REST once, and put back as rows afterwards."""

import copy
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from typing import Any, TypeVar

import psycopg
from psycopg import sql

from jobauto_prefect.ledger.base import Base
from jobauto_prefect.ledger.store import Ledger
from tests.support.databases import kept_connection

Made = TypeVar("Made")
Rows = dict[str, list[Any]]

TABLES = sorted(Base.metadata.tables)
COUNTS = "SELECT " + ", ".join(f'(SELECT count(*) FROM "{table}")' for table in TABLES)


@dataclass(frozen=True)
class _Beginning:
    made: Any
    rows: Rows


_beginnings: dict[tuple[object, ...], _Beginning] = {}


def begin_with(ledger: Ledger, what: str, make: Callable[[], Made]) -> Made:
    """Return what `make` returns, and have in the ledger what it adds to a ledger like this one.

    It only adds records, and is known by `what`.
    """
    with _database_of(ledger) as database:
        kind = ledger.engine.dialect.name
        key = (what, kind, ledger.box.fingerprint, database.counts())
        beginning = _beginnings.get(key)
        if beginning is not None:
            database.put_back(beginning.rows)
            return copy.deepcopy(beginning.made)  # type: ignore[no-any-return]
        before = {table: set(rows) for table, rows in database.rows().items()}
        made = make()
        after = database.rows()
    if all(before[table] <= set(after[table]) for table in TABLES):
        added = {
            table: [row for row in after[table] if row not in before[table]] for table in after
        }
        rows = {table: rows for table, rows in added.items() if rows}
        _beginnings[key] = _Beginning(copy.deepcopy(made), rows)
    return made  # else the facade has noted meanwhile when a token was used


@contextmanager
def _database_of(ledger: Ledger) -> "Iterator[_PostgreSQL | _SQLite]":
    if ledger.engine.dialect.name == "postgresql":
        url = ledger.engine.url.set(drivername="postgresql")
        yield _PostgreSQL(kept_connection(url.render_as_string(hide_password=False)))
        return
    with closing(sqlite3.connect(str(ledger.engine.url.database), timeout=30)) as connection:
        yield _SQLite(connection)


@dataclass(frozen=True)
class _PostgreSQL:
    _connection: psycopg.Connection

    def counts(self) -> object:
        return self._connection.execute(COUNTS.encode()).fetchone()

    def rows(self) -> Rows:
        found = {}
        for table in TABLES:
            copied = sql.SQL("COPY {} TO STDOUT").format(sql.Identifier(table))
            with self._connection.cursor() as cursor, cursor.copy(copied) as lines:
                found[table] = b"".join(map(bytes, lines)).splitlines(keepends=True)
        return found

    def put_back(self, rows: Rows) -> None:
        with self._connection.transaction(), self._connection.cursor() as cursor:
            cursor.execute("SET LOCAL session_replication_role = replica")  # no triggers
            for table, lines in rows.items():
                copied = sql.SQL("COPY {} FROM STDIN").format(sql.Identifier(table))
                with cursor.copy(copied) as copy_:
                    copy_.write(b"".join(lines))
            cursor.execute(f"SELECT {', '.join(_numbers(rows))}".encode())


def _numbers(rows: Rows) -> Iterator[str]:
    """Yield what lets the numbers of records go on behind the rows."""
    for table in rows:
        column = Base.metadata.tables[table].autoincrement_column
        if column is not None:
            sequence = f"pg_get_serial_sequence('\"{table}\"', '{column.name}')"
            yield f'setval({sequence}, (SELECT max({column.name}) FROM "{table}"))'


@dataclass(frozen=True)
class _SQLite:
    _connection: sqlite3.Connection

    def counts(self) -> object:
        return self._connection.execute(COUNTS).fetchone()

    def rows(self) -> Rows:
        return {
            table: self._connection.execute(f'SELECT * FROM "{table}"').fetchall()
            for table in TABLES
        }

    def put_back(self, rows: Rows) -> None:
        with self._connection:
            for table, lines in rows.items():
                if not table.endswith("_tally"):  # triggers count
                    marks = ", ".join("?" * len(lines[0]))
                    self._connection.executemany(f'INSERT INTO "{table}" VALUES ({marks})', lines)
