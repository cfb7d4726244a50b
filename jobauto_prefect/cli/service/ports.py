"""The ports of the service of a home: given now, set, or those of the last time."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from jobauto_prefect.home import private_file

if TYPE_CHECKING:
    from jobauto_prefect.settings import Settings

FILE = "ports.json"
NAMES = ("api_port", "prefect_port")


def choose_ports(settings: "Settings", given: Mapping[str, int | None]) -> dict[str, int]:
    """Choose the ports to start with, by the names of their settings.

    Those missing are the defaults.
    """
    ports = dict(read_ports(settings.home))
    ports |= {name: getattr(settings, name) for name in NAMES if name in settings.model_fields_set}
    return ports | {name: port for name, port in given.items() if port is not None}


def read_ports(home: Path) -> dict[str, int]:
    """Read the ports of the last time; empty where there was none."""
    try:
        kept = json.loads((home / FILE).read_text())
        return {name: int(kept[name]) for name in NAMES}
    except (OSError, ValueError, KeyError, TypeError):
        return {}


def save_ports(settings: "Settings") -> None:
    """Keep the ports for the next time."""
    with open(settings.home / FILE, "w", opener=private_file) as file:
        json.dump({name: getattr(settings, name) for name in NAMES}, file)
