"""What somebody cancels in Prefect ends, whichever comes first, and whatever hangs."""

from collections.abc import Iterator
from urllib.parse import urlsplit

import pytest

from tests.support.breakable import LossyRelay
from tests.support.waits import eventually
from tests.support.workers import Plant

STREAM, POLL, RUNNING = "/events/out", "/get_scheduled_flow_runs", "set_state"
ROUNDS, JOBS = 5, 10  # which are 50 cancellations
FOR_EVER = {"QUIET": "yes", "SECONDS_TO_SLEEP": 100_000}


@pytest.fixture
def relay(prefect_server: str) -> Iterator[LossyRelay]:
    """The worker's way to Prefect; people have another."""
    with LossyRelay(urlsplit(prefect_server).port or 0) as relay:
        yield relay


def through(relay: LossyRelay) -> dict[str, str]:
    """Let a worker wait for answers for longer than the test does, and poll often."""
    return {
        "PREFECT_API_URL": f"http://127.0.0.1:{relay.port}/api",
        "PREFECT_API_REQUEST_TIMEOUT": "600",
        "PREFECT_WORKER_QUERY_SECONDS": "1",
    }


def test_a_cancellation_just_before_running_counts_though_no_event_tells_it(
    plant: Plant, relay: LossyRelay
) -> None:
    relay.hold(STREAM)
    with plant.worker("w1", "--limit", str(JOBS), **through(relay)):
        for _ in range(ROUNDS):
            relay.hold(RUNNING)
            jobs = [plant.post_job(**FOR_EVER) for _ in range(JOBS)]
            runs = [plant.run_of(job) for job in jobs]
            eventually(lambda jobs=jobs: {plant.job(job)["state"] for job in jobs} == {"running"})
            for run in runs:
                plant.set_state(run, "CANCELLED")
            relay.go_on(RUNNING)
            assert [plant.ended(job)["state"] for job in jobs] == ["cancelled"] * JOBS
            for run in runs:
                plant.run_in(run, "CANCELLED")


def test_a_cancellation_counts_while_the_stream_and_a_call_hang(
    plant: Plant, relay: LossyRelay
) -> None:
    with plant.worker("w1", "--limit", "1", **through(relay)):  # nothing but its round polls
        job = plant.post_job(**FOR_EVER)
        run = plant.run_of(job)
        plant.run_in(run, "RUNNING")
        eventually(lambda: plant.marked("pids"))
        relay.hold(STREAM, POLL)
        before = relay.count(POLL)
        eventually(lambda: relay.count(POLL) > before)
        relay.strand()
        plant.set_state(run, "CANCELLING")
        assert plant.ended(job)["state"] == "cancelled"
        plant.run_in(run, "CANCELLED")
        plant.until_gone()
