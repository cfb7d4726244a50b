"""Databases for tests: SQLite always, PostgreSQL and MariaDB where they answer.

`JOBAUTO_TEST_POSTGRESQL_URL` and `JOBAUTO_TEST_MARIADB_URL` name other servers. With
`JOBAUTO_TEST_REQUIRE_SERVICES=1` a server that does not answer fails the test instead of skipping
it.
"""

import contextlib
import functools
import os
import shutil
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psycopg
import pytest
from psycopg import sql
from sqlalchemy import URL, create_engine, make_url
from sqlalchemy.exc import OperationalError

from jobauto_prefect.ledger.database import migration
from jobauto_prefect.ledger.database.engine import make_engine
from jobauto_prefect.settings import Settings
from tests.support.secrets import check_postgresql

POSTGRESQL = os.environ.get(
    "JOBAUTO_TEST_POSTGRESQL_URL", "postgresql://postgres@127.0.0.1:5432/postgres"
)
MARIADB = os.environ.get("JOBAUTO_TEST_MARIADB_URL", "mysql+pymysql://root@127.0.0.1:3306")
KINDS = ("sqlite", "postgresql")

both_databases = pytest.mark.parametrize("migrated", KINDS, indirect=True)
"""For tests of what differs in SQL: locks, claims, queues, lists, seals, tallies."""
on_sqlite = pytest.mark.parametrize("migrated", ["sqlite"], indirect=True)
WAITING_FOR_LOCKS = """
    SELECT count(*) FROM pg_stat_activity
    WHERE wait_event_type = 'Lock' AND datname = current_database()
"""
"""How many connections to a database of PostgreSQL wait for a lock."""

on_postgresql = pytest.mark.parametrize("migrated", ["postgresql"], indirect=True)


_unused: dict[str, list[str]] = {}
"""Copies on PostgreSQL that may be used again, by the name of their template."""

_kept: dict[str, psycopg.Connection] = {}
"""A connection to each copy; one that knows the tables already is many times as fast."""

FINGERPRINT = """
    SELECT md5(string_agg(part, ',' ORDER BY part)) FROM (
        SELECT concat(attrelid::regclass, attname, atttypid, attnotnull) FROM pg_attribute
            JOIN pg_class ON attrelid = pg_class.oid WHERE relnamespace = 'public'::regnamespace
        UNION ALL SELECT concat(relname, relacl) FROM pg_class
            WHERE relnamespace = 'public'::regnamespace
        UNION ALL SELECT concat(tgname, tgrelid::regclass, tgenabled) FROM pg_trigger
            WHERE NOT tgisinternal
        UNION ALL SELECT concat(conname, conrelid::regclass) FROM pg_constraint
            WHERE connamespace = 'public'::regnamespace
        UNION ALL SELECT concat(proname, md5(prosrc)) FROM pg_proc
            WHERE pronamespace = 'public'::regnamespace
        UNION ALL SELECT version_num FROM alembic_version
    ) AS parts (part)
"""
"""What a test may have changed of the tables themselves."""

EMPTY = """
    DO $$
    DECLARE name text;
    BEGIN
        FOR name IN SELECT tablename FROM pg_tables
            WHERE schemaname = 'public' AND tablename <> 'alembic_version'
        LOOP
            EXECUTE format('DELETE FROM %I', name);
        END LOOP;
        PERFORM setval(oid::regclass, 1, false) FROM pg_class
            WHERE relkind = 'S' AND relnamespace = 'public'::regnamespace;
    END $$
"""
"""All tables are empty and all numbers start at 1; `replica` leaves the triggers out.

For the few rows of a test that is many times as fast as TRUNCATE, which makes new files.
"""


@functools.cache
def usual_kind() -> str:
    """Return the kind of database of tests that name none: SQLite where PostgreSQL is away."""
    try:
        psycopg.connect(POSTGRESQL, connect_timeout=60).close()
    except psycopg.OperationalError:
        return "postgresql" if os.environ.get("JOBAUTO_TEST_REQUIRE_SERVICES") == "1" else "sqlite"
    return "postgresql"


@contextmanager
def database(kind: str, directory: Path, template: str | None = None) -> Iterator[str]:
    """The URL of a database; a copy of `template` (a URL, without rows), or empty.

    What it has afterwards is searched for secrets. Then it is gone, or if it is a copy on
    PostgreSQL and has the same tables still, emptied and kept for the next one who wants a copy:
    to make and drop one takes the server long.
    """
    if kind == "sqlite":
        path = directory / "ledger.db"
        if template is not None:
            shutil.copy(template.removeprefix("sqlite:///"), path)
        yield f"sqlite:///{path}"
        return
    base, _, model = (template or f"{POSTGRESQL.rpartition('/')[0]}/template0").rpartition("/")
    unused = _unused.setdefault(model, []) if template else []
    name = unused.pop() if unused else _created(model)
    try:
        yield f"{base}/{name}"
        connection = kept_connection(f"{base}/{name}")
        check_postgresql(connection)
        if template is not None and _emptied(connection, template):
            unused.append(name)
    finally:
        _drop([*_unused.pop(name, []), *([] if name in unused else [name])])


def kept_connection(url: str) -> psycopg.Connection:
    """Return the tests' own connection to a database of theirs, which stays open as long as it."""
    name = url.rpartition("/")[2]
    with contextlib.suppress(KeyError, psycopg.OperationalError):  # a test may have ended it
        _kept[name].execute("SELECT 1")
        return _kept[name]
    _kept[name] = psycopg.connect(url, autocommit=True)
    return _kept[name]


@contextmanager
def migrated_database(kind: str, directory: Path) -> Iterator[str]:
    """The URL of a database with our tables, to copy."""
    with database(kind, directory) as url:
        engine = make_engine(Settings(database_url=url).ledger_url)
        migration.upgrade(engine)
        engine.dispose()
        yield url


def _created(model: str) -> str:
    name = f"jobauto_test_{uuid.uuid4().hex}"
    create = sql.SQL("CREATE DATABASE {} TEMPLATE {}")
    with postgresql() as server:
        server.execute(create.format(sql.Identifier(name), sql.Identifier(model)))
    return name


@contextmanager
def database_of_encoding(encoding: str) -> Iterator[str]:
    """The URL of an empty database on PostgreSQL with this encoding."""
    name = f"jobauto_test_{uuid.uuid4().hex}"
    create = sql.SQL("CREATE DATABASE {} TEMPLATE template0 LOCALE 'C' ENCODING {}")
    with postgresql() as server:
        server.execute(create.format(sql.Identifier(name), encoding))
    try:
        yield f"{POSTGRESQL.rpartition('/')[0]}/{name}"
    finally:
        _drop([name])


def _drop(names: list[str]) -> None:
    if names:
        with postgresql() as server:
            for name in names:
                if name in _kept:
                    _kept.pop(name).close()
                drop = sql.SQL("DROP DATABASE {} WITH (FORCE)")
                server.execute(drop.format(sql.Identifier(name)))


def _emptied(connection: psycopg.Connection, template: str) -> bool:
    """Whether a copy is as its template again."""
    connection.execute(
        "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
        " WHERE datname = current_database() AND pid <> pg_backend_pid()"
    )
    if _fingerprint(connection) != _fingerprint_of(template):
        return False
    with connection.transaction():
        connection.execute("SET LOCAL session_replication_role = replica")
        connection.execute(EMPTY)
    return True


@functools.cache
def _fingerprint_of(url: str) -> str:
    with psycopg.connect(url) as connection:
        return _fingerprint(connection)


def _fingerprint(connection: psycopg.Connection) -> str:
    row = connection.execute(FINGERPRINT).fetchone()
    assert row is not None
    return str(row[0])


@contextmanager
def mariadb() -> Iterator[URL]:
    """The SQLAlchemy URL of an empty database of MariaDB, gone afterwards."""
    server = make_url(MARIADB)
    name = f"jobauto_test_{uuid.uuid4().hex}"
    engine = create_engine(
        server, connect_args={"connect_timeout": 60}, isolation_level="AUTOCOMMIT"
    )
    try:
        with engine.connect() as connection:
            connection.exec_driver_sql(f"CREATE DATABASE {name}")
            try:
                yield server.set(database=name)
            finally:
                connection.exec_driver_sql(f"DROP DATABASE {name}")
    except OperationalError as error:
        if os.environ.get("JOBAUTO_TEST_REQUIRE_SERVICES") == "1":
            raise
        pytest.skip(f"MariaDB does not answer: {error}")
    finally:
        engine.dispose()


@contextmanager
def postgresql() -> Iterator[psycopg.Connection]:
    """A connection to the server of PostgreSQL, as its superuser."""
    try:
        connection = psycopg.connect(POSTGRESQL, autocommit=True, connect_timeout=60)
    except psycopg.OperationalError as error:
        if os.environ.get("JOBAUTO_TEST_REQUIRE_SERVICES") == "1":
            raise
        pytest.skip(f"PostgreSQL does not answer: {error}")
    with connection:
        yield connection
