"""The states of tasks and jobs and their transitions, and the states of queued rows."""

from collections.abc import Mapping
from enum import StrEnum

from jobauto_prefect.errors import Conflict


class JobState(StrEnum):
    """The state of one attempt."""

    SCHEDULED = "scheduled"  #: committed, no worker has claimed it
    RUNNING = "running"  #: claimed; its lease is alive
    SUCCEEDED = "succeeded"  #: ended with severity success or info
    WARNING = "warning"  #: ended with severity warning, which counts as a success
    FAILED = "failed"  #: ended with severity error or critical, by timeout, or could not start
    LOST = "lost"  #: the worker died or fell silent
    CANCELLED = "cancelled"  #: ended because somebody cancelled it
    BLOCKED = "blocked"  #: could not start: something it needs is missing
    SKIPPED = "skipped"  #: must not start any more: its window has passed, or it was superseded


class TaskState(StrEnum):
    """The state of the obligation for one window."""

    OPEN = "open"  #: no attempt is live
    RUNNING = "running"  #: an attempt is live, or may be
    FULFILLED = "fulfilled"  #: an attempt succeeded in time
    FULFILLED_LATE = "fulfilled_late"  #: an attempt succeeded after the deadline, which is allowed
    FAILED = "failed"  #: no attempt is left
    MISSED = "missed"  #: the window passed without an attempt


class TaskReason(StrEnum):
    """The rule that ended a task; its message has the details."""

    OUTCOME = "outcome"  #: the result of its last attempt
    ATTEMPTS = "attempts"  #: it would have been retried, but had no attempts left
    DEADLINE = "deadline"  #: too late
    OVERLAP = "overlap"  #: the previous attempt was still running, and the template says skip
    MISFIRE = "misfire"  #: its window passed while the services were down
    CANCELLED = "cancelled"  #: somebody cancelled its attempt
    BLOCKED = "blocked"  #: its attempt could not start
    CLOSED = "closed"  #: it was due in closed time, and is excused for that
    INACTIVE = "inactive"  #: its run template was switched off or deleted


JOB_TRANSITIONS: Mapping[JobState, frozenset[JobState]] = {
    JobState.SCHEDULED: frozenset(
        {
            JobState.RUNNING,
            JobState.CANCELLED,
            JobState.BLOCKED,
            JobState.SKIPPED,
            JobState.LOST,  # the starter of its flow run died before the claim
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
    # A job considered lost may still report, until it is fenced.
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
"""Transitions of ended tasks that only an operator may request."""

LIVE_JOBS = (JobState.SCHEDULED, JobState.RUNNING)
"""Jobs that have not ended."""

SUCCESSFUL_JOBS = (JobState.SUCCEEDED, JobState.WARNING)
FAILED_JOBS = (JobState.FAILED, JobState.LOST)
"""How the ends of jobs that ran are counted."""

LIVE_TASKS = (TaskState.OPEN, TaskState.RUNNING)
"""Tasks that have not ended."""

UNFULFILLED = (TaskState.FAILED, TaskState.MISSED)
"""Tasks that ended unfulfilled."""


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
    """The state of one delivery."""

    OWED = "owed"  #: the rule's job is not started yet
    STARTED = "started"  #: there is a job
    DEAD = "dead"  #: it will start none unless somebody replays it; `error` says why


class ActionState(StrEnum):
    """The state of an action."""

    OWED = "owed"  #: it is yet to be done
    DONE = "done"  #: it is done
    DEAD = "dead"  #: it will not be done unless somebody replays it; `error` says why


class NoticeState(StrEnum):
    """The state of a notice."""

    OWED = "owed"  #: it is yet to be sent
    SENT = "sent"  #: the recipient's server has accepted it
    DEAD = "dead"  #: it will not be sent any more; `error` says why
