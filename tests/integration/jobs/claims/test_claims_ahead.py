"""Claims of runs that are due in a moment, by a worker that waits until then."""

from datetime import datetime, timedelta
from typing import Any

import httpx
import pytest

from tests.support.claims import claim_of, granted, refused
from tests.support.databases import both_databases
from tests.support.timeline import HOUR, MINUTE, NOON, Timeline

SECOND = timedelta(seconds=1)
MOST_AHEAD = SECOND / 2


def posted(timeline: Timeline) -> dict[str, Any]:
    """A claim of the run of a job that is due at noon, by a worker that says so."""
    body = {"runtemplate_id": timeline.template["id"], "scheduled": NOON.isoformat()}
    timeline.rest.post("/job/", json=body).raise_for_status()
    return timeline.of_job(timeline.jobs()[-1], due=NOON.isoformat())


def of_window(timeline: Timeline, due: datetime = NOON) -> dict[str, Any]:
    """A claim of the run of a window, by a worker that says when it is due."""
    return timeline.by_prefect(due) | {"due": due.isoformat()}


def is_told_to_wait(timeline: Timeline, claim: dict[str, Any]) -> float:
    """For how long a claim is neither granted nor refused; it changes nothing."""
    before = (
        timeline.states(),
        [(job.state, job.message, job.flow_run_id) for job in timeline.jobs()],
    )
    answer = timeline.claims.post("/claims", json=claim).raise_for_status().json()
    assert answer["launch"] is answer["refusal"] is None
    after = (
        timeline.states(),
        [(job.state, job.message, job.flow_run_id) for job in timeline.jobs()],
    )
    assert before == after
    seconds: float = answer["wait_seconds"]
    return seconds


@pytest.fixture
def hourly(timeline: Timeline) -> Timeline:
    """A template of which a window opens each hour."""
    timeline.schedule()
    return timeline


@both_databases
def test_a_run_is_granted_a_moment_before_it_is_due_and_begins_then(hourly: Timeline) -> None:
    claim = posted(hourly)
    hourly.now = NOON - MOST_AHEAD

    answer = hourly.claims.post("/claims", json=claim).raise_for_status().json()

    assert answer["launch"] is not None
    assert answer["wait_seconds"] == 0.5
    assert hourly.jobs()[-1].begin == NOON


@both_databases
def test_no_run_is_granted_sooner_and_the_same_claim_is_when_it_is_due(hourly: Timeline) -> None:
    claim = posted(hourly)
    hourly.now = NOON - MOST_AHEAD - SECOND / 100
    assert is_told_to_wait(hourly, claim) == 0.51

    hourly.now = NOON
    answer = hourly.claims.post("/claims", json=claim).raise_for_status().json()

    assert answer["launch"] is not None
    assert answer["wait_seconds"] == 0


def test_a_launch_that_is_asked_for_again_says_how_long_it_has_to_wait_yet(
    hourly: Timeline,
) -> None:
    claim = posted(hourly)
    hourly.now = NOON - SECOND / 4
    first = granted(hourly.claims, claim)

    hourly.now = NOON - SECOND / 5
    again = hourly.claims.post("/claims", json=claim).raise_for_status().json()

    assert again["launch"] == first
    assert again["wait_seconds"] == 0.2


def test_a_worker_that_does_not_say_that_it_waits_is_granted_no_announced_run_ahead(
    hourly: Timeline,
) -> None:
    posted(hourly)
    job = hourly.jobs()[-1]
    hourly.bind(job)
    announced = claim_of(hourly.jobs()[-1].flow_run_id, announced=True)
    hourly.now = NOON - SECOND / 10
    answer = hourly.claims.post("/claims", json=announced).raise_for_status().json()
    assert answer["launch"] is None

    hourly.now = NOON
    assert granted(hourly.claims, announced)["job_id"] == job.id


@both_databases
def test_a_window_is_granted_a_moment_before_it_opens(hourly: Timeline) -> None:
    hourly.now = NOON - SECOND / 4
    launch = granted(hourly.claims, of_window(hourly))

    (task,) = hourly.tasks()
    assert (launch["task_id"], task.window_start, task.state) == (task.id, NOON, "running")
    hourly.keep_at(NOON + SECOND)
    assert len(hourly.tasks()) == 1


@both_databases
@pytest.mark.parametrize("overlap", ["wait", "skip"])
def test_what_runs_until_the_run_is_due_is_not_in_its_way(timeline: Timeline, overlap: str) -> None:
    timeline.schedule(overlap=overlap)
    timeline.keep_at(NOON)
    before = granted(timeline.claims, timeline.by_prefect(NOON))
    claim = of_window(timeline, NOON + HOUR)
    timeline.now = NOON + HOUR - SECOND / 4
    assert is_told_to_wait(timeline, claim) == 0.25

    timeline.ends(before, after=SECOND / 8)
    timeline.now = NOON + HOUR

    assert granted(timeline.claims, claim)["task_id"] == timeline.tasks()[-1].id


def test_what_is_in_its_way_when_it_is_due_counts_then(timeline: Timeline) -> None:
    timeline.schedule(overlap="skip")
    timeline.keep_at(NOON)
    granted(timeline.claims, timeline.by_prefect(NOON))
    claim = of_window(timeline, NOON + HOUR)
    timeline.now = NOON + HOUR - SECOND / 4
    assert is_told_to_wait(timeline, claim) == 0.25

    timeline.now = NOON + HOUR

    assert refused(timeline.claims, claim)[1] == "CANCELLED"
    assert timeline.states()[-1] == ("missed", "overlap")


def test_closed_time_counts_by_when_the_run_is_due(timeline: Timeline, rest: httpx.Client) -> None:
    body = {"name": "Closing", "times": [{"from": "11:00", "to": "12:00"}]}
    rest.post("/calendar/", json=body).raise_for_status()
    timeline.schedule(calendars=["Closing"])
    timeline.now = NOON - SECOND / 4
    granted(timeline.claims, of_window(timeline))


def test_a_freeze_that_ends_until_the_run_is_due_is_not_in_its_way(
    hourly: Timeline, rest: httpx.Client
) -> None:
    hourly.now = NOON - MINUTE
    freeze = {"reason": "new disks", "until": NOON.isoformat()}
    rest.put("/maintenance.json", json=freeze).raise_for_status()
    claim = of_window(hourly)
    hourly.now = NOON - SECOND / 4
    assert is_told_to_wait(hourly, claim) == 0.25

    hourly.now = NOON

    granted(hourly.claims, claim)


def test_a_template_that_is_switched_off_meanwhile_starts_nothing_that_was_not_granted(
    hourly: Timeline,
) -> None:
    claim = of_window(hourly)
    hourly.now = NOON - SECOND
    assert is_told_to_wait(hourly, claim) == 1
    hourly.change(active=False)

    hourly.now = NOON

    assert hourly.claims.post("/claims", json=claim).json()["launch"] is None


@both_databases
def test_a_job_that_is_cancelled_between_grant_and_start_is_told_to_stop(hourly: Timeline) -> None:
    claim = posted(hourly)
    hourly.now = NOON - SECOND / 4
    launch = granted(hourly.claims, claim)
    body = {"id": launch["job_id"], "state": "cancelled"}
    hourly.rest.post("/job/", json=body).raise_for_status()

    assert str(launch["job_id"]) in hourly.renewal(launch)
