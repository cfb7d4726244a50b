"""Real processes on PostgreSQL, killed, stopped and cut off while windows come due.

Of each window there is one task, which ends; of each task no two processes at once. Once with
leases and outages of some seconds, once with ten times as much.
"""

import signal
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.support.databases import database
from tests.support.installation import PATIENCE, Installation, run_installation
from tests.support.waits import eventually

EVERY = 6  # seconds between two windows of all templates


pytestmark = pytest.mark.soak


@pytest.fixture(params=[3.0, 30.0])
def faulty(
    migrate_once: Callable[[str], str], tmp_path: Path, request: pytest.FixtureRequest
) -> Iterator[Installation]:
    """An installation whose leases last that many seconds."""
    with (
        database("postgresql", tmp_path, migrate_once("postgresql")) as ledger_url,
        run_installation(ledger_url, tmp_path, request.param) as made,
    ):
        yield made


def test_no_fault_costs_a_window_or_runs_one_twice(faulty: Installation) -> None:
    for delay in range(0, 60, EVERY):
        stops = "stop" if delay % (2 * EVERY) else "finish"
        # A deadline no outage reaches: what is lost is tried again within it.
        members = {"on_contact_lost": stops, "deadline_offset": "+1h", "overlap": "parallel"}
        faulty.add_template(f"at {delay}", interv="i", delay=delay, **members)
    faulty.until_started(1)
    _every_fault(faulty, faulty.settings.lease_seconds)
    faulty.until_started(2)
    faulty.switch_off()
    faulty.until_all_tasks_ended()
    found = faulty.match()
    assert (found.missed, found.extra, faulty.overlaps()) == ([], [], [])
    assert found.states["fulfilled"] > 0


def _every_fault(faulty: Installation, lease: float) -> None:
    parts = faulty.parts
    faulty.run_by_hand(faulty.until_running())
    for name in ("worker-1", "services-1", "facade", "prefect"):
        faulty.until_running()
        parts[name].kill()
        time.sleep(lease)
        parts[name].start()
    faulty.relay.cut()
    for name in ("services-2", "worker-2"):
        parts[name].signal(signal.SIGSTOP)
        time.sleep(2 * lease)
        parts[name].signal(signal.SIGCONT)
    faulty.relay.mend()
    faulty.until_running()
    faulty.cut_database()


def test_twenty_jobs_outlive_five_minutes_without_the_facade(faulty: Installation) -> None:
    env = {"SECONDS_TO_SLEEP": 60}
    for number in range(20):
        faulty.add_template(f"long {number}", interv="i", deadline_offset="+1h", env=env)
    eventually(lambda: len(faulty.starts()) >= 20, PATIENCE)
    faulty.parts["facade"].kill()
    time.sleep(300)
    faulty.parts["facade"].start()
    faulty.until_started(1)
    faulty.switch_off()
    faulty.until_all_tasks_ended()
    found = faulty.match()
    assert (found.missed, found.extra, faulty.overlaps()) == ([], [], [])
