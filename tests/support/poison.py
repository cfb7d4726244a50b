"""Rows that the database refuses to write or delete, as by a constraint of somebody else's."""

import contextlib
import sqlite3
from collections.abc import Iterator
from pathlib import Path

from sqlalchemy import Connection

ON_SQLITE = """
    CREATE TRIGGER poison_{table} BEFORE {act} ON {table} WHEN {row}.{key} = {number}
    BEGIN SELECT RAISE(ABORT, 'it is held'); END
"""
HOLD = """
    CREATE OR REPLACE FUNCTION hold() RETURNS trigger LANGUAGE plpgsql
    AS $$ BEGIN RAISE EXCEPTION 'it is held'; END $$
"""
ON_POSTGRESQL = """
    CREATE TRIGGER poison_{table} BEFORE {act} ON {table} FOR EACH ROW
    WHEN ({row}.{key} = {number}) EXECUTE FUNCTION hold()
"""


def poison(connection: Connection, act: str, table: str, number: int, key: str = "id") -> None:
    """Refuse an act, `INSERT`, `UPDATE` or `DELETE`, on the rows of a table with this number."""
    row = "NEW" if act == "INSERT" else "OLD"
    statements = [ON_SQLITE] if connection.dialect.name == "sqlite" else [HOLD, ON_POSTGRESQL]
    for statement in statements:
        connection.exec_driver_sql(
            statement.format(act=act, table=table, number=number, key=key, row=row)
        )


def cure(connection: Connection, table: str) -> None:
    """Take the refusal away."""
    of = "" if connection.dialect.name == "sqlite" else f" ON {table}"
    connection.exec_driver_sql(f"DROP TRIGGER poison_{table}{of}")


IN_PREFECT = {
    409: "SELECT RAISE(ABORT, 'it is held')",
    500: "SELECT json('{')",  # which is no JSON
}
"""What Prefect answers where its database stumbles over this."""


@contextlib.contextmanager
def poisoned_prefect(
    folder: Path, act: str, table: str, poisoned: dict[object, int], key: str = "id"
) -> Iterator[None]:
    """Have Prefect answer with these statuses where it would write or delete such rows."""
    row = "NEW" if act == "INSERT" else "OLD"
    names = {value: f"poison_{number}" for number, value in enumerate(poisoned)}
    with _database(folder) as database:
        for value, status in poisoned.items():
            database.execute(
                f"CREATE TRIGGER {names[value]} BEFORE {act} ON {table}"
                f" WHEN {row}.{key} = '{value}' BEGIN {IN_PREFECT[status]}; END"
            )
    try:
        yield
    finally:
        with _database(folder) as database:
            for name in names.values():
                database.execute(f"DROP TRIGGER {name}")


@contextlib.contextmanager
def unreadable_in_prefect(folder: Path, table: str, column: str, value: object) -> Iterator[None]:
    """Have a row in Prefect's database that its own code can't read."""
    with _database(folder) as database:
        query = f"SELECT {column} FROM {table} WHERE id = ?"
        (former,) = database.execute(query, (str(value),)).fetchone()
    change = f"UPDATE {table} SET {column} = ? WHERE id = ?"
    with _database(folder) as database:
        database.execute(change, ("{", str(value)))
    try:
        yield
    finally:
        with _database(folder) as database:
            database.execute(change, (former, str(value)))


@contextlib.contextmanager
def _database(folder: Path) -> Iterator[sqlite3.Connection]:
    path = folder / "prefect" / "prefect.db"
    with contextlib.closing(sqlite3.connect(path, timeout=30)) as connection, connection:
        yield connection
