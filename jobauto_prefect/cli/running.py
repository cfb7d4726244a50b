"""Which service runs in a home: a lock for whoever runs it, and its addresses for the others."""

import contextlib
import fcntl
import json
from collections.abc import Iterator, Mapping
from pathlib import Path

from jobauto_prefect.errors import Conflict
from jobauto_prefect.home import private_file

LOCK = "up.lock"


@contextlib.contextmanager
def holding(home: Path, addresses: Mapping[str, str]) -> Iterator[int]:
    """Hold a home that is there for this process, whose service has these addresses (settings, by
    name). Whoever has the file with this number open holds it.

    Raises:
        Conflict: another process holds it.
    """
    with open(home / LOCK, "a", opener=private_file) as file:
        if not _take(file.fileno(), fcntl.LOCK_EX):
            raise Conflict(
                f"jobauto up runs with {home} already; stop it, or name another JOBAUTO_HOME"
            )
        file.truncate(0)
        file.write(json.dumps(dict(addresses)))
        file.flush()
        yield file.fileno()


def addresses_in(home: Path) -> dict[str, str]:
    """The addresses of the service that runs in a home now; empty where none does."""
    try:
        with (home / LOCK).open() as file:
            if _take(file.fileno(), fcntl.LOCK_SH):
                return {}
            addresses: dict[str, str] = json.load(file)
            return addresses
    except (OSError, ValueError):
        return {}


def _take(descriptor: int, how: int) -> bool:
    try:
        fcntl.flock(descriptor, how | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True
