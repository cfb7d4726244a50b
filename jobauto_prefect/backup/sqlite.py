"""Copies SQLite databases while others write to them, and their rows to tables of our own."""

import os
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from urllib.parse import quote

from jobauto_prefect.errors import BackupDamaged, LedgerUnavailable
from jobauto_prefect.home import private_file

Progress = Callable[[int, int], None]
"""Called with how much is done, and of how much."""

VERSION_TABLE = "alembic_version"
"""The version table of the ledger and of Prefect."""

PAGES = 4096
"""Pages copied per step: 16 MiB if pages have 4 KiB."""


def file_of(url: str) -> Path:
    """Return the file of an SQLAlchemy URL for SQLite."""
    return Path(url.partition("?")[0].partition(":///")[2])


def copy(source: Path, target: Path, progress: Progress) -> None:
    """Copy a database, as of one instant, to a new file, 0600, without blocking writers.

    An open read transaction keeps SQLite from starting over whenever others write.

    Raises:
        LedgerUnavailable: it can't be read.
    """
    os.close(private_file(str(target), os.O_WRONLY | os.O_CREAT | os.O_EXCL))
    address = f"file:{quote(str(source.absolute()))}?mode=rw"
    try:
        with (
            closing(sqlite3.connect(address, uri=True, isolation_level=None)) as read,
            closing(sqlite3.connect(target)) as written,
        ):
            read.execute("PRAGMA busy_timeout = 30000")
            read.execute("BEGIN")
            read.execute("SELECT count(*) FROM sqlite_master").fetchone()
            read.backup(written, pages=PAGES, progress=lambda _, left, of: progress(of - left, of))
    except sqlite3.Error as error:
        raise LedgerUnavailable(f"{source} can't be copied: {error}; try again") from error


def revision_of(kept: Path) -> str:
    """Return the revision of the tables in a copy.

    Raises:
        BackupDamaged: it has no revision.
    """
    with _opened(":memory:", kept) as connection:
        _columns(connection, "kept", VERSION_TABLE)
        row = connection.execute(f"SELECT version_num FROM kept.{VERSION_TABLE}").fetchone()  # noqa: S608
    if row is None or not isinstance(row[0], str):
        raise BackupDamaged(f"{kept.name} has no version; take a backup of a whole installation")
    return row[0]


def fill(target: Path, kept: Path) -> None:
    """Copy the rows of a copy to the same tables of another database, replacing its rows.

    Only rows are copied: no trigger, view, index, default or generated column.

    Raises:
        BackupDamaged: a table is missing in the copy, or its rows do not fit.
    """
    with _opened(target, kept) as connection:
        connection.execute("BEGIN")
        triggers = connection.execute(
            "SELECT name, sql FROM main.sqlite_master WHERE type = 'trigger' ORDER BY rowid"
        ).fetchall()
        for name, _ in triggers:
            connection.execute(f"DROP TRIGGER main.{_quoted(name)}")
        tables = connection.execute(
            "SELECT name FROM main.sqlite_master WHERE type = 'table' AND name <> ?"
            " AND name NOT LIKE 'sqlite!_%' ESCAPE '!'",
            (VERSION_TABLE,),
        )
        for (table,) in tables.fetchall():
            wanted = _columns(connection, "main", table)
            _columns(connection, "kept", table, wanted)
            columns = ", ".join(map(_quoted, wanted))
            connection.execute(f"DELETE FROM main.{_quoted(table)}")  # noqa: S608 - of our own tables
            connection.execute(
                f"INSERT INTO main.{_quoted(table)} ({columns})"  # noqa: S608
                f" SELECT {columns} FROM kept.{_quoted(table)}"
            )
        for _, statement in triggers:
            connection.execute(statement)
        connection.execute("COMMIT")


@contextmanager
def _opened(target: Path | str, kept: Path) -> Iterator[sqlite3.Connection]:
    """Open a database, and attach a read-only copy as `kept`.

    No function that the copy may call has effects: none is added, and no extension is loaded.
    """
    try:
        with closing(sqlite3.connect(target, isolation_level=None, uri=True)) as connection:
            connection.execute("PRAGMA cell_size_check = ON")
            address = f"file:{quote(str(kept.absolute()))}?mode=ro&immutable=1"
            connection.execute("ATTACH ? AS kept", (address,))
            yield connection
    except sqlite3.Error as error:
        raise BackupDamaged(
            f"the rows of {kept.name} do not fit its tables ({error}); take another backup"
        ) from error


def _columns(
    connection: sqlite3.Connection, schema: str, table: str, wanted: list[str] | None = None
) -> list[str]:
    """Return the columns of a table that are stored, not generated.

    Raises:
        BackupDamaged: it is not a table, or lacks a wanted column.
    """
    kinds = connection.execute(f"PRAGMA {schema}.table_list({_quoted(table)})").fetchall()
    found = connection.execute(f"PRAGMA {schema}.table_xinfo({_quoted(table)})").fetchall()
    stored = [name for _, name, _, _, _, _, hidden in found if not hidden]
    missing = set(wanted or ()) - set(stored)
    if [row[2] for row in kinds if row[0] == schema] != ["table"] or missing:
        what = f"column {min(missing)}" if missing else "rows"
        raise BackupDamaged(
            f"the table {table} has no {what} in the backup; take one of a whole installation"
        )
    return stored


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'
