"""Workers on hosts whose clocks are two minutes off, as real processes.

When a run is due, and when its job began and ended, is judged by the ledger's clock.
"""

from datetime import datetime, timedelta
from typing import Any

import pytest

from tests.support.faketime import faked
from tests.support.waits import eventually
from tests.support.workers import Plant


def instants(job: dict[str, Any]) -> tuple[datetime, datetime]:
    return datetime.fromisoformat(job["begin"]), datetime.fromisoformat(job["end"])


@pytest.mark.parametrize(
    ("offset", "warning"),
    [("+120s", "s ahead of the service's"), ("-120s", "s behind the service's")],
)
def test_a_worker_whose_clock_is_off_starts_jobs_in_time_and_tells_when_they_ran(
    plant: Plant, offset: str, warning: str
) -> None:
    with plant.worker(**faked(offset)) as worker:
        made = plant.ledger.clock()
        job = plant.ended(plant.post_job(SECONDS_TO_SLEEP=1))
        begin, end = instants(job)
        assert job["state"] == "succeeded"
        assert made <= begin <= end - timedelta(seconds=1) <= plant.ledger.clock()
        output = plant.rest.get(f"/job/{job['id']}/output.json").json()["lines"]
        written = [datetime.fromisoformat(line["at"]) for line in output]
        assert written
        assert all(begin - timedelta(seconds=1) <= at <= end for at in written)

        due = plant.ledger.clock() + timedelta(seconds=4)
        later = plant.ended(plant.post_job(scheduled=due.isoformat()))
        assert instants(later)[0] >= due
        assert float(plant.marked("starts")[-1].split()[1]) >= due.timestamp()

        assert warning in plant.log_of()
        shown = plant.rest.get("/workers.json").json()["w1"]
        assert abs(shown["clock_ahead"] - float(offset.rstrip("s"))) < 1

        # What its watchdog tells is by the same clock.
        before = plant.ledger.clock()
        killed = plant.post_job(SECONDS_TO_SLEEP=60)
        eventually(lambda: len(plant.marked("pids")) == 3)
        worker.kill()
        lost = plant.ended(killed)
        begin, end = instants(lost)
        assert "the worker died" in lost["message"]
        assert before <= begin <= end <= plant.ledger.clock()
