"""Databases for tests: SQLite always, PostgreSQL where it answers.

`JOBAUTO_TEST_POSTGRESQL_URL` names another server. With `JOBAUTO_TEST_REQUIRE_SERVICES=1` a
server that does not answer fails the test instead of skipping it.
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

POSTGRESQL = os.environ.get(
    "JOBAUTO_TEST_POSTGRESQL_URL", "postgresql://postgres@127.0.0.1:5432/postgres"
)
KINDS = ("sqlite", "postgresql")


@contextmanager
def database(kind: str, directory: Path, template: str | None = None) -> Iterator[str]:
    """The URL of a database, gone afterwards; a copy of `template` (a URL), or empty."""
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
        finally:
            server.execute(sql.SQL("DROP DATABASE {} WITH (FORCE)").format(sql.Identifier(name)))


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
