"""Databases for tests: SQLite always, PostgreSQL and MariaDB where they answer.

`JOBAUTO_TEST_POSTGRESQL_URL` and `JOBAUTO_TEST_MARIADB_URL` name other servers. With
`JOBAUTO_TEST_REQUIRE_SERVICES=1` a server that does not answer fails the test instead of skipping
it.
"""

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

from tests.planted import check_postgresql

POSTGRESQL = os.environ.get(
    "JOBAUTO_TEST_POSTGRESQL_URL", "postgresql://postgres@127.0.0.1:5432/postgres"
)
MARIADB = os.environ.get("JOBAUTO_TEST_MARIADB_URL", "mysql+pymysql://root@127.0.0.1:3306")
KINDS = ("sqlite", "postgresql")


@contextmanager
def database(kind: str, directory: Path, template: str | None = None) -> Iterator[str]:
    """The URL of a database, gone afterwards; a copy of `template` (a URL), or empty.

    What is gone is searched for secrets before.
    """
    if kind == "sqlite":
        path = directory / "ledger.db"
        if template is not None:
            shutil.copy(template.removeprefix("sqlite:///"), path)
        yield f"sqlite:///{path}"
        return
    base, _, model = (template or f"{POSTGRESQL.rpartition('/')[0]}/template0").rpartition("/")
    name = f"jobauto_test_{uuid.uuid4().hex}"
    with _postgresql() as server:
        create = sql.SQL("CREATE DATABASE {} TEMPLATE {}")
        server.execute(create.format(sql.Identifier(name), sql.Identifier(model)))
        try:
            yield f"{base}/{name}"
            check_postgresql(f"{base}/{name}")
        finally:
            server.execute(sql.SQL("DROP DATABASE {} WITH (FORCE)").format(sql.Identifier(name)))


@contextmanager
def mariadb() -> Iterator[URL]:
    """The SQLAlchemy URL of an empty database of MariaDB, gone afterwards."""
    server = make_url(MARIADB)
    name = f"jobauto_test_{uuid.uuid4().hex}"
    engine = create_engine(
        server, connect_args={"connect_timeout": 5}, isolation_level="AUTOCOMMIT"
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
def _postgresql() -> Iterator[psycopg.Connection]:
    try:
        connection = psycopg.connect(POSTGRESQL, autocommit=True, connect_timeout=5)
    except psycopg.OperationalError as error:
        if os.environ.get("JOBAUTO_TEST_REQUIRE_SERVICES") == "1":
            raise
        pytest.skip(f"PostgreSQL does not answer: {error}")
    with connection:
        yield connection
