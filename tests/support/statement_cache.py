"""SQL of one test is not compiled anew for the next one.

SQLAlchemy keeps what it has compiled for each engine, and each test has an engine of its own: a
third of the time of the tests went there.
"""

from typing import Any

from sqlalchemy import Connection, Engine, event
from sqlalchemy.dialects.postgresql.psycopg import PGDialect_psycopg
from sqlalchemy.dialects.sqlite.pysqlite import SQLiteDialect_pysqlite
from sqlalchemy.util import LRUCache

DIALECTS = (PGDialect_psycopg, SQLiteDialect_pysqlite)
STATEMENTS = 2000

_compiled: dict[type, LRUCache[Any, Any]] = {
    dialect: LRUCache(capacity=STATEMENTS) for dialect in DIALECTS
}


def pytest_configure() -> None:
    """Let all engines of a kind of database share what was compiled; dialects of a kind equal."""
    event.listen(Engine, "engine_connect", _use_shared_cache)
    for dialect in DIALECTS:
        dialect.__eq__ = _are_alike  # type: ignore[method-assign, assignment]
        dialect.__hash__ = _hash_of_kind  # type: ignore[method-assign, assignment]


def _use_shared_cache(connection: Connection) -> None:
    shared = _compiled.get(type(connection.dialect))
    if shared is not None:
        connection.engine._compiled_cache = shared


def _are_alike(dialect: object, other: object) -> bool:
    return type(dialect) is type(other)


def _hash_of_kind(dialect: object) -> int:
    return hash(type(dialect))
