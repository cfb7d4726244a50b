"""Prefect's database as it is before anything has happened: to migrate one takes seconds."""

import fcntl
import functools
import os
import shutil
import sqlite3
import subprocess
import sys
import tempfile
from contextlib import closing
from importlib.metadata import version
from pathlib import Path

from jobauto_prefect.engine.prefect_server.process import QUIET
from jobauto_prefect.home import make_folder
from tests.support.paths import ROOT
from tests.support.processes import clean_environment

KEPT = ROOT / ".pytest_cache" / "d" / "prefect"
"""Where it is kept for the next run of the tests."""


def provide_prefect_database(home: Path) -> None:
    """Give the Prefect server of a home tables, where it has none."""
    path = home / "prefect" / "prefect.db"
    if not path.exists():
        make_folder(path.parent)
        shutil.copyfile(_migrated(), path)
        path.chmod(0o600)


@functools.cache
def _migrated() -> Path:
    """The database of this version of Prefect; one of the tests' processes makes it for all."""
    KEPT.mkdir(parents=True, exist_ok=True)
    path = KEPT / f"{version('prefect')}.db"
    with (KEPT / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not path.exists():
            _migrate(path)
    return path


def _migrate(path: Path) -> None:
    with tempfile.TemporaryDirectory(dir=KEPT) as home:
        subprocess.run(
            [sys.executable, "-m", "prefect", "server", "database", "upgrade", "-y"],
            env=clean_environment() | QUIET | {"PREFECT_HOME": home},
            check=True,
            capture_output=True,
        )
        made = Path(home) / "prefect.db"
        with closing(sqlite3.connect(made)) as connection:
            connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        os.replace(made, path)  # noqa: PTH105 - whole or not at all
