"""The states of tasks and jobs, and what may follow what."""

from collections.abc import Mapping
from enum import StrEnum

from jobauto_prefect.errors import Conflict


class JobState(StrEnum):
    """Where one attempt stands."""

    WAITING = "waiting"  #: committed, no worker has claimed it
    RUNNING = "running"  #: claimed; its lease is alive
    SUCCEEDED = "succeeded"  #: ended with severity success, info or warning
    FAILED = "failed"  #: ended with severity error or critical, by timeout, or could not start
    LOST = "lost"  #: the worker died or fell silent
    CANCELLED = "cancelled"  #: ended because somebody asked for it
    REFUSED = "refused"  #: never started: the reason says why


class TaskState(StrEnum):
    """Where the obligation for one window stands (reference facts, section 3.3)."""

    OPEN = "open"  #: no attempt is live
    RUNNING = "running"  #: an attempt is live
    FULFILLED = "fulfilled"  #: an attempt succeeded in time
    FULFILLED_LATE = "fulfilled_late"  #: an attempt succeeded after the deadline, which is allowed
    FAILED = "failed"  #: no attempt is left
    MISSED = "missed"  #: the window passed without an attempt


JOB_TRANSITIONS: Mapping[JobState, frozenset[JobState]] = {
    JobState.WAITING: frozenset({JobState.RUNNING, JobState.CANCELLED, JobState.REFUSED}),
    JobState.RUNNING: frozenset(
        {JobState.SUCCEEDED, JobState.FAILED, JobState.LOST, JobState.CANCELLED}
    ),
    # A job that was taken for lost may report after all, as long as nothing has succeeded it.
    JobState.LOST: frozenset({JobState.SUCCEEDED, JobState.FAILED, JobState.CANCELLED}),
    JobState.SUCCEEDED: frozenset(),
    JobState.FAILED: frozenset(),
    JobState.CANCELLED: frozenset(),
    JobState.REFUSED: frozenset(),
}

TASK_TRANSITIONS: Mapping[TaskState, frozenset[TaskState]] = {
    TaskState.OPEN: frozenset({TaskState.RUNNING, TaskState.FAILED, TaskState.MISSED}),
    TaskState.RUNNING: frozenset(
        {TaskState.OPEN, TaskState.FULFILLED, TaskState.FULFILLED_LATE, TaskState.FAILED}
    ),
    TaskState.FULFILLED: frozenset(),
    TaskState.FULFILLED_LATE: frozenset(),
    # As a lost job may report after all, so may its task be fulfilled after all.
    TaskState.FAILED: frozenset({TaskState.FULFILLED, TaskState.FULFILLED_LATE}),
    TaskState.MISSED: frozenset(),
}

LIVE_JOBS = (JobState.WAITING, JobState.RUNNING)
"""Jobs that are not over."""


def next_job_state(now: JobState, then: JobState) -> JobState:
    """`then`, if it may follow `now`.

    Raises:
        Conflict: it may not.
    """
    if then not in JOB_TRANSITIONS[now]:
        raise Conflict(f"the job is {now}; it can't become {then}")
    return then


def next_task_state(now: TaskState, then: TaskState) -> TaskState:
    """`then`, if it may follow `now`.

    Raises:
        Conflict: it may not.
    """
    if then not in TASK_TRANSITIONS[now]:
        raise Conflict(f"the task is {now}; it can't become {then}")
    return then
