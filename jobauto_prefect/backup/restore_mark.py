"""The mark of a home into which a backup is being restored, and the folder it starts in."""

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from jobauto_prefect.errors import BackupDamaged, NotReady
from jobauto_prefect.home import PRIVATE, RESTORING, private_file

FOLDER = ".restoring"


@dataclass(slots=True)
class RestoreMark:
    """`is_binding`: something is in its final place; a failure from then on leaves the mark."""

    staging: Path
    is_binding: bool = False


@contextmanager
def mark_home(home: Path, helps: str) -> Iterator[RestoreMark]:
    """Mark a home while the block runs; a process that is killed in it leaves the mark.

    A failure before anything is in its final place leaves nothing. `helps` says what to do
    otherwise.

    Raises:
        NotReady: something can't be written.
        BackupDamaged: the block raised it; with `helps` if something is in its final place.
    """
    marker, mark = home / RESTORING, RestoreMark(home / FOLDER)
    write_new(marker, helps)
    mark.staging.mkdir(PRIVATE)
    try:
        yield mark
        shutil.rmtree(mark.staging)
        os.sync()  # everything in place is on the disk before the mark is removed
        marker.unlink()
    except BaseException as error:
        if not mark.is_binding:
            shutil.rmtree(mark.staging, ignore_errors=True)
            marker.unlink(missing_ok=True)
        if isinstance(error, OSError):
            reason = error.strerror or str(error)
            left = helps if mark.is_binding else "solve that, and restore again"
            raise NotReady(f"the backup can't be restored into {home}: {reason}; {left}") from error
        if isinstance(error, BackupDamaged) and mark.is_binding:
            raise BackupDamaged(f"{error}; {helps}") from error
        raise


def write_new(path: Path, content: str) -> None:
    """Write a new file, 0600, to the disk."""
    with open(path, "x", opener=private_file) as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())
