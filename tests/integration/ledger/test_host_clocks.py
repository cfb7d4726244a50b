"""Services on a host whose clock is two minutes ahead, as real processes."""

import time
from collections.abc import Iterator
from datetime import timedelta
from typing import Any

import httpx
import pytest
from sqlalchemy import select

from jobauto_prefect.ledger.audit.trail import SERVICE
from jobauto_prefect.ledger.records import Job, Lease, Task
from jobauto_prefect.ledger.states import JobState
from jobauto_prefect.ledger.store import Ledger
from jobauto_prefect.settings import Settings
from tests.support.breakable import Part
from tests.support.claims import claim_of, granted
from tests.support.databases import on_postgresql
from tests.support.faketime import require_faketime
from tests.support.ledger_rows import fetch
from tests.support.paths import JOBAUTO
from tests.support.processes import clean_environment
from tests.support.records import make_template
from tests.support.waits import eventually

LEASE_SECONDS = 2.0


@pytest.fixture
def facade_settings(facade_settings: Settings) -> Settings:
    return facade_settings.model_copy(update={"lease_seconds": LEASE_SECONDS})


@pytest.fixture
def services_ahead(facade_settings: Settings, facade_url: str) -> Iterator[Part]:
    """Services that take the time for two minutes later than it is, to be started."""
    require_faketime()
    assert facade_settings.url == facade_url
    environment = clean_environment() | {
        "JOBAUTO_HOME": str(facade_settings.home),
        "JOBAUTO_CONFIG_DIR": str(facade_settings.home),
        "JOBAUTO_DATABASE_URL": facade_settings.database_url or "",
        "JOBAUTO_URL": facade_url,
        "JOBAUTO_PREFECT_API_URL": facade_settings.prefect_api_url,
        "JOBAUTO_LEASE_SECONDS": str(LEASE_SECONDS),
    }
    argv = ["faketime", "--exclude-monotonic", "-f", "+120s", JOBAUTO, "services", "start"]
    services = Part("services", argv, environment, facade_settings.home / "services.log")
    yield services
    services.end()


@on_postgresql
def test_services_ahead_of_the_database_lose_no_job_and_open_no_window_early(
    rest: httpx.Client,
    claims: httpx.Client,
    ledger: Ledger,
    template: dict[str, Any],
    services_ahead: Part,
    facade_settings: Settings,
) -> None:
    job = granted(claims, claim_of())["job_id"]
    _renew(ledger, job)
    services_ahead.start()
    make_template(rest, name="every minute", interv="i")
    log = facade_settings.home / "services.log"
    eventually(lambda: "s ahead of the database's" in log.read_text())
    until = time.monotonic() + 4 * LEASE_SECONDS
    while time.monotonic() < until:
        _renew(ledger, job)
        assert _state(ledger, job) == JobState.RUNNING
        assert _early_windows(ledger) == []
        time.sleep(LEASE_SECONDS / 10)


def _renew(ledger: Ledger, job: int) -> None:
    """Renew a lease for longer than a slow test takes; those who are ahead take it for lapsed."""
    with ledger.writing(SERVICE) as session:
        session.get_one(Lease, job).renewed_at = session.clock() + timedelta(seconds=60)


def _state(ledger: Ledger, job: int) -> str:
    return fetch(ledger, Job, job).state


def _early_windows(ledger: Ledger) -> list[Task]:
    with ledger.reading() as session:
        early = ledger.clock() + timedelta(seconds=5)  # more than two readings of it may differ
        return list(session.scalars(select(Task).where(Task.window_start > early)))
