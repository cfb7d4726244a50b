"""What follows an attempt: another one, or the end of its task.

The rules are pure (`decide_retry`). The functions that apply them work inside the caller's
transaction, which holds the task, and commit nothing.
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
from jobauto_prefect.ledger.audit.trail import SERVICE, WritingSession
from jobauto_prefect.ledger.events import event_store
from jobauto_prefect.ledger.jobs import attempts
from jobauto_prefect.ledger.jobs.attempts import fence_task
from jobauto_prefect.ledger.jobs.waits import next_waiting, next_waiting_for
from jobauto_prefect.ledger.outbox import OutboxKind, enqueue
from jobauto_prefect.ledger.records import Job, RunTemplate, Task
from jobauto_prefect.ledger.states import (
    UNFULFILLED,
    JobState,
    TaskReason,
    TaskState,
    next_task_state,
)


@dataclass(frozen=True, slots=True)
class RetryPolicy:
    """A run template's rules for attempts, as they were when the attempt was granted.

    `max_attempts` counts all attempts of a task, None: the default; `retry_min_gap` is in seconds.
    """

    max_attempts: int | None = None
    retry_backoff: str = Backoff.NONE
    retry_min_gap: int = 0
    retry_undeclared: bool = False
    allow_late: bool = False
    on_contact_lost: str = ContactLost.FINISH

    @classmethod
    def of(cls, template: object) -> Self:
        """Return the policy of a run template's record."""
        return cls(**{name: getattr(template, name) for name in cls.__slots__})

    @classmethod
    def read(cls, kept: Mapping[str, Any]) -> Self:
        """Read a policy from the result of `as_dict`."""
        return cls(**{name: kept[name] for name in cls.__slots__ if name in kept})

    def as_dict(self) -> dict[str, Any]:
        """Return the policy as JSON, to be stored with a job."""
        return asdict(self)


LIMITS = "limits"
"""Key in a job's stored rules: the ids of its credentials that have a limit."""


@dataclass(frozen=True, slots=True)
class AttemptEnd:
    """How the attempt of a number (from 1) ended. `again`: ends of this kind are retried.

    `worker_losses` counts the preceding starts that failed because of the worker, None: it began.
    """

    attempt: int
    at: datetime
    fulfils: bool
    again: bool
    worker_losses: int | None = None


@dataclass(frozen=True, slots=True)
class StartLimits:
    """When a task had to be fulfilled, and the latest start of an attempt.

    None: there is no task, and so no limit.
    """

    deadline: datetime | None = None
    latest_start: datetime | None = None


WORKER_LOSSES = 10
"""How often in a row a job that its worker could not start is repeated at once."""

LONGEST_WORKER_PAUSE_SECONDS = 60


def pause_after_worker_loss(losses_before: int) -> timedelta | None:
    """Return the pause before repeating a start the worker failed at; None: as any loss."""
    if losses_before >= WORKER_LOSSES:
        return None
    return timedelta(seconds=min(2**losses_before, LONGEST_WORKER_PAUSE_SECONDS))


@dataclass(frozen=True, slots=True)
class Decision:
    """What follows: another attempt at `retry_at`, or the task's end and the rule behind it.

    `catches_up`: the window gets its length again, from then on. `uncounted`: the attempt did not
    begin; the next one gets its number.
    """

    retry_at: datetime | None = None
    state: TaskState = TaskState.OPEN
    reason: TaskReason | None = None
    catches_up: bool = False
    uncounted: bool = False


def decide_retry(policy: RetryPolicy, end: AttemptEnd, limits: StartLimits) -> Decision:
    """Decide what follows the end of an attempt: a retry takes precedence over its severity."""
    if end.worker_losses is not None:
        pause = pause_after_worker_loss(end.worker_losses)
        latest = limits.latest_start
        if pause is not None and (latest is None or end.at + pause <= latest):
            return Decision(retry_at=end.at + pause, uncounted=True)
    spent = end.attempt >= attempts_of(policy.max_attempts)
    if end.again and not spent:
        gap, until = policy.retry_min_gap, limits.latest_start
        at = retry_at(policy.retry_backoff, gap, end.attempt, end.at, until)
        if at is not None:
            return Decision(retry_at=at)
    if end.fulfils and (limits.deadline is None or end.at <= limits.deadline):
        return Decision(state=TaskState.FULFILLED, reason=TaskReason.OUTCOME)
    if end.fulfils:
        state = TaskState.FULFILLED_LATE if policy.allow_late else TaskState.FAILED
        return Decision(state=state, reason=TaskReason.DEADLINE)
    if not end.again:
        return Decision(state=TaskState.FAILED, reason=TaskReason.OUTCOME)
    reason = TaskReason.ATTEMPTS if spent else TaskReason.DEADLINE
    return Decision(state=TaskState.FAILED, reason=reason)


def limits_of(deadline: datetime, window_end: datetime, *, allow_late: bool) -> StartLimits:
    """Return the limits of a task: one that may be late may start until its window ends."""
    return StartLimits(deadline, max(deadline, window_end) if allow_late else deadline)


def has_lapsed(task: Task, template: RunTemplate, now: datetime) -> bool:
    """Whether it is too late to begin an attempt.

    With the misfire policy `all`, windows never lapse.
    """
    if template.misfire == Misfire.ALL:
        return False
    limits = limits_of(task.deadline, task.window_end, allow_late=template.allow_late)
    return limits.latest_start is not None and now > limits.latest_start


def finish_attempt(
    session: WritingSession,
    job: Job,
    *,
    again: bool,
    not_before: datetime | None = None,
    worker_unable: bool = False,
    is_first_end: bool = False,
) -> bool:
    """Schedule another attempt, or end the task; return whether no other attempt follows.

    `worker_unable`: it did not begin, because its worker can't start any job. `is_first_end`: it
    was running until now, so no event reports its end yet.
    """
    policy = RetryPolicy.read(job.policy) if job.policy else RetryPolicy.of(job.runtemplate)
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
        schedule_retry(session, job, at, uncounted=decision.uncounted)
        return False
    if job.task is not None and decision.reason is not None:
        message = _said(job, policy, decision)
        end_task(session, job.task, decision.state, decision.reason, message, job)
        release_next(session, job)
    if is_first_end or not event_store.has_completed(session, job):
        event_store.store_completion(session, job)
    notices.notify_end(session, job)
    return True


def _decision(
    session: WritingSession, job: Job, policy: RetryPolicy, *, again: bool, worker_unable: bool
) -> Decision:
    if job.state == JobState.CANCELLED:
        return Decision(state=TaskState.FAILED, reason=TaskReason.CANCELLED)
    fulfils = job.severity is not None and Severity(job.severity).fulfils
    losses = job.worker_losses if worker_unable else None
    end = AttemptEnd(job.attempt, job.end or job.schedule, fulfils, again, losses)
    task = job.task
    limits = StartLimits()
    if task is not None:
        limits = limits_of(task.deadline, task.window_end, allow_late=policy.allow_late)
    decision = decide_retry(policy, end, limits)
    if decision.reason is TaskReason.DEADLINE and _is_caught_up(session, job, policy):
        decision = replace(decide_retry(policy, end, StartLimits()), catches_up=True)
    if decision.retry_at is None or attempts.is_active(job.runtemplate):
        return decision
    return Decision(state=TaskState.FAILED, reason=TaskReason.INACTIVE)


def _is_caught_up(session: WritingSession, job: Job, policy: RetryPolicy) -> bool:
    """Whether the window of a lost attempt is caught up, like one that passed unattended.

    With the misfire policy `all`, always; with `latest`, if it is the newest and may be late.
    """
    if job.state != JobState.LOST or job.task is None:
        return False
    if job.runtemplate.misfire == Misfire.ALL:
        return True
    latest = job.runtemplate.misfire == Misfire.LATEST and policy.allow_late
    return latest and attempts.is_newest_window(session, job.task)


def _said(job: Job, policy: RetryPolicy, decision: Decision) -> str:
    message = job.message or job.state
    if decision.reason is TaskReason.ATTEMPTS:
        return f"{message} (attempt {job.attempt} of {attempts_of(policy.max_attempts)})"
    if decision.reason is TaskReason.DEADLINE and job.task is not None:
        return f"{message}; the deadline was {job.task.deadline.isoformat()}"
    if decision.reason is TaskReason.INACTIVE:
        return f"{message}; the run template is no longer active"
    return message


def schedule_retry(
    session: WritingSession, former: Job, at: datetime, *, uncounted: bool = False
) -> Job:
    """Schedule another attempt with the same values at an instant.

    `uncounted`: the previous one did not begin, and this one gets its number.
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
    inherit_values(job, former)
    session.add(job)
    session.flush()
    enqueue(session, OutboxKind.CREATE_RUN, job.id)
    return job


def inherit_values(job: Job, former: Job) -> None:
    """Give another attempt the event and the values of the previous one.

    It continues the same trace, unless a request asked for it.
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
    """End a task, by its last attempt or without one.

    Raises:
        Conflict: it has already ended.
    """
    task.state = next_task_state(TaskState(task.state), state)
    task.reason, task.message, task.catch_up = reason, message, False
    if reason is TaskReason.CLOSED:
        task.excuse, task.excused_by = message, SERVICE.name
    elif state in UNFULFILLED:
        enqueue(session, OutboxKind.TELL_TASK, task.id)
    elif job is not None:
        task.fulfilled_by_job_id, task.fulfilled_at = job.id, job.end
    if task.attempts > (0 if job is None else 1):  # attempts other than the one that ends it
        fence_task(session, task)


def release_next(session: WritingSession, job: Job) -> None:
    """Start the window that waited for this attempt to end."""
    if job.runtemplate.overlap != Overlap.WAIT:
        return
    first = next_waiting(session, job.runtemplate_id)
    if first is not None:
        enqueue(session, OutboxKind.RESCHEDULE_RUN, first)


def release_room(session: WritingSession, job: Job) -> None:
    """Start a job that waited for a credential slot of the ended one."""
    credential_ids = job.policy.get(LIMITS)
    if not credential_ids:
        return
    first = next_waiting_for(session, credential_ids)
    if first is not None:
        enqueue(session, OutboxKind.RESCHEDULE_RUN, first)
