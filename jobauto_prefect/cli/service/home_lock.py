"""The lock of a home: held by the service that runs in it, with its addresses for the others."""

import contextlib
import fcntl
import json
from collections.abc import Iterator, Mapping
from pathlib import Path

from jobauto_prefect.errors import Conflict
from jobauto_prefect.home import private_file

LOCK = "up.lock"


@contextlib.contextmanager
def hold_home(home: Path, addresses: Mapping[str, str]) -> Iterator[int]:
    """Lock a home for a service with these addresses (settings, by name).

    The lock lasts as long as the file with the returned number is open.

    Raises:
        Conflict: another process holds it.
    """
    with open(home / LOCK, "a", opener=private_file) as file:
        if not _try_lock(file.fileno(), fcntl.LOCK_EX):
            raise Conflict(
                f"jobauto up runs with {home} already; stop it, or name another JOBAUTO_HOME"
            )
        file.truncate(0)
        file.write(json.dumps(dict(addresses)))
        file.flush()
        yield file.fileno()


def read_addresses(home: Path) -> dict[str, str]:
    """Read the addresses of the service that runs in a home now; empty where none does."""
    try:
        with (home / LOCK).open() as file:
            if _try_lock(file.fileno(), fcntl.LOCK_SH):
                return {}
            addresses: dict[str, str] = json.load(file)
            return addresses
    except (OSError, ValueError):
        return {}


def _try_lock(descriptor: int, how: int) -> bool:
    try:
        fcntl.flock(descriptor, how | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True
