"""Runs that a worker claims a moment before they are due: their processes start then, if at all."""

from collections.abc import Callable
from datetime import datetime, timedelta

import pytest

from jobauto_prefect.facade import worker_api
from jobauto_prefect.jobs.claims import decision
from jobauto_prefect.jobs.claims.claim import OpenClaim, time_until_due
from jobauto_prefect.runtime.protocol import Claim, ClaimAnswer
from tests.support.faketime import faked
from tests.support.waits import eventually
from tests.support.workers import Plant

SECOND = timedelta(seconds=1)
WAIT = 4 * SECOND
MOST_JOBS = 40


def cancel_in_prefect(plant: Plant, run: str, _job: int) -> None:
    plant.set_state(run, "CANCELLING")


def cancel_over_rest(plant: Plant, _run: str, job: int) -> None:
    plant.rest.post("/job/", json={"id": job, "state": "cancelled"}).raise_for_status()


@pytest.fixture
def granted_ahead(monkeypatch: pytest.MonkeyPatch) -> list[timedelta]:
    """How long before its run was due each claim was granted that came before."""
    noted: list[timedelta] = []
    decide = decision.decide_claim

    def note(claim: OpenClaim) -> ClaimAnswer:
        answer, ahead = decide(claim), time_until_due(claim.asked, claim.session.clock())
        if answer.launch is not None and ahead:
            noted.append(ahead)
        return answer

    monkeypatch.setattr(decision, "decide_claim", note)
    return noted


@pytest.fixture
def due_later(monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest) -> list[datetime]:
    """When the facade answered claims; it says that the runs granted are due some seconds later."""
    answered: list[datetime] = []
    wait: timedelta = getattr(request, "param", WAIT)

    def later(claim: Claim, now: datetime) -> timedelta:
        answered.append(now)
        return time_until_due(claim, now) + wait

    monkeypatch.setattr(worker_api, "time_until_due", later)
    return answered


@pytest.mark.parametrize("offset", ["+0.3s", "-0.3s", "+120s"])
def test_no_job_starts_before_its_second_whatever_its_workers_clock_says(
    plant: Plant, granted_ahead: list[timedelta], offset: str
) -> None:
    due_at: dict[int, datetime] = {}
    with plant.worker(**faked(offset)):
        while not granted_ahead and len(due_at) < MOST_JOBS:  # a busy machine is late now and then
            first = plant.ledger.clock() + 4 * SECOND
            due_at |= {
                plant.post_job(scheduled=due.isoformat()): due
                for due in (first + number * SECOND / 2 for number in range(8))
            }
            for job, due in due_at.items():
                assert datetime.fromisoformat(plant.ended(job)["begin"]) >= due
    starts = [line.split() for line in plant.marked("starts")]
    assert len(starts) == len(due_at)
    for _, started, job in starts:
        assert float(started) >= due_at[int(job)].timestamp()
    assert granted_ahead


def test_a_process_waits_until_its_run_is_due_by_the_facades_word(
    manned: Plant, due_later: list[datetime]
) -> None:
    (job,) = manned.until_jobs_of(manned.click_run())
    assert manned.ended(job["id"])["state"] == "succeeded"
    (start,) = manned.marked("starts")
    assert float(start.split()[1]) >= (due_later[0] + WAIT).timestamp()


@pytest.mark.parametrize("due_later", [2 * WAIT], indirect=True)
@pytest.mark.parametrize("cancel", [cancel_in_prefect, cancel_over_rest])
def test_what_is_cancelled_between_its_grant_and_its_second_starts_no_process(
    manned: Plant, due_later: list[datetime], cancel: Callable[[Plant, str, int], None]
) -> None:
    run = manned.click_run()
    (job,) = eventually(lambda: [job for job in manned.jobs_of(run) if job["state"] == "running"])
    manned.run_in(run, "RUNNING")
    cancel(manned, run, job["id"])
    assert manned.ended(job["id"])["state"] == "cancelled"
    manned.run_in(run, "CANCELLED")
    assert manned.marked("starts") == []
    assert due_later
