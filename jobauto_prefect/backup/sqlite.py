"""Copies of SQLite databases while others write to them."""

import os
import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from urllib.parse import quote

from jobauto_prefect.errors import LedgerUnavailable
from jobauto_prefect.home import private_file

Progress = Callable[[int, int], None]
"""Called with how much is done, and of how much."""

PAGES = 4096
"""Copied in one step: 16 MiB where pages have 4 KiB."""


def file_of(url: str) -> Path:
    """Return the file of an SQLAlchemy URL of SQLite."""
    return Path(url.partition("?")[0].partition(":///")[2])


def copy(source: Path, target: Path, progress: Progress) -> None:
    """Copy a database as it is at one instant into a new file, 0600; no writer waits for it.

    The read transaction that is held keeps SQLite from beginning anew at each write of others.

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
