"""What a look at the flow run of a job that is over comes to."""

from dataclasses import replace
from datetime import UTC, datetime
from uuid import uuid4

import pytest

from jobauto_prefect.jobs.outcome.confirmation import Verdict, judge, must_be_forced
from jobauto_prefect.ledger.jobs.confirmations import End

ENDED = End(
    job_id=1,
    state="succeeded",
    flow_run_id=uuid4(),
    run_number=1,
    was_claimed=True,
    is_newest=True,
    looks=1,
    until=datetime(2026, 1, 1, tzinfo=UTC),
)


@pytest.mark.parametrize(
    ("state", "shown"),
    [
        ("succeeded", "COMPLETED"),
        ("warning", "COMPLETED"),
        ("failed", "FAILED"),
        ("lost", "CRASHED"),
        ("cancelled", "CANCELLED"),
    ],
)
def test_an_end_that_prefect_shows_is_settled_and_any_other_is_told(state: str, shown: str) -> None:
    end = replace(ENDED, state=state)
    assert judge(end, shown, 1) is Verdict.AGREES
    for other in {"COMPLETED", "FAILED", "CRASHED", "RUNNING"} - {shown}:
        assert judge(end, other, 1) is Verdict.DIFFERS, other


def test_a_run_that_was_cancelled_before_its_job_ended_stays_so() -> None:
    assert judge(ENDED, "CANCELLED", 1) is Verdict.AGREES
    assert judge(ENDED, "CANCELLING", 1) is Verdict.DIFFERS


def test_a_run_that_somebody_starts_again_is_left_alone() -> None:
    for state in ("SCHEDULED", "PENDING"):
        assert judge(ENDED, state, 1) is Verdict.AGREES, state
    assert judge(ENDED, "RUNNING", 2) is Verdict.AGREES
    assert judge(replace(ENDED, is_newest=False), "RUNNING", 1) is Verdict.AGREES


def test_a_job_that_was_lost_before_its_run_was_running_is_told() -> None:
    assert judge(replace(ENDED, state="lost"), "SCHEDULED", 0) is Verdict.DIFFERS


def test_of_a_job_that_no_worker_had_any_end_of_its_run_will_do() -> None:
    end = replace(ENDED, state="skipped", run_number=None, was_claimed=False)
    for state in ("COMPLETED", "FAILED", "CRASHED", "CANCELLED"):
        assert judge(end, state, 1) is Verdict.AGREES, state
    for state in ("SCHEDULED", "RUNNING"):
        assert judge(end, state, 0) is Verdict.DIFFERS, state


def test_only_a_loss_of_what_prefect_holds_for_over_needs_force() -> None:
    lost = replace(ENDED, state="lost")
    assert must_be_forced(lost, "COMPLETED")
    assert not must_be_forced(lost, "RUNNING")
    assert not must_be_forced(ENDED, "CRASHED")
