"""Rows that the database refuses to change or delete, as by a constraint of somebody else's."""

from sqlalchemy import Connection

ON_SQLITE = """
    CREATE TRIGGER poison_{table} BEFORE {act} ON {table} WHEN OLD.{key} = {number}
    BEGIN SELECT RAISE(ABORT, 'it is held'); END
"""
HOLD = """
    CREATE OR REPLACE FUNCTION hold() RETURNS trigger LANGUAGE plpgsql
    AS $$ BEGIN RAISE EXCEPTION 'it is held'; END $$
"""
ON_POSTGRESQL = """
    CREATE TRIGGER poison_{table} BEFORE {act} ON {table} FOR EACH ROW
    WHEN (OLD.{key} = {number}) EXECUTE FUNCTION hold()
"""


def poison(connection: Connection, act: str, table: str, number: int, key: str = "id") -> None:
    """Refuse an act, `UPDATE` or `DELETE`, on the rows of a table with this number."""
    statements = [ON_SQLITE] if connection.dialect.name == "sqlite" else [HOLD, ON_POSTGRESQL]
    for statement in statements:
        connection.exec_driver_sql(statement.format(act=act, table=table, number=number, key=key))


def cure(connection: Connection, table: str) -> None:
    """Take the refusal away."""
    of = "" if connection.dialect.name == "sqlite" else f" ON {table}"
    connection.exec_driver_sql(f"DROP TRIGGER poison_{table}{of}")
