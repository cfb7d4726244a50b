"""The Unix socket at which the facade of a home answers this machine's command line.

It is in a folder of the home that only its owner may access. The address of a socket has at most
107 bytes, so it is opened relative to that folder, however long the path of the home is.
"""

import contextlib
import fcntl
import json
import os
import socket
import struct
from collections.abc import Iterator, Mapping
from pathlib import Path

from jobauto_prefect.home import PRIVATE, make_folder, private_file

FOLDER = "run"
NAME = "facade.sock"
LOCK = "facade.lock"
"""Held by the listener; names the database of that facade."""

BACKLOG = 128
DATABASE = ("DB_CONNECTION", "DB_HOST", "DB_PORT", "DB_DATABASE", "JOBAUTO_DATABASE_URL")


def database_environment(environment: Mapping[str, str]) -> dict[str, str]:
    """Return the variables for the ledger's database in an environment, without its password."""
    return {
        name: environment[name].rpartition("@")[2] for name in DATABASE if environment.get(name)
    }


@contextlib.contextmanager
def listen(home: Path) -> Iterator[socket.socket | None]:
    """Listen at a socket in a home; None: another facade has it, or sockets are not supported.

    The socket of a killed facade is replaced.
    """
    if not hasattr(socket, "SO_PEERCRED"):
        yield None
        return
    folder = home / FOLDER
    make_folder(folder)
    folder.chmod(PRIVATE)
    with open(folder / LOCK, "a", opener=private_file) as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            yield None
            return
        lock.truncate(0)
        lock.write(json.dumps(database_environment(os.environ)))
        lock.flush()
        with _bound(folder) as listener:
            yield listener
        (folder / NAME).unlink(missing_ok=True)


@contextlib.contextmanager
def _bound(folder: Path) -> Iterator[socket.socket]:
    (folder / NAME).unlink(missing_ok=True)
    with socket.socket(socket.AF_UNIX) as listener, _address(folder) as address:
        before = os.umask(0o177)  # created with mode 0600, so nobody else can ever connect
        try:
            listener.bind(address)
        finally:
            os.umask(before)
        listener.listen(BACKLOG)
        yield listener


def connect(home: Path) -> socket.socket | None:
    """Connect to the facade of a home; None: there is none, or it has another database.

    The database matters if the environment of this process names one.
    """
    folder = home / FOLDER
    database = database_environment(os.environ)
    connection = socket.socket(socket.AF_UNIX)
    try:
        if not database or database == json.loads((folder / LOCK).read_text()):
            with _address(folder) as address:
                connection.connect(address)
            return connection
    except (OSError, ValueError):
        pass  # nobody listens: the file is missing, or a killed facade left it
    connection.close()
    return None


def is_answering(home: Path) -> bool:
    """Whether a facade with this process's database listens in a home."""
    connection = connect(home)
    if connection is not None:
        connection.close()
    return connection is not None


@contextlib.contextmanager
def _address(folder: Path) -> Iterator[str]:
    descriptor = os.open(folder, os.O_PATH | os.O_DIRECTORY)
    try:
        yield f"/proc/self/fd/{descriptor}/{NAME}"
    finally:
        os.close(descriptor)


def peer_user_id(connection: socket.socket) -> int:
    """Return the user id of the process at the other end, from the kernel."""
    credentials = connection.getsockopt(
        socket.SOL_SOCKET, socket.SO_PEERCRED, struct.calcsize("3i")
    )
    _, user_id, _ = struct.unpack("3i", credentials)
    return int(user_id)
