"""Ledgers as a former version made them, to be upgraded."""

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import sqlalchemy as sa
from alembic import command
from alembic.config import Config

from jobauto_prefect.ledger.database import migration
from jobauto_prefect.ledger.database.engine import make_engine
from jobauto_prefect.settings import Settings
from tests.support.databases import database


def version_before(migration_name: str) -> str:
    """The version that a migration, by the end of its file's name, upgrades from."""
    file = next((migration.MIGRATIONS / "versions").glob(f"*_{migration_name}.py"))
    return f"{int(file.name[:4]) - 1:04}"


@contextmanager
def former_ledger(kind: str, directory: Path, version: str) -> Iterator[sa.Engine]:
    """A database, without rows, with the tables of a version; gone afterwards."""
    with database(kind, directory) as url:
        engine = make_engine(Settings(home=directory, database_url=url).ledger_url)
        config = Config()
        config.set_main_option("script_location", str(migration.MIGRATIONS))
        with engine.execution_options(jobauto_writes=True).begin() as connection:
            config.attributes["connection"] = connection
            command.upgrade(config, version)
        yield engine
        engine.dispose()


class Rows:
    """Writes rows of old tables; columns that need a value and are not said get an empty one."""

    def __init__(self, connection: sa.Connection) -> None:
        self._connection = connection
        self._metadata = sa.MetaData()

    def add(self, table: str, **values: Any) -> int:
        """A new row; its id."""
        of = {"autoload_with": self._connection, "resolve_fks": False}
        reflected = sa.Table(table, self._metadata, **of)
        empty = {
            column.name: _empty(column)
            for column in reflected.columns
            if not column.nullable and column.server_default is None and not column.primary_key
        }
        statement = sa.insert(reflected).values(**{**empty, **values})
        key = self._connection.execute(statement).inserted_primary_key
        assert key is not None
        return int(key[0])


def _empty(column: sa.Column[Any]) -> Any:
    kinds: dict[type[Any], Any] = {
        sa.JSON: {}, sa.DateTime: datetime.now(UTC), sa.Boolean: False, sa.Integer: 0,
        sa.Float: 0.0,
    }  # fmt: skip
    return next((value for kind, value in kinds.items() if isinstance(column.type, kind)), "")
