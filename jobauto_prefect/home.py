"""The home and the files of this service: closed to all other users of the machine.

The ledger holds hashes of passwords and other companies' output, and native jobs may run as other
users (`--run-as`). New files are created closed, and open ones are closed at a start, except for a
home that was manually opened for traversal only (0711).
"""

import contextlib
import os
import stat
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from jobauto_prefect.errors import NotReady

if TYPE_CHECKING:
    from jobauto_prefect.settings import Settings

PRIVATE = 0o700
PASSABLE = 0o711
OTHERS = 0o077
READ_OR_WRITE = 0o066
"""Permissions on a folder for others than its owner, apart from traversal."""


RESTORING = "restore.incomplete"
"""Exists from the beginning of a restoration into a home until it is complete."""


def make_home(settings: "Settings") -> None:
    """Create the home if it is missing, and close what is open.

    Raises:
        NotReady: a backup was being restored into it.
    """
    require_whole(settings.home)
    make_folder(settings.home)
    close_home(settings)


def require_whole(home: Path) -> None:
    """Require that no incomplete backup is in a home.

    Raises:
        NotReady: the restoration was interrupted; the message says what to do.
    """
    with contextlib.suppress(OSError):
        helps = (home / RESTORING).read_text().strip()
        raise NotReady(f"jobauto restore into {home} did not finish; {helps}")


def close_home(settings: "Settings") -> None:
    """Close what is open to others, as far as this user may."""
    for path in open_paths(settings):
        with contextlib.suppress(OSError):
            path.chmod(_mode(path) & ~OTHERS)


def open_paths(settings: "Settings") -> Iterator[Path]:
    """Yield the parts of the home, its files and logs, and of the ledger that others can access.

    Not the key: if others can read it, it is refused, because they may have done so. Not the
    folders of jobs and of Helm, which have other modes.
    """
    home = settings.home
    if _is(stat.S_ISDIR, home) and not _is_shared(home) and _mode(home) & READ_OR_WRITE:
        yield home
    folders = [home / "logs", home / "prefect"]
    yield from (path for path in folders if _is(stat.S_ISDIR, path) and _mode(path) & OTHERS)
    files = {*_ledger_files(settings), *_listed(home), *_listed(home / "logs")}
    for path in sorted(files - {settings.key_path}):
        if _is(stat.S_ISREG, path) and _mode(path) & OTHERS:
            yield path


def make_folder(folder: Path, mode: int = PRIVATE) -> None:
    """Create a missing folder and its missing parents, all with this mode."""
    missing = [path for path in (folder, *folder.parents) if not path.exists()]
    for path in reversed(missing):
        with contextlib.suppress(FileExistsError):
            path.mkdir(mode)
            path.chmod(mode)  # regardless of the umask


def sync_folder(folder: Path) -> None:
    """Return when the names of a folder's files are on disk: a rename would be lost by a crash."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def private_file(path: str, flags: int) -> int:
    """Open a file, which only its owner may access if it is new: an opener (see `open`)."""
    return os.open(path, flags, 0o600)


def _ledger_files(settings: "Settings") -> list[Path]:
    kind, _, path = settings.ledger_url.partition("?")[0].partition(":///")
    if not kind.startswith("sqlite") or not path:
        return []
    return [Path(path + suffix) for suffix in ("", "-wal", "-shm", "-journal")]


def _listed(folder: Path) -> list[Path]:
    try:
        return list(folder.iterdir())
    except OSError:
        return []


def _is_shared(folder: Path) -> bool:
    """Whether the folder is meant for many users, like /tmp."""
    return bool(folder.stat().st_mode & stat.S_ISVTX)


def _is(kind: Callable[[int], bool], path: Path) -> bool:
    """Whether the path itself is of a kind: anybody may own a link's target."""
    try:
        return kind(path.lstat().st_mode)
    except OSError:
        return False


def _mode(path: Path) -> int:
    return stat.S_IMODE(path.lstat().st_mode)
