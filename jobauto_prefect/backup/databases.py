"""The two databases of an installation, of either kind: copied, looked at, filled."""

import shutil
import sqlite3
from collections.abc import Sequence
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any

import psycopg

from jobauto_prefect.backup import postgresql, sqlite
from jobauto_prefect.backup.sqlite import Progress
from jobauto_prefect.engine.prefect_server.database import prefect_database_url
from jobauto_prefect.errors import LedgerUnavailable
from jobauto_prefect.home import make_folder, private_file
from jobauto_prefect.settings import Settings

SQLITE, POSTGRESQL = "sqlite", "postgresql"
LEDGER, PREFECT = "ledger", "prefect"
SUFFIXES = {SQLITE: "db", POSTGRESQL: "dump"}
AT_ONCE = 500  # values in a statement


@dataclass(frozen=True, slots=True)
class Database:
    """The ledger's database or Prefect's, by its SQLAlchemy URL with any driver."""

    name: str
    url: str = field(repr=False)

    @property
    def kind(self) -> str:
        """`sqlite` or `postgresql`."""
        return SQLITE if self.url.startswith("sqlite") else POSTGRESQL

    @property
    def member(self) -> str:
        """What it is called in a backup."""
        return f"{self.name}.{SUFFIXES[self.kind]}"

    @property
    def file(self) -> Path:
        """The database's file, where it is SQLite."""
        return sqlite.file_of(self.url)

    def dump(self, target: Path, progress: Progress) -> str:
        """Write what is in it, as of one instant, to a new file; return what wrote it."""
        if self.kind == SQLITE:
            sqlite.copy(self.file, target, progress)
            return f"sqlite {sqlite3.sqlite_version}"
        return postgresql.dump(self.url, target)

    def holds_anything(self) -> bool:
        """Whether there is something in it, or, of SQLite, its file."""
        if self.kind == SQLITE:
            return self.file.exists()
        return not postgresql.is_empty(self.url)

    def restore(self, made_by: str, content: IO[bytes]) -> None:
        """Fill it."""
        if self.kind == POSTGRESQL:
            postgresql.restore(self.url, made_by, content)
            return
        make_folder(self.file.parent)
        with open(self.file, "xb", opener=private_file) as file:
            shutil.copyfileobj(content, file, 2**20)

    def is_same(self, other: "Database") -> bool:
        """Whether both are in one database of PostgreSQL."""
        both = {self.kind, other.kind} == {POSTGRESQL}
        return both and postgresql.same_database(self.url, other.url)

    def select(self, statement: str, values: Sequence[str] | None = None) -> list[tuple[Any, ...]]:
        """Return the rows of a statement; `{values}` in it stands for the list of values."""
        if values is None:
            return self._select(statement, ())
        pages = (values[at : at + AT_ONCE] for at in range(0, len(values), AT_ONCE))
        mark = "?" if self.kind == SQLITE else "%s"
        return [
            row
            for page in pages
            for row in self._select(
                statement.format(values=", ".join(mark for _ in page)), tuple(page)
            )
        ]

    def _select(self, statement: str, values: tuple[str, ...]) -> list[tuple[Any, ...]]:
        try:
            if self.kind == SQLITE:
                with closing(sqlite3.connect(self.file)) as connection:
                    return connection.execute(statement, values).fetchall()
            with postgresql.connect(self.url) as opened:
                return opened.execute(statement.encode(), values or None).fetchall()
        except (sqlite3.Error, psycopg.Error) as error:
            reason = str(error).splitlines()[0]
            raise LedgerUnavailable(
                f"the database of {self.name} can't be read ({reason}); see to it and try again"
            ) from error


def databases_of(settings: Settings) -> tuple[Database, Database]:
    """Return Prefect's and the ledger's, as the settings name them, whether there or not."""
    return (
        Database(PREFECT, prefect_database_url(settings)),
        Database(LEDGER, settings.ledger_url),
    )
