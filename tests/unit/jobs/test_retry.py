"""What follows the end of an attempt, as a table and as properties."""

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jobauto_prefect.errors import Conflict
from jobauto_prefect.jobs.outcome.retry import (
    AttemptEnd,
    Decision,
    RetryPolicy,
    StartLimits,
    decide_retry,
    limits_of,
)
from jobauto_prefect.ledger.states import (
    TASK_TRANSITIONS,
    TaskReason,
    TaskState,
    next_task_state,
)

NOON = datetime(2026, 5, 4, 12, tzinfo=UTC)
HOUR = timedelta(hours=1)
FINAL = {state for state, following in TASK_TRANSITIONS.items() if not following}


def end(
    attempt: int = 1, *, fulfils: bool = False, again: bool = True, losses: int | None = None
) -> AttemptEnd:
    return AttemptEnd(attempt, NOON, fulfils, again, losses)


@pytest.mark.parametrize(
    ("policy", "ended", "limits", "expected"),
    [
        (RetryPolicy(), end(), StartLimits(), Decision(NOON)),
        (
            RetryPolicy(),
            end(3),
            StartLimits(),
            Decision(None, TaskState.FAILED, TaskReason.ATTEMPTS),
        ),
        (
            RetryPolicy(max_attempts=1),
            end(),
            StartLimits(),
            Decision(None, TaskState.FAILED, TaskReason.ATTEMPTS),
        ),
        (
            RetryPolicy(),
            end(again=False),
            StartLimits(),
            Decision(None, TaskState.FAILED, TaskReason.OUTCOME),
        ),
        # A repetition comes before the severity; without one the severity counts.
        (RetryPolicy(), end(fulfils=True), StartLimits(), Decision(NOON)),
        (
            RetryPolicy(),
            end(3, fulfils=True),
            StartLimits(),
            Decision(None, TaskState.FULFILLED, TaskReason.OUTCOME),
        ),
        (
            RetryPolicy(retry_min_gap=3600),
            end(),
            StartLimits(NOON + HOUR, NOON + HOUR),
            Decision(None, TaskState.FAILED, TaskReason.DEADLINE),
        ),
        (
            RetryPolicy(retry_min_gap=60, retry_backoff="exponential"),
            end(2),
            StartLimits(NOON + HOUR, NOON + HOUR),
            Decision(NOON + timedelta(minutes=4)),
        ),
        (
            RetryPolicy(),
            end(fulfils=True, again=False),
            StartLimits(NOON - HOUR, NOON - HOUR),
            Decision(None, TaskState.FAILED, TaskReason.DEADLINE),
        ),
        (
            RetryPolicy(allow_late=True),
            end(fulfils=True, again=False),
            StartLimits(NOON - HOUR, NOON),
            Decision(None, TaskState.FULFILLED_LATE, TaskReason.DEADLINE),
        ),
        # A worker that could not start it costs no attempt, ten times and while there is time.
        (
            RetryPolicy(max_attempts=1, retry_min_gap=3600),
            end(losses=3),
            StartLimits(),
            Decision(NOON + timedelta(seconds=8), uncounted=True),
        ),
        (RetryPolicy(), end(losses=10), StartLimits(), Decision(NOON)),
        (
            RetryPolicy(max_attempts=1),
            end(losses=9),
            StartLimits(NOON, NOON + timedelta(seconds=59)),
            Decision(None, TaskState.FAILED, TaskReason.ATTEMPTS),
        ),
    ],
)
def test_what_follows(
    policy: RetryPolicy, ended: AttemptEnd, limits: StartLimits, expected: Decision
) -> None:
    assert decide_retry(policy, ended, limits) == expected


@given(
    policy=st.builds(
        RetryPolicy,
        max_attempts=st.none() | st.integers(1, 10),
        retry_backoff=st.sampled_from(["none", "fixed", "linear", "exponential"]),
        retry_min_gap=st.integers(0, 10**6),
        allow_late=st.booleans(),
    ),
    ended=st.builds(
        AttemptEnd,
        attempt=st.integers(1, 12),
        at=st.just(NOON),
        fulfils=st.booleans(),
        again=st.booleans(),
    ),
    minutes=st.integers(-100, 100),
)
def test_every_attempt_is_followed_by_another_or_ends_its_task(
    policy: RetryPolicy, ended: AttemptEnd, minutes: int
) -> None:
    deadline = NOON + timedelta(minutes=minutes)
    limits = limits_of(deadline, deadline + HOUR, allow_late=policy.allow_late)
    decision = decide_retry(policy, ended, limits)
    if decision.retry_at is None:
        assert decision.state in FINAL
        assert decision.reason is not None
    else:
        assert ended.attempt < (policy.max_attempts or 3)
        assert ended.at <= decision.retry_at < (limits.latest_start or deadline)
    assert RetryPolicy.read(policy.as_dict()) == policy


@pytest.mark.parametrize("state", sorted(FINAL))
def test_a_final_state_is_left_by_an_operator_only(state: TaskState) -> None:
    for other in TaskState:
        with pytest.raises(Conflict):
            next_task_state(state, other)
    if state in (TaskState.FAILED, TaskState.MISSED):
        assert next_task_state(state, TaskState.OPEN, operator=True) is TaskState.OPEN
