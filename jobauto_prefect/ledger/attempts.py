"""What follows an attempt: another one, or the end of its task.

Each function works inside the caller's transaction, which holds the task.
"""

from datetime import datetime

from sqlalchemy import ColumnElement, Select, delete, or_, select
from sqlalchemy.orm import Session

from jobauto_prefect.definitions import Overlap, Severity, attempts_of
from jobauto_prefect.ledger import events
from jobauto_prefect.ledger.audit import WritingSession
from jobauto_prefect.ledger.policy import Decision, End, Limits, Policy, decide, limits_of
from jobauto_prefect.ledger.records import Job, Lease, RunTemplate, Task
from jobauto_prefect.ledger.states import (
    JobState,
    TaskReason,
    TaskState,
    next_task_state,
)
from jobauto_prefect.ledger.wishes import WishKind, wish

UNFULFILLED = (TaskState.FAILED, TaskState.MISSED)


def conclude(
    session: WritingSession, job: Job, *, again: bool, not_before: datetime | None = None
) -> bool:
    """A job is over for good: try again, or settle its task. True: no other attempt follows."""
    policy = Policy.read(job.policy) if job.policy else Policy.of(job.runtemplate)
    decision = _decision(job, policy, again=again)
    if decision.retry_at is not None:
        if job.task is not None and job.task.state != TaskState.OPEN:
            job.task.state = next_task_state(TaskState(job.task.state), TaskState.OPEN)
        follow(session, job, max(decision.retry_at, not_before or decision.retry_at))
        return False
    if job.task is not None and decision.reason is not None:
        said = _said(job, policy, decision)
        end_task(session, job.task, decision.state, decision.reason, said, job)
        release_next(session, job)
    events.completed(session, job)
    return True


def _decision(job: Job, policy: Policy, *, again: bool) -> Decision:
    if job.state == JobState.CANCELLED:
        return Decision(state=TaskState.FAILED, reason=TaskReason.CANCELLED)
    fulfils = job.severity is not None and Severity(job.severity).fulfils
    end = End(job.attempt, job.end or job.schedule, fulfils, again)
    task = job.task
    limits = Limits()
    if task is not None:
        limits = limits_of(task.deadline, task.window_end, allow_late=policy.allow_late)
    decision = decide(policy, end, limits)
    if decision.retry_at is None or is_on(job.runtemplate):
        return decision
    return Decision(state=TaskState.FAILED, reason=TaskReason.INACTIVE)


def _said(job: Job, policy: Policy, decision: Decision) -> str:
    message = job.message or job.state
    if decision.reason is TaskReason.ATTEMPTS:
        return f"{message} (attempt {job.attempt} of {attempts_of(policy.max_attempts)})"
    if decision.reason is TaskReason.DEADLINE and job.task is not None:
        return f"{message}; the deadline was {job.task.deadline.isoformat()}"
    if decision.reason is TaskReason.INACTIVE:
        return f"{message}; the run template is not active any more"
    return message


def is_on(template: RunTemplate) -> bool:
    """Whether a template may start anything."""
    mine = template.active and template.retired_at is None
    return mine and template.app.enabled and template.company.enabled


def follow(session: WritingSession, former: Job, at: datetime) -> Job:
    """Another attempt, with the same values, from an instant on."""
    job = Job(
        app_id=former.app_id,
        company_id=former.company_id,
        runtemplate=former.runtemplate,
        task=former.task,
        attempt=former.attempt + 1,
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
    """Another attempt is for the same event, and has the same values."""
    job.event_id, job.eventrule_id = former.event_id, former.eventrule_id
    job.overrides = dict(former.overrides)
    job.override_secrets = dict(former.override_secrets)
    job.input_files = dict(former.input_files)


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
    if state in UNFULFILLED:
        wish(session, WishKind.TELL_TASK, task.id)
    elif job is not None:
        task.fulfilled_by_job_id, task.fulfilled_at = job.id, job.end
    if task.attempts:
        session.execute(delete(Lease).where(Lease.job_id.in_(_lost(Job.task_id == task.id))))


def fence_others(session: WritingSession, job: Job) -> None:
    """From now on this job counts: what its lost predecessors report changes nothing."""
    if job.attempt > 1:
        session.execute(delete(Lease).where(Lease.job_id.in_(_lost(_kin(job)))))


def _lost(which: ColumnElement[bool]) -> Select[tuple[int]]:
    return select(Job.id).where(which, Job.state == JobState.LOST)


def _kin(job: Job) -> ColumnElement[bool]:
    """The attempts at the same thing."""
    if job.task_id is not None:
        return Job.task_id == job.task_id
    first = job.retry_of or job.id
    return or_(Job.id == first, Job.retry_of == first)


def follower_of(session: Session, job: Job) -> Job | None:
    """The attempt that is to come after a job."""
    return session.scalar(
        select(Job).where(_kin(job), Job.id > job.id, Job.state == JobState.SCHEDULED)
    )


def release_next(session: WritingSession, job: Job) -> None:
    """The window that waited for this attempt to end need not wait for its next look."""
    if job.runtemplate.overlap != Overlap.WAIT:
        return
    waits = select(Job.id).where(
        Job.runtemplate_id == job.runtemplate_id,
        Job.state == JobState.SCHEDULED,
        Job.task_id.is_not(None),
        Job.flow_run_id.is_not(None),
        Job.schedule <= session.clock(),
    )
    first = session.scalar(waits.order_by(Job.schedule).limit(1))
    if first is not None:
        wish(session, WishKind.RESCHEDULE_RUN, first)
