"""The states of tasks and jobs, and what may follow what; and those of what waits in queues."""

from collections.abc import Mapping
from enum import StrEnum

from jobauto_prefect.errors import Conflict


class JobState(StrEnum):
    """Where one attempt stands."""

    SCHEDULED = "scheduled"  #: committed, no worker has claimed it
    RUNNING = "running"  #: claimed; its lease is alive
    SUCCEEDED = "succeeded"  #: ended with severity success or info
    WARNING = "warning"  #: ended with severity warning, which is good enough
    FAILED = "failed"  #: ended with severity error or critical, by timeout, or could not start
    LOST = "lost"  #: the worker died or fell silent
    CANCELLED = "cancelled"  #: ended because somebody asked for it
    BLOCKED = "blocked"  #: could not start: something it needs is missing
    SKIPPED = "skipped"  #: was not to start any more: its window has passed, or it was superseded


class TaskState(StrEnum):
    """Where the obligation for one window stands (reference facts, section 3.3)."""

    OPEN = "open"  #: no attempt is live
    RUNNING = "running"  #: an attempt is live, or may be
    FULFILLED = "fulfilled"  #: an attempt succeeded in time
    FULFILLED_LATE = "fulfilled_late"  #: an attempt succeeded after the deadline, which is allowed
    FAILED = "failed"  #: no attempt is left
    MISSED = "missed"  #: the window passed without an attempt


class TaskReason(StrEnum):
    """Which rule ended a task; its message has the rest."""

    OUTCOME = "outcome"  #: what its last attempt came to
    ATTEMPTS = "attempts"  #: it would have been tried again, but no attempt was left
    DEADLINE = "deadline"  #: too late
    OVERLAP = "overlap"  #: the attempt before it still ran, and the template says skip
    MISFIRE = "misfire"  #: its window passed while the service was away
    CANCELLED = "cancelled"  #: somebody cancelled its attempt
    BLOCKED = "blocked"  #: its attempt could not start
    CLOSED = "closed"  #: it was due in closed time, and is excused by what closes it
    INACTIVE = "inactive"  #: its run template was switched off or deleted


JOB_TRANSITIONS: Mapping[JobState, frozenset[JobState]] = {
    JobState.SCHEDULED: frozenset(
        {
            JobState.RUNNING,
            JobState.CANCELLED,
            JobState.BLOCKED,
            JobState.SKIPPED,
            JobState.LOST,  # whoever started its flow run died before it claimed
        }
    ),
    JobState.RUNNING: frozenset(
        {
            JobState.SUCCEEDED,
            JobState.WARNING,
            JobState.FAILED,
            JobState.LOST,
            JobState.CANCELLED,
        }
    ),
    # A job that was taken for lost may report after all, until it is fenced.
    JobState.LOST: frozenset(
        {JobState.SUCCEEDED, JobState.WARNING, JobState.FAILED, JobState.CANCELLED}
    ),
    JobState.SUCCEEDED: frozenset(),
    JobState.WARNING: frozenset(),
    JobState.FAILED: frozenset(),
    JobState.CANCELLED: frozenset(),
    JobState.BLOCKED: frozenset(),
    JobState.SKIPPED: frozenset(),
}

TASK_TRANSITIONS: Mapping[TaskState, frozenset[TaskState]] = {
    TaskState.OPEN: frozenset(set(TaskState) - {TaskState.OPEN}),
    TaskState.RUNNING: frozenset(set(TaskState) - {TaskState.RUNNING, TaskState.MISSED}),
    TaskState.FULFILLED: frozenset(),
    TaskState.FULFILLED_LATE: frozenset(),
    TaskState.FAILED: frozenset(),
    TaskState.MISSED: frozenset(),
}

BY_AN_OPERATOR: Mapping[TaskState, frozenset[TaskState]] = {
    TaskState.FAILED: frozenset({TaskState.OPEN}),
    TaskState.MISSED: frozenset({TaskState.OPEN}),
}
"""What only an operator's explicit action may do to a task that has ended."""

LIVE_JOBS = (JobState.SCHEDULED, JobState.RUNNING)
"""Jobs that are not over."""

SUCCESSFUL_JOBS = (JobState.SUCCEEDED, JobState.WARNING)
FAILED_JOBS = (JobState.FAILED, JobState.LOST)
"""How jobs that ran count."""

LIVE_TASKS = (TaskState.OPEN, TaskState.RUNNING)
"""Tasks that have not ended."""

UNFULFILLED = (TaskState.FAILED, TaskState.MISSED)
"""Tasks that ended without what was to come of them."""


def next_job_state(now: JobState, then: JobState) -> JobState:
    """Return `then`, if it may follow `now`.

    Raises:
        Conflict: it may not.
    """
    if then not in JOB_TRANSITIONS[now]:
        raise Conflict(f"the job is {now}; it can't become {then}")
    return then


def next_task_state(now: TaskState, then: TaskState, *, operator: bool = False) -> TaskState:
    """Return `then`, if it may follow `now`; an operator may do more.

    Raises:
        Conflict: it may not.
    """
    allowed = BY_AN_OPERATOR.get(now, frozenset()) if operator else TASK_TRANSITIONS[now]
    if then not in allowed:
        raise Conflict(f"the task is {now}; it can't become {then}")
    return then


class DeliveryState(StrEnum):
    """Where one delivery stands."""

    OWED = "owed"  #: the rule's job is not started
    STARTED = "started"  #: there is a job
    DEAD = "dead"  #: there will be none unless somebody replays it; `error` says why


class ActionState(StrEnum):
    """Where an action stands."""

    OWED = "owed"  #: it is to be done
    DONE = "done"  #: it is done
    DEAD = "dead"  #: it will not be done unless somebody replays it; `error` says why


class NoticeState(StrEnum):
    """Where a notice stands."""

    OWED = "owed"  #: it is to be sent
    SENT = "sent"  #: somebody has taken it
    DEAD = "dead"  #: it is not sent any more; `error` says why
