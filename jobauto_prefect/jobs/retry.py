"""What follows an attempt: another one, or the end of its task.

The rules are pure (`decide`). What carries them out works inside the caller's transaction, which
holds the task, and commits nothing.
"""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from datetime import datetime, timedelta
from typing import Any, Self

from jobauto_prefect.definitions import (
    Backoff,
    ContactLost,
    Misfire,
    Overlap,
    Severity,
    attempts_of,
    retry_at,
)
from jobauto_prefect.jobs import notices
from jobauto_prefect.ledger import attempts, events
from jobauto_prefect.ledger.audit import SERVICE, WritingSession
from jobauto_prefect.ledger.records import Job, RunTemplate, Task
from jobauto_prefect.ledger.states import (
    UNFULFILLED,
    JobState,
    TaskReason,
    TaskState,
    next_task_state,
)
from jobauto_prefect.ledger.wishes import WishKind, wish


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


LIMITS = "limits"
"""In what is kept of a job's rules: the ids of the credentials it uses that have a limit."""


@dataclass(frozen=True, slots=True)
class End:
    """How the attempt of a number (from 1) ended. `again`: it is of the kind that is repeated.

    `worker_losses` counts how often before it no worker was able to start it, None: it began.
    """

    attempt: int
    at: datetime
    fulfils: bool
    again: bool
    worker_losses: int | None = None


@dataclass(frozen=True, slots=True)
class Limits:
    """When a task was to be fulfilled, and when an attempt may start at the latest.

    None: nothing limits it, for there is no task.
    """

    deadline: datetime | None = None
    latest_start: datetime | None = None


WORKER_LOSSES = 10
"""So many times in a row a job that no worker was able to start follows itself."""

LONGEST_WORKER_PAUSE_SECONDS = 60


def pause_after_worker_loss(losses_before: int) -> timedelta | None:
    """How long after a worker was not able to start a job it is tried again; None: as any loss."""
    if losses_before >= WORKER_LOSSES:
        return None
    return timedelta(seconds=min(2**losses_before, LONGEST_WORKER_PAUSE_SECONDS))


@dataclass(frozen=True, slots=True)
class Decision:
    """What follows: another attempt at `retry_at`, or how the task ends and by which rule.

    `catches_up`: the window has its length once more, from then on. `uncounted`: the attempt did
    not begin; the next one has its number.
    """

    retry_at: datetime | None = None
    state: TaskState = TaskState.OPEN
    reason: TaskReason | None = None
    catches_up: bool = False
    uncounted: bool = False


def decide(policy: Policy, end: End, limits: Limits) -> Decision:
    """What follows the end of an attempt: a repetition comes before its severity."""
    if end.worker_losses is not None:
        pause = pause_after_worker_loss(end.worker_losses)
        if pause is not None and _is_in_time(end.at + pause, limits):
            return Decision(retry_at=end.at + pause, uncounted=True)
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


def _is_in_time(start: datetime, limits: Limits) -> bool:
    return limits.latest_start is None or start <= limits.latest_start


def _fulfilled(policy: Policy, end: End, deadline: datetime | None) -> Decision:
    if deadline is None or end.at <= deadline:
        return Decision(state=TaskState.FULFILLED, reason=TaskReason.OUTCOME)
    state = TaskState.FULFILLED_LATE if policy.allow_late else TaskState.FAILED
    return Decision(state=state, reason=TaskReason.DEADLINE)


def limits_of(deadline: datetime, window_end: datetime, *, allow_late: bool) -> Limits:
    """Those of a task: what may be late may start as long as its window lasts."""
    return Limits(deadline, max(deadline, window_end) if allow_late else deadline)


def has_lapsed(task: Task, template: RunTemplate, now: datetime) -> bool:
    """Whether it is too late to begin an attempt.

    Where each window is to run, however late, none lapses.
    """
    if template.misfire == Misfire.ALL:
        return False
    limits = limits_of(task.deadline, task.window_end, allow_late=template.allow_late)
    return limits.latest_start is not None and now > limits.latest_start


def conclude(
    session: WritingSession,
    job: Job,
    *,
    again: bool,
    not_before: datetime | None = None,
    worker_unable: bool = False,
) -> bool:
    """A job is over for good: try again, or settle its task. True: no other attempt follows.

    `worker_unable`: nothing of it began, for its worker can't start any job.
    """
    policy = Policy.read(job.policy) if job.policy else Policy.of(job.runtemplate)
    decision = _decision(session, job, policy, again=again, worker_unable=worker_unable)
    if decision.retry_at is not None:
        at = max(decision.retry_at, not_before or decision.retry_at)
        if job.task is not None:
            if job.task.state != TaskState.OPEN:
                job.task.state = next_task_state(TaskState(job.task.state), TaskState.OPEN)
            if decision.catches_up:
                job.task.deadline = at + (job.task.window_end - job.task.window_start)
            if decision.uncounted:
                job.task.attempts -= 1
        follow(session, job, at, uncounted=decision.uncounted)
        return False
    if job.task is not None and decision.reason is not None:
        said = _said(job, policy, decision)
        end_task(session, job.task, decision.state, decision.reason, said, job)
        release_next(session, job)
    events.completed(session, job)
    notices.tell_end(session, job)
    return True


def _decision(
    session: WritingSession, job: Job, policy: Policy, *, again: bool, worker_unable: bool
) -> Decision:
    if job.state == JobState.CANCELLED:
        return Decision(state=TaskState.FAILED, reason=TaskReason.CANCELLED)
    fulfils = job.severity is not None and Severity(job.severity).fulfils
    losses = job.worker_losses if worker_unable else None
    end = End(job.attempt, job.end or job.schedule, fulfils, again, losses)
    task = job.task
    limits = Limits()
    if task is not None:
        limits = limits_of(task.deadline, task.window_end, allow_late=policy.allow_late)
    decision = decide(policy, end, limits)
    if decision.reason is TaskReason.DEADLINE and _is_caught_up(session, job, policy):
        decision = replace(decide(policy, end, Limits()), catches_up=True)
    if decision.retry_at is None or attempts.is_on(job.runtemplate):
        return decision
    return Decision(state=TaskState.FAILED, reason=TaskReason.INACTIVE)


def _is_caught_up(session: WritingSession, job: Job, policy: Policy) -> bool:
    """Whether the window of a lost attempt is caught up, like one that passed unattended.

    Where each window is to run it is, where the newest is to run that one, if it may be late.
    """
    if job.state != JobState.LOST or job.task is None:
        return False
    if job.runtemplate.misfire == Misfire.ALL:
        return True
    latest = job.runtemplate.misfire == Misfire.LATEST and policy.allow_late
    return latest and attempts.is_newest_window(session, job.task)


def _said(job: Job, policy: Policy, decision: Decision) -> str:
    message = job.message or job.state
    if decision.reason is TaskReason.ATTEMPTS:
        return f"{message} (attempt {job.attempt} of {attempts_of(policy.max_attempts)})"
    if decision.reason is TaskReason.DEADLINE and job.task is not None:
        return f"{message}; the deadline was {job.task.deadline.isoformat()}"
    if decision.reason is TaskReason.INACTIVE:
        return f"{message}; the run template is not active any more"
    return message


def follow(session: WritingSession, former: Job, at: datetime, *, uncounted: bool = False) -> Job:
    """Another attempt, with the same values, from an instant on.

    `uncounted`: the former one did not begin, and this one has its number.
    """
    job = Job(
        app_id=former.app_id,
        company_id=former.company_id,
        runtemplate=former.runtemplate,
        task=former.task,
        attempt=former.attempt if uncounted else former.attempt + 1,
        worker_losses=former.worker_losses + 1 if uncounted else 0,
        retry_of=None if former.task_id else former.retry_of or former.id,
        executor=former.executor,
        state=JobState.SCHEDULED,
        schedule=at,
        schedule_type="retry",
        launched_by=former.launched_by,
    )
    inherit(job, former)
    session.add(job)
    session.flush()
    wish(session, WishKind.CREATE_RUN, job.id)
    return job


def inherit(job: Job, former: Job) -> None:
    """Another attempt is for the same event, and has the same values.

    It goes on with the same trace, unless a request asked for it.
    """
    job.event_id, job.eventrule_id = former.event_id, former.eventrule_id
    job.overrides = dict(former.overrides)
    job.override_secrets = dict(former.override_secrets)
    job.input_files = dict(former.input_files)
    job.traceparent = job.traceparent or former.traceparent


def end_task(
    session: WritingSession,
    task: Task,
    state: TaskState,
    reason: TaskReason,
    message: str,
    job: Job | None = None,
) -> None:
    """A task has come to its end, by the last of its attempts or without one.

    Raises:
        Conflict: it has ended before.
    """
    task.state = next_task_state(TaskState(task.state), state)
    task.reason, task.message, task.catch_up = reason, message, False
    if reason is TaskReason.CLOSED:
        task.excuse, task.excused_by = message, SERVICE.name
    elif state in UNFULFILLED:
        wish(session, WishKind.TELL_TASK, task.id)
    elif job is not None:
        task.fulfilled_by_job_id, task.fulfilled_at = job.id, job.end
    if task.attempts > (0 if job is None else 1):  # attempts besides the one that ends it
        attempts.fence_task(session, task)


def release_next(session: WritingSession, job: Job) -> None:
    """The window that waited for this attempt to end need not wait for its next look."""
    if job.runtemplate.overlap != Overlap.WAIT:
        return
    first = attempts.next_waiting(session, job.runtemplate_id)
    if first is not None:
        wish(session, WishKind.RESCHEDULE_RUN, first)


def release_room(session: WritingSession, job: Job) -> None:
    """A job has ended: one that waited for its room need not wait for its next look."""
    credential_ids = job.policy.get(LIMITS)
    if not credential_ids:
        return
    first = attempts.next_waiting_for(session, credential_ids)
    if first is not None:
        wish(session, WishKind.RESCHEDULE_RUN, first)
