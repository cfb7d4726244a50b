"""The engine of a ledger: connections to SQLite or PostgreSQL, and the errors of both."""

import contextlib
import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Any
from urllib.parse import urlsplit

from sqlalchemy import Connection, Engine, create_engine, event, func, make_url, select, text
from sqlalchemy.exc import ArgumentError, DBAPIError, IntegrityError, OperationalError
from sqlalchemy.orm import Session

from jobauto_prefect.errors import Contended, KeyTaken, LedgerUnavailable, NotReady
from jobauto_prefect.ledger.database.postgresql import Limits, timed_engine
from jobauto_prefect.settings import DRIVERS, Settings

CROSSED = frozenset({"40001", "40P01"})
"""SQLSTATEs of a transaction rolled back because of another: serialization failure, deadlock."""

READ_ONLY = "25006"
"""SQLSTATE of a write to a database that takes none, such as a replica before it takes over."""

NO_WRITES = "the ledger's database accepts no writes at the moment; try again later"

OF_OTHER_TABLES = frozenset({"42P01", "42703"})
"""SQLSTATEs of a table or column that is not there: an upgrade has removed it meanwhile."""

NO_DATABASE = frozenset({"SQLITE_NOTADB", "SQLITE_CORRUPT"})
"""Errors of a file that is no usable database: waiting does not help."""


def usual_limits(settings: Settings) -> Limits:
    """Return the limits while somebody waits for the answer."""
    return Limits(
        connect=settings.database_connect_seconds,
        answer=settings.database_answer_seconds,
        idle=settings.database_idle_seconds,
        connections=settings.database_connections,
    )


def long_limits(settings: Settings) -> Limits:
    """Return the limits of long operations that nobody else waits for: migrations, `apply`."""
    return replace(usual_limits(settings), answer=settings.database_long_seconds)


def make_engine(url: str, limits: Limits | None = None) -> Engine:
    """Create an engine for SQLite (WAL) or PostgreSQL. `limits` is for the latter.

    Without `limits` the usual ones apply.

    Raises:
        NotReady: the address is of neither.
    """
    try:
        driver, _ = make_url(url).drivername, urlsplit(url).port  # ValueError above 65535
    except (ArgumentError, ValueError):  # the original message would contain the password
        raise NotReady(
            "the address of the ledger's database can't be read; check JOBAUTO_DATABASE_URL, or"
            " DB_CONNECTION, DB_HOST and DB_PORT (a number from 1 to 65535)"
        ) from None
    if driver not in DRIVERS.values():
        raise NotReady(
            f"the ledger can't use a database of type {driver}; set JOBAUTO_DATABASE_URL or"
            " DB_CONNECTION to sqlite or postgresql"
        )
    if not url.startswith("sqlite"):
        limits = limits or Limits()
        kept = max(1, limits.connections // 3)  # while they are not used
        engine = timed_engine(url, limits, pool_size=kept, max_overflow=limits.connections - kept)
        # Before SQLAlchemy's own first query: with SQL_ASCII, the driver answers with bytes.
        event.listen(engine, "connect", _require_unicode, insert=True)
        event.listen(engine, "connect", _leave_beginnings_to_us)
        event.listen(engine, "begin", _begin_postgresql)
        return engine
    engine = create_engine(url, connect_args={"timeout": 30})
    event.listen(engine, "do_connect", _make_private)
    event.listen(engine, "connect", _configure_sqlite)
    event.listen(engine, "begin", _begin_sqlite)
    return engine


def _require_unicode(connection: Any, _record: Any) -> None:
    encoding = connection.info.parameter_status("server_encoding")
    if encoding != "UTF8":
        raise NotReady(
            f"the ledger's database has the encoding {encoding}, which can't hold every text; use"
            " one made with CREATE DATABASE ... ENCODING 'UTF8' TEMPLATE template0"
        )


def _leave_beginnings_to_us(connection: Any, _record: Any) -> None:
    connection.autocommit = True


def _begin_postgresql(connection: Connection) -> None:
    """Begin a transaction, but none for reads: it would cost as much as the query itself."""
    options = connection.get_execution_options()
    if options.get("jobauto_snapshot"):
        connection.exec_driver_sql("BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY")
    elif not options.get("jobauto_reads"):
        connection.exec_driver_sql("BEGIN")


def _make_private(_dialect: Any, _record: Any, arguments: Sequence[Any], _options: Any) -> None:
    """Make the file private: SQLite would let others read it, and `-wal` and `-shm` follow.

    An existing file is not opened: closing it would drop the locks of all this process's
    connections, and the next process to disconnect would delete the `-wal` in use.
    """
    with contextlib.suppress(OSError):  # it exists, or the driver reports the error
        os.close(os.open(arguments[0], os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600))


def _configure_sqlite(connection: Any, _record: Any) -> None:
    connection.isolation_level = None  # the driver must not begin transactions on its own
    cursor = connection.cursor()
    for pragma in (
        "journal_mode=WAL",
        "synchronous=NORMAL",
        "foreign_keys=ON",
        "busy_timeout=30000",
    ):
        cursor.execute(f"PRAGMA {pragma}")
    cursor.close()


def _begin_sqlite(connection: Connection) -> None:
    # A writer takes the lock at once, because a later attempt may fail in the middle of its work.
    writes = connection.get_execution_options().get("jobauto_writes")
    connection.exec_driver_sql("BEGIN IMMEDIATE" if writes else "BEGIN")


@contextmanager
def database_errors() -> Iterator[None]:
    """Convert database errors, and missing answers, to errors of this project."""
    try:
        yield
    except OperationalError as error:
        if getattr(error.orig, "sqlstate", None) in CROSSED:
            raise Contended(
                "somebody else changed the same records at the same time, and this change was"
                " rolled back; try again"
            ) from error
        raise LedgerUnavailable(_unavailable(error)) from error
    except IntegrityError as error:
        raise KeyTaken(
            "another record with the same key came first; read it and try again"
        ) from error
    except DBAPIError as error:
        state = getattr(error.orig, "sqlstate", None)
        if error.connection_invalidated or state in OF_OTHER_TABLES:
            raise LedgerUnavailable(_unavailable(error)) from error
        if state == READ_ONLY:
            raise LedgerUnavailable(NO_WRITES) from error
        if getattr(error.orig, "sqlite_errorname", None) in NO_DATABASE:
            raise LedgerUnavailable(
                f"the ledger's file can't be used ({error.orig}); check JOBAUTO_DATABASE_URL"
                " or DB_DATABASE, or restore a backup"
            ) from error
        raise


def _unavailable(error: DBAPIError) -> str:
    reason = str(error.orig).strip().splitlines()[0] if str(error.orig).strip() else "no answer"
    if getattr(error.orig, "sqlstate", None) in OF_OTHER_TABLES or reason.startswith("no such "):
        return f"the ledger's tables are of another version ({reason}); install that one here"
    return f"the ledger's database does not answer ({reason}); try again when it is back"


DATABASES = {"postgresql": "PostgreSQL", "sqlite": "SQLite"}


def require_writable(session: Session) -> None:
    """Require that the database answers and takes writes.

    Raises:
        LedgerUnavailable: it does not.
    """
    if session.get_bind().dialect.name != "postgresql":
        session.scalar(select(1))
    elif session.scalar(select(func.current_setting("transaction_read_only"))) == "on":
        raise LedgerUnavailable(NO_WRITES)


def allowed_connections(engine: Engine) -> int | None:
    """Return how many connections PostgreSQL allows ordinary users; None: SQLite sets no limit."""
    if engine.dialect.name != "postgresql":
        return None
    asked = text(
        "SELECT current_setting('max_connections')::int"
        " - current_setting('superuser_reserved_connections')::int"
    )
    with engine.connect() as connection:
        return int(connection.execute(asked).scalar_one())


def database_version(session: Session) -> str:
    """Return name and version of the ledger's database: `PostgreSQL 16.3`."""
    dialect = session.get_bind().dialect
    version = ".".join(str(part) for part in dialect.server_version_info or ())
    return f"{DATABASES.get(dialect.name, dialect.name)} {version}".strip()
