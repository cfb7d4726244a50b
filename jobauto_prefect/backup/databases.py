"""The two databases of an installation, of either kind: copying, inspecting, filling."""

import os
import shutil
import sqlite3
from collections.abc import Callable, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import psycopg

from jobauto_prefect.backup import dump_rows, postgresql, sqlite
from jobauto_prefect.backup.content import CHUNK, Content
from jobauto_prefect.backup.sqlite import Progress
from jobauto_prefect.engine.prefect_server.database import (
    make_prefect_tables,
    newest_prefect_revision,
    prefect_database_url,
)
from jobauto_prefect.errors import LedgerUnavailable
from jobauto_prefect.home import private_file
from jobauto_prefect.ledger.database import migration
from jobauto_prefect.ledger.database.engine import database_errors, make_engine
from jobauto_prefect.settings import Settings

SQLITE, POSTGRESQL = "sqlite", "postgresql"
LEDGER, PREFECT = "ledger", "prefect"
SUFFIXES = {SQLITE: "db", POSTGRESQL: "dump"}
AT_ONCE = 500  # values per statement


def member_name(database: str, kind: str) -> str:
    """Return the file name of a database of a kind in a backup."""
    return f"{database}.{SUFFIXES[kind]}"


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
        """Its file name in a backup."""
        return member_name(self.name, self.kind)

    @property
    def file(self) -> Path:
        """The database's file, for SQLite."""
        return sqlite.file_of(self.url)

    def dump(self, target: Path, progress: Progress) -> str:
        """Write its contents, as of one instant, to a new file; return which program wrote it."""
        if self.kind == SQLITE:
            sqlite.copy(self.file, target, progress)
            return f"sqlite {sqlite3.sqlite_version}"
        return postgresql.dump(self.url, target)

    def holds_anything(self) -> bool:
        """Whether it has contents or, for SQLite, whether its file exists."""
        if self.kind == SQLITE:
            return self.file.exists()
        return not postgresql.is_empty(self.url)

    def restore(self, made_by: str, open_content: Callable[[], Content]) -> None:
        """Create its tables by our own and Prefect's migrations, and fill them with rows.

        Raises:
            BackupDamaged: the content does not match such tables.
            NotReady: a program is missing, or the tables are of a newer version.
        """
        if self.kind == POSTGRESQL:
            dump_rows.restore(self.url, made_by, open_content, self.make_tables)
            return
        kept = self.file.with_name(f"{self.file.name}.kept")
        for path in (kept, self.file):
            os.close(private_file(str(path), os.O_WRONLY | os.O_CREAT | os.O_EXCL))
        with kept.open("wb") as file:
            shutil.copyfileobj(open_content(), file, CHUNK)
        self.make_tables(sqlite.revision_of(kept))
        sqlite.fill(self.file, kept)
        kept.unlink()

    @property
    def newest_revision(self) -> str:
        """The revision of its tables that this program, or this Prefect, works with."""
        if self.name == PREFECT:
            return newest_prefect_revision(self.kind)
        return migration.newest()

    def make_tables(self, revision: str) -> None:
        """Create its tables, or upgrade them, by our own or Prefect's migrations."""
        if self.name == PREFECT:
            make_prefect_tables(self.url.replace("sqlite:", "sqlite+aiosqlite:", 1), revision)
            return
        engine = make_engine(self.url)
        try:
            with database_errors():
                migration.upgrade(engine, revision)
        finally:
            engine.dispose()

    def is_same(self, other: "Database") -> bool:
        """Whether both are in one database of PostgreSQL."""
        both = {self.kind, other.kind} == {POSTGRESQL}
        return both and postgresql.same_database(self.url, other.url)

    def select(self, statement: str, values: Sequence[str] | None = None) -> list[tuple[Any, ...]]:
        """Return the rows of a statement, in which `{values}` stands for the list of values."""
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
                f"the database of {self.name} can't be read ({reason}); solve that and try again"
            ) from error


def databases_of(settings: Settings) -> tuple[Database, Database]:
    """Return Prefect's and the ledger's database by the settings, whether they exist or not."""
    return (
        Database(PREFECT, prefect_database_url(settings)),
        Database(LEDGER, settings.ledger_url),
    )
