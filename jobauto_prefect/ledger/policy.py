"""The rules by which an attempt's end is judged: tried again, or settled. Pure."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from datetime import datetime
from typing import Any, Self

from jobauto_prefect.definitions import Backoff, ContactLost, attempts_of, retry_at
from jobauto_prefect.ledger.states import TaskReason, TaskState


@dataclass(frozen=True, slots=True)
class Policy:
    """A run template's word on attempts, as it was when one was granted.

    `max_attempts` counts all of a task, None: the default; `retry_min_gap` is in seconds.
    """

    max_attempts: int | None = None
    retry_backoff: str = Backoff.NONE
    retry_min_gap: int = 0
    retry_undeclared: bool = False
    allow_late: bool = False
    on_contact_lost: str = ContactLost.FINISH

    @classmethod
    def of(cls, template: object) -> Self:
        """That of a run template's record."""
        return cls(**{name: getattr(template, name) for name in cls.__slots__})

    @classmethod
    def read(cls, kept: Mapping[str, Any]) -> Self:
        """From what `as_dict` gave."""
        return cls(**{name: kept[name] for name in cls.__slots__ if name in kept})

    def as_dict(self) -> dict[str, Any]:
        """For keeping with a job."""
        return asdict(self)


@dataclass(frozen=True, slots=True)
class End:
    """How the attempt of a number (from 1) ended. `again`: it is of the kind that is repeated."""

    attempt: int
    at: datetime
    fulfils: bool
    again: bool


@dataclass(frozen=True, slots=True)
class Limits:
    """When a task was to be fulfilled, and when an attempt may start at the latest.

    None: nothing limits it, for there is no task.
    """

    deadline: datetime | None = None
    latest_start: datetime | None = None


@dataclass(frozen=True, slots=True)
class Decision:
    """What follows: another attempt at `retry_at`, or how the task ends and by which rule."""

    retry_at: datetime | None = None
    state: TaskState = TaskState.OPEN
    reason: TaskReason | None = None


def decide(policy: Policy, end: End, limits: Limits) -> Decision:
    """What follows the end of an attempt: a repetition comes before its severity."""
    spent = end.attempt >= attempts_of(policy.max_attempts)
    if end.again and not spent:
        gap, until = policy.retry_min_gap, limits.latest_start
        at = retry_at(policy.retry_backoff, gap, end.attempt, end.at, until)
        if at is not None:
            return Decision(retry_at=at)
    if end.fulfils:
        return _fulfilled(policy, end, limits.deadline)
    if not end.again:
        return Decision(state=TaskState.FAILED, reason=TaskReason.OUTCOME)
    reason = TaskReason.ATTEMPTS if spent else TaskReason.DEADLINE
    return Decision(state=TaskState.FAILED, reason=reason)


def _fulfilled(policy: Policy, end: End, deadline: datetime | None) -> Decision:
    if deadline is None or end.at <= deadline:
        return Decision(state=TaskState.FULFILLED, reason=TaskReason.OUTCOME)
    state = TaskState.FULFILLED_LATE if policy.allow_late else TaskState.FAILED
    return Decision(state=state, reason=TaskReason.DEADLINE)


def limits_of(deadline: datetime, window_end: datetime, *, allow_late: bool) -> Limits:
    """Those of a task: what may be late may start as long as its window lasts."""
    return Limits(deadline, max(deadline, window_end) if allow_late else deadline)
