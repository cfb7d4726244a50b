"""How workers are called, ordered and coloured, on the start page and on their own."""

from collections.abc import Mapping, Sequence
from typing import Any
from urllib.parse import quote

from jobauto_prefect.console_addresses import CONSOLE
from jobauto_prefect.facade.formats.html.page_language import Translator

WORKERS = f"{CONSOLE}/workers"


TONES: Mapping[str, str] = {
    "silent": "bad",
    "hindered": "warn",
    "frozen": "warn",
    "working": "good",
    "lost": "",
}
"""By states, in the order in which workers are listed."""


ORDER = {state: place for place, state in enumerate(TONES)}


def worker_address(name: str) -> str:
    """Return the address of a worker's page."""
    return f"{WORKERS}/{quote(name)}"


def most_wanted(workers: Sequence[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    """Return workers, those that do not work first; those that are lost are the last."""
    return sorted(workers, key=lambda worker: ORDER[worker["state"]])


def count_jobs(worker: Mapping[str, Any]) -> int:
    """Return how many jobs a worker has, those included that the visitor may not see."""
    limit = worker["limit"]
    return len(worker["jobs"]) if limit is None else int(limit - worker["free"])


def tell_load(worker: Mapping[str, Any], translate: Translator) -> str:
    """Return how many jobs a worker has, and of how many."""
    running = count_jobs(worker)
    if worker["limit"] is None:
        return str(running)
    return translate("{running} of {limit}", running=running, limit=worker["limit"])
