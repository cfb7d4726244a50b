"""A job's input files: written to its directory before it starts.

The directory may belong to a user whose other jobs are running. So every folder on the path is
opened from its parent and never through a link, and those jobs can't redirect the worker.
"""

import contextlib
import errno
import os
import re
from pathlib import PurePosixPath

from jobauto_prefect.errors import StartFailed, WorkerUnable
from jobauto_prefect.runtime.exit_codes import NOT_EXECUTABLE
from jobauto_prefect.runtime.protocol import TEMPORARY

FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
FILE = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC

NOTHING_WRITABLE = (errno.ENOSPC, errno.EDQUOT, errno.EROFS, errno.EIO)
"""Errors that are not due to the file's name."""

UNPLAIN = re.compile(r"[^\w./+@-]+")
"""Characters that would split or change an unquoted path in scripts."""

Owner = tuple[int, int]
"""uid and gid."""


def input_path(key: str, artifact_path: str) -> str:
    """Return the path of a key's input file, relative to the job's directory.

    It keeps its name, except for characters special to shells, as scripts don't quote paths.
    Nothing there counts as an artifact of the job.
    """
    name = UNPLAIN.sub("_", PurePosixPath(artifact_path).name)
    return f"{TEMPORARY}/inputs/{key}/{name if name not in ('', '..') else 'file'}"


def write_file(directory: str, path: str, content: bytes, owner: Owner | None) -> None:
    """Write a file at a path in a job's directory, readable only by its owner.

    Raises:
        StartFailed: it can't be written, or the path is not in the directory.
        WorkerUnable: nothing can be written just now.
    """
    *folders, name = PurePosixPath(path).parts or ("",)
    if not name or path.startswith("/") or ".." in (*folders, name):
        raise StartFailed(f"{path} is not a path in a job's directory", NOT_EXECUTABLE)
    try:
        with contextlib.ExitStack() as stack:
            folder = _open(stack, directory, None)
            for below in folders:
                made = _make(below, folder)
                folder = _open(stack, below, folder)
                if made and owner is not None:
                    os.fchown(folder, *owner)
            with open(os.open(name, FILE, 0o600, dir_fd=folder), "wb") as file:  # noqa: PTH123
                if owner is not None:
                    os.fchown(file.fileno(), *owner)
                file.write(content)
    except OSError as error:
        if error.errno in NOTHING_WRITABLE:
            raise WorkerUnable(f"{path} can't be written: {error.strerror}", "disk") from None
        raise StartFailed(f"{path} can't be written: {error.strerror}", NOT_EXECUTABLE) from None


def _make(folder: str, above: int) -> bool:
    """Create a folder; return False if it existed."""
    try:
        os.mkdir(folder, 0o700, dir_fd=above)
    except FileExistsError:
        return False
    return True


def _open(stack: contextlib.ExitStack, folder: str, above: int | None) -> int:
    descriptor = os.open(folder, FOLDER, dir_fd=above)
    stack.callback(os.close, descriptor)
    return descriptor
