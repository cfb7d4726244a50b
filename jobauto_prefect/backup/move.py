"""Moves the databases of an installation from SQLite to PostgreSQL.

Rows are copied as they are stored, into tables that our own and Prefect's migrations create:
PostgreSQL reads nearly all values as SQLite stores them. Each database is copied in one
transaction, and none is committed before all are whole, so a killed move leaves empty tables.
Meanwhile nobody else can open the former databases, and nothing is written to them.
"""

import os
import re
import sqlite3
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any
from urllib.parse import quote

import psycopg
from psycopg import sql

from jobauto_prefect.backup import postgresql
from jobauto_prefect.backup.databases import LEDGER, PREFECT, SQLITE, Database, databases_of
from jobauto_prefect.backup.settings_files import store_variables
from jobauto_prefect.backup.sqlite import VERSION_TABLE
from jobauto_prefect.definitions.storable import storable_json, storable_text
from jobauto_prefect.errors import Conflict, LedgerUnavailable, NotReady
from jobauto_prefect.ledger.audit.seal_verification import verify
from jobauto_prefect.ledger.audit.trail import Actor, write_entry
from jobauto_prefect.ledger.database.engine import long_limits
from jobauto_prefect.ledger.opening import open_ledger
from jobauto_prefect.settings import Settings

Progress = Callable[[str, int, int], None]
"""Called with the name of the current step, how many rows are copied, and of how many."""

DRIVERS = {LEDGER: "postgresql+psycopg", PREFECT: "postgresql+asyncpg"}
VARIABLES = {LEDGER: "JOBAUTO_DATABASE_URL", PREFECT: "PREFECT_SERVER_DATABASE_CONNECTION_URL"}
TOO_LARGE = "54000"
"""SQLSTATE of a value that does not fit into an index."""

AT_ONCE = 1000  # rows between two reports of progress
OF_MOVE = (
    "SELECT set_config('statement_timeout', '0', true),"
    " set_config('idle_in_transaction_session_timeout', '0', true),"
    " set_config('TimeZone', 'UTC', true)"  # SQLite stores times in UTC, without a zone
)


@dataclass(frozen=True, slots=True)
class MovedDatabase:
    """A database that was moved: its former file, and how many rows each table has."""

    source: Path
    tables: Mapping[str, int]


@dataclass(frozen=True, slots=True)
class Move:
    """A finished move.

    `damages` of the audit trail are sentences, as those of `jobauto audit verify`. `file` has the
    new settings, None if it can't be written; `overriding` are those of them that this command's
    environment sets otherwise.
    """

    databases: Mapping[str, MovedDatabase]
    seals: int
    damages: Sequence[str]
    variables: Sequence[str]
    file: Path | None
    overriding: Sequence[str]


def move_databases(
    settings: Settings,
    urls: Mapping[str, str],
    actor: Actor,
    progress: Progress = lambda _what, _done, _of: None,
) -> Move:
    """Copy the databases that are on SQLite to the empty ones at `urls`, and use these from now on.

    The ledger that is used from now on has an audit entry of the move.

    Raises:
        Conflict: a database is in use, is not empty, or is not one to move.
        NotReady: its tables are not those of this version, or its rows do not fit.
        LedgerUnavailable: a database does not answer.
    """
    environment = dict(os.environ)  # before Prefect's settings are added to it
    pairs = _pairs(settings, urls)
    targets = [target for _, target in pairs]
    open_ledger(settings).close()  # with its key, and with the tables of this version
    with ExitStack() as locks:
        sources = [locks.enter_context(_opened_alone(source)) for source, _ in pairs]
        for connection, (source, _) in zip(sources, pairs, strict=True):
            _require_current(source, connection)
        schemas, revisions = zip(*map(_require_empty, targets), strict=True)
        if len({*schemas}) < len(targets) and targets[0].is_same(targets[1]):
            raise Conflict(
                "both new databases are the same; name two, or two schemas (search_path)"
            )
        for target, revision in zip(targets, revisions, strict=True):
            if revision != target.newest_revision:
                progress(f"creating the tables of {target.name}", 0, 0)
                target.make_tables(target.newest_revision)
        with ExitStack() as transactions:
            copied = [
                transactions.enter_context(_copied(connection, target, progress))
                for connection, target in zip(sources, targets, strict=True)
            ]
        urls = {target.name: target.url for target in targets}
        now = settings.model_copy(update={"database_url": urls.get(LEDGER, settings.ledger_url)})
        with closing(open_ledger(now, limits=long_limits(settings))) as ledger:
            moved = {source.name: [str(source.file), "PostgreSQL"] for source, _ in pairs}
            with ledger.writing(actor) as session:
                write_entry(session, "Database", "update", moved)
            variables = {VARIABLES[target.name]: target.url for target in targets}
            file = store_variables(variables)
            progress("verifying the audit trail", 0, 0)
            verified = verify(ledger)
    return Move(
        {
            source.name: MovedDatabase(source.file, tables)
            for (source, _), tables in zip(pairs, copied, strict=True)
        },
        verified.seals,
        verified.damages,
        [*variables],
        file,
        [name for name, url in variables.items() if environment.get(name, url) != url],
    )


def _pairs(settings: Settings, urls: Mapping[str, str]) -> list[tuple[Database, Database]]:
    """Return the databases to move, each with its target; Prefect's, the larger one, first.

    Raises:
        Conflict: `urls` are not of exactly those that are on SQLite, or not of PostgreSQL.
    """
    pairs = []
    for source in databases_of(settings):
        name, url = source.name, urls.get(source.name)
        if source.kind != SQLITE or not source.file.exists():
            if url is not None:
                why = f"there is no {source.file}" if source.kind == SQLITE else "it is PostgreSQL"
                raise Conflict(
                    f"the database of {name} is not on SQLite ({why}); leave out --{name}"
                )
            continue
        if url is None:
            raise Conflict(
                f"the database of {name} is on SQLite, too ({source.file}); both are moved"
                f" together: create an empty database for it, and name it: --{name}"
            )
        pairs.append((source, Database(name, _postgresql_url(name, url))))
    if not pairs:
        raise Conflict("no database is on SQLite; there is nothing to move")
    return pairs


def _postgresql_url(name: str, url: str) -> str:
    """Return an address of PostgreSQL with the driver for this database.

    Raises:
        Conflict: it is another address. The message does not repeat it: it may have a password.
    """
    address = re.fullmatch(r"(?:postgres|pgsql|postgresql(?:\+\w+)?)(://.+)", url)
    if address is not None:
        try:
            postgresql.parameters(url)
        except (psycopg.Error, ValueError):
            address = None
    if address is None:
        raise Conflict(
            f"--{name} is not an address of PostgreSQL; write one such as"
            " postgresql://USER:PASSWORD@HOST/DATABASE"
        )
    return DRIVERS[name] + address[1]


@contextmanager
def _opened_alone(source: Database) -> Iterator[sqlite3.Connection]:
    """Open a database of SQLite to read it; nobody else has it open, or can open it meanwhile.

    In WAL mode a connection locks the file as long as it is open, even if it is idle.

    Raises:
        Conflict: another process has it open.
        LedgerUnavailable: it can't be read.
    """
    address = f"file:{quote(str(source.file.absolute()))}?mode=rw"
    with ExitStack() as stack:
        try:
            connection = stack.enter_context(
                closing(sqlite3.connect(address, uri=True, isolation_level=None, timeout=2))
            )
            connection.execute("PRAGMA locking_mode = EXCLUSIVE")
            connection.execute("BEGIN EXCLUSIVE")
            connection.execute("PRAGMA query_only = ON")
        except sqlite3.Error as error:
            if error.sqlite_errorname == "SQLITE_BUSY":
                raise Conflict(
                    f"the database of {source.name} is in use ({source.file}); stop jobauto up, or"
                    " all parts and commands, and try again"
                ) from None
            raise LedgerUnavailable(
                f"{source.file} can't be read ({error}); solve that and try again"
            ) from error
        yield connection


def _require_current(source: Database, connection: sqlite3.Connection) -> None:
    """Require the tables that this version works with; its columns are those of PostgreSQL.

    Raises:
        NotReady: they are of another version.
    """
    found = connection.execute(f"SELECT version_num FROM {VERSION_TABLE}").fetchone()  # noqa: S608
    if found != (source.newest_revision,):
        raise NotReady(
            f"the tables of {source.name} are of another version ({found and found[0]}, not"
            f" {source.newest_revision}); run jobauto up with this version, stop it, and try again"
        )


def _require_empty(target: Database) -> tuple[str, str | None]:
    """Require a database without rows; return its schema and the revision of its tables, if any.

    A killed move leaves tables.

    Raises:
        Conflict: it has rows, or tables of another program.
        LedgerUnavailable: it does not answer.
    """
    with postgresql.connect(target.url) as connection, _explained(target.name):
        schema = postgresql.make_schema(connection)
        tables = {str(row[0]) for row in connection.execute(postgresql.COLUMNS, (schema,))}
        for table in sorted(tables):
            query = sql.SQL("SELECT FROM {} LIMIT 1").format(sql.Identifier(schema, table))
            if connection.execute(query).rowcount:
                raise Conflict(
                    f"the new database of {target.name} is not empty: the table {table} has rows;"
                    " create an empty one (createdb), and try again. If an earlier move filled it"
                    " and was killed at its end, drop it first (dropdb)"
                )
        version = sql.Identifier(schema, VERSION_TABLE)
        named = (version.as_string(connection),)
        if connection.execute("SELECT to_regclass(%s)", named).fetchone() == (None,):
            return schema, None
        query = sql.SQL("SELECT version_num FROM {}").format(version)
        revision = "".join(row[0] for row in connection.execute(query))
        if revision and len(revision) != len(target.newest_revision):
            raise Conflict(
                f"the new database of {target.name} has the tables of another program; name an"
                " empty one of its own"
            )
    return schema, revision


@contextmanager
def _copied(
    source: sqlite3.Connection, target: Database, progress: Progress
) -> Iterator[dict[str, int]]:
    """Copy all rows in a transaction that is committed after the block; yield rows by table."""
    with (
        postgresql.connect(target.url) as connection,
        _explained(target.name),
        connection.transaction(),
    ):
        connection.execute(OF_MOVE)
        schema = postgresql.make_schema(connection)
        with postgresql.bare_tables(connection, schema) as tables:
            counts: dict[str, int] = {}
            for table in tables:
                counting = f'SELECT count(*) FROM "{table}"'  # noqa: S608
                [counts[table]] = source.execute(counting).fetchone()
            done, total = 0, sum(counts.values())
            for table, columns in tables.items():
                with _explained(target.name, table):
                    for _ in _copy_rows(source, connection, schema, table, columns):
                        done += 1
                        if done % AT_ONCE == 0:
                            progress(f"copying the database of {target.name}", done, total)
                    _finish(connection, sql.Identifier(schema, table), columns, counts[table])
        yield counts


def _copy_rows(
    source: sqlite3.Connection,
    connection: psycopg.Connection,
    schema: str,
    table: str,
    columns: Mapping[str, str],
) -> Iterator[None]:
    """Copy the rows of a table one by one; yield after each."""
    # A column is named with its table: SQLite takes an unknown name in quotes for text.
    named = ", ".join(f'"{table}"."{column}"' for column in columns)
    conversions = [CONVERSIONS.get(kind) for kind in columns.values()]
    statement = sql.SQL("COPY {} ({}) FROM STDIN").format(
        sql.Identifier(schema, table), sql.SQL(", ").join(map(sql.Identifier, columns))
    )
    with connection.cursor().copy(statement) as copy:
        for row in source.execute(f'SELECT {named} FROM "{table}"'):  # noqa: S608
            copy.write_row(
                [
                    convert(value) if convert is not None and isinstance(value, str) else value
                    for convert, value in zip(conversions, row, strict=True)
                ]
            )
            yield


def _finish(
    connection: psycopg.Connection, table: sql.Identifier, columns: Mapping[str, str], count: int
) -> None:
    """Compare the number of rows, and let new ids begin after the highest one.

    Raises:
        NotReady: not all rows are there.
    """
    query = sql.SQL("SELECT count(*) FROM {}").format(table)
    if connection.execute(query).fetchone() != (count,):
        raise NotReady(f"not all rows of {table.as_string()} were copied; try again")
    for column in (column for column, kind in columns.items() if kind in ("int4", "int8")):
        owned = (table.as_string(connection), column)
        [[sequence]] = connection.execute("SELECT pg_get_serial_sequence(%s, %s)", owned).fetchall()
        if sequence is not None:
            highest = sql.SQL("SELECT setval(%s, max({})) FROM {}")
            connection.execute(
                highest.format(sql.Identifier(column), table), (sequence,)
            )  # no rows: NULL, which changes nothing
    connection.execute(sql.SQL("ANALYZE {}").format(table))


def _as_interval(text: str) -> timedelta:
    """Return an interval, which SQLAlchemy stores as a time after the epoch."""
    return datetime.fromisoformat(text) - datetime(1970, 1, 1)  # noqa: DTZ001 - neither has a zone


CONVERSIONS: Mapping[str, Callable[[str], Any]] = {
    "interval": _as_interval,
    "jsonb": storable_json,
    "text": storable_text,
    "varchar": storable_text,
}
"""For the types of PostgreSQL that can't read everything that SQLite holds as text."""


@contextmanager
def _explained(name: str, table: str | None = None) -> Iterator[None]:
    """Convert errors of both databases; messages about rows may contain their values.

    Raises:
        LedgerUnavailable: a database does not answer. NotReady: rows do not fit.
    """
    try:
        yield
    except sqlite3.Error as error:
        raise LedgerUnavailable(
            f"the former database of {name} can't be read ({error}); nothing was moved; solve that"
            " and try again"
        ) from error
    except psycopg.Error as error:
        if isinstance(error, psycopg.OperationalError) and error.sqlstate != TOO_LARGE:
            raise LedgerUnavailable(
                f"the new database of {name} does not answer ({postgresql.one_line(str(error))});"
                " nothing was moved; try again"
            ) from error
        raise NotReady(
            f"rows of {error.diag.table_name or table or 'a table'} in the database of {name} do"
            f" not fit PostgreSQL (SQLSTATE {error.sqlstate}); nothing was moved; correct them, and"
            " try again"
        ) from None
