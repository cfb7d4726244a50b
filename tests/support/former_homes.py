"""Homes that former releases left behind: where they are kept, and the settings they ran with."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.support.databases import database
from tests.support.paths import ROOT

HOMES = ROOT / "tests" / "fixtures" / "homes"
"""A folder for each release, with a home in an archive and what is in it for each database."""

SETTINGS = {"JOBAUTO_LEASE_SECONDS": "10", "JOBAUTO_GRACE_SECONDS": "1"}
NOWHERE = "nowhere"
"""A work pool without a worker."""


@contextmanager
def databases(kind: str, place: Path) -> Iterator[dict[str, str]]:
    """The URLs of the databases beside a home by the names of their dumps; none on SQLite."""
    if kind == "sqlite":
        yield {}
        return
    with database(kind, place) as ledger, database(kind, place) as prefect:
        yield {"ledger.sql": ledger, "prefect.sql": prefect}


def settings_of(urls: dict[str, str]) -> dict[str, str]:
    """The variables by which a service finds these databases."""
    if not urls:
        return SETTINGS
    return SETTINGS | {
        "JOBAUTO_DATABASE_URL": urls["ledger.sql"],
        "PREFECT_API_DATABASE_CONNECTION_URL": urls["prefect.sql"].replace("://", "+asyncpg://"),
    }
