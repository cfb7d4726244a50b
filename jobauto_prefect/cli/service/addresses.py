"""The addresses of a home's service: its ports, its lock, and what people open."""

import contextlib
import fcntl
import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from jobauto_prefect.errors import Conflict
from jobauto_prefect.home import private_file
from jobauto_prefect.variables import home, variable

if TYPE_CHECKING:
    from jobauto_prefect.settings import Settings

LOCK = "up.lock"


@contextlib.contextmanager
def hold_home(home: Path, addresses: Mapping[str, str]) -> Iterator[int]:
    """Lock a home for a service with these addresses (settings by name).

    The lock lasts while the returned file descriptor is open.

    Raises:
        Conflict: another process holds it.
    """
    with open(home / LOCK, "a", opener=private_file) as file:
        if not _try_lock(file.fileno(), fcntl.LOCK_EX):
            raise Conflict(
                f"jobauto up already runs with {home}; stop it, or set another JOBAUTO_HOME"
            )
        file.truncate(0)
        file.write(json.dumps(dict(addresses)))
        file.flush()
        yield file.fileno()


def read_addresses(home: Path) -> dict[str, str]:
    """Read the addresses of the service running in a home; empty if there is none."""
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


FILE = "ports.json"
NAMES = ("api_port", "prefect_port")


def choose_ports(settings: "Settings", given: Mapping[str, int | None]) -> dict[str, int]:
    """Choose the ports to start with, by the names of their settings.

    Missing ones are the defaults.
    """
    ports = dict(read_ports(settings.home))
    ports |= {name: getattr(settings, name) for name in NAMES if name in settings.model_fields_set}
    return ports | {name: port for name, port in given.items() if port is not None}


def read_ports(home: Path) -> dict[str, int]:
    """Read the ports of the last start; empty if there was none."""
    try:
        kept = json.loads((home / FILE).read_text())
        return {name: int(kept[name]) for name in NAMES}
    except (OSError, ValueError, KeyError, TypeError):
        return {}


def save_ports(settings: "Settings") -> None:
    """Store the ports for the next start."""
    with open(settings.home / FILE, "w", opener=private_file) as file:
        json.dump({name: getattr(settings, name) for name in NAMES}, file)


CONSOLE = "/"
PAGES = "/api/v1/index.html"
DOCUMENTATION = "/docs"
DEFAULT_PORTS: Mapping[str, int] = {"api_port": 8000, "prefect_port": 4200}


def public_addresses(url: str, prefect_ui: str) -> dict[str, str]:
    """Return what people open, by name."""
    return {
        "Console": url + CONSOLE,
        "Prefect UI": prefect_ui,
        "Pages": url + PAGES,
        "REST docs": url + DOCUMENTATION,
    }


def help_epilog() -> str:
    """Return the end of `jobauto --help`."""
    folder = home()
    running = read_addresses(folder)
    ports = {**DEFAULT_PORTS, **read_ports(folder)}
    url = running.get("url") or variable("JOBAUTO_URL") or _local_url(ports["api_port"])
    prefect = running.get("prefect_api_url") or _local_url(ports["prefect_port"])
    opened = public_addresses(url.rstrip("/"), prefect.removesuffix("/api"))
    named = " · ".join(f"{what}: {address}" for what, address in opened.items())
    return f"With `jobauto up` you open {named}"


def _local_url(port: int) -> str:
    return f"http://127.0.0.1:{port}"
