"""The life of a job in the ledger: scheduled, granted, settled.

Each function works inside the caller's transaction and commits nothing. What a job's end means
for its task, and whether it is tried again, is `attempts`' to say.
"""

from dataclasses import dataclass
from datetime import datetime, timedelta
from uuid import UUID

from sqlalchemy import delete, select

from jobauto_prefect.definitions import Misfire, Severity
from jobauto_prefect.errors import Conflict
from jobauto_prefect.ledger import attempts
from jobauto_prefect.ledger.audit import WritingSession
from jobauto_prefect.ledger.records import Job, Lease, RunTemplate, Task
from jobauto_prefect.ledger.states import (
    JobState,
    TaskReason,
    TaskState,
    next_job_state,
    next_task_state,
)
from jobauto_prefect.ledger.wishes import WishKind, wish

UNHEARD = timedelta(seconds=60)
"""How long after its timeout a job of which nothing is heard has ended for certain."""


@dataclass(frozen=True, slots=True)
class Settlement:
    """How a job ended. `exit_code` is None where no process ended by itself.

    `again`: it ended in a way that is tried again, not before `not_before`. `heard` is False where
    nobody said that its process is gone, `fenced` is True where no report of it counts any more.
    """

    state: JobState
    severity: Severity
    message: str
    ended_at: datetime
    exit_code: int | None = None
    started_at: datetime | None = None
    pid: int | None = None
    again: bool = False
    heard: bool = True
    not_before: datetime | None = None
    fenced: bool = False


@dataclass(frozen=True, slots=True)
class Grant:
    """Who may start a job, where, and for how many seconds."""

    claim_id: UUID
    worker: str
    directory: str
    timeout_seconds: float


def new_job(template: RunTemplate, *, schedule: datetime, schedule_type: str) -> Job:
    """A scheduled job of a template; nothing is told to Prefect by this alone."""
    return Job(
        app_id=template.app_id,
        company_id=template.company_id,
        runtemplate_id=template.id,
        runtemplate=template,
        executor=template.executor,
        state=JobState.SCHEDULED,
        schedule=schedule,
        schedule_type=schedule_type,
    )


def lock(session: WritingSession, job: Job) -> None:
    """Let nobody else decide about this job, or about its task, and read what they are now."""
    fresh = {"populate_existing": True}
    if job.task_id is not None:
        of_job = select(Task).where(Task.id == job.task_id).with_for_update()
        session.scalars(of_job.execution_options(**fresh)).one()
    itself = select(Job).where(Job.id == job.id).with_for_update()
    session.scalars(itself.execution_options(**fresh)).one()


def awaits_run(job: Job) -> bool:
    """Whether a job is to start and has no flow run that could start it."""
    return job.state == JobState.SCHEDULED and job.flow_run_id is None


def grant(session: WritingSession, job: Job, grant: Grant) -> None:
    """A worker may start this job: it is running, and its lease begins; its predecessors' end.

    Raises:
        Conflict: the job is not scheduled any more.
    """
    job.state = next_job_state(JobState(job.state), JobState.RUNNING)
    job.claim_id, job.worker = grant.claim_id, grant.worker
    now = session.clock()
    job.begin = now
    if job.task is not None:
        job.task.state = next_task_state(TaskState(job.task.state), TaskState.RUNNING)
        _count(job, job.task, now)
    session.flush()
    attempts.fence_others(session, job)
    session.add(
        Lease(
            job_id=job.id,
            worker=grant.worker,
            claim_id=grant.claim_id,
            directory=grant.directory,
            renewed_at=now,
            ends_by=now + timedelta(seconds=grant.timeout_seconds) + UNHEARD,
        )
    )


def _count(job: Job, task: Task, now: datetime) -> None:
    if task.attempts == 0 and job.runtemplate.misfire == Misfire.ALL and now > task.deadline:
        task.deadline = now + (task.window_end - task.window_start)
    task.attempts += 1
    job.attempt = task.attempts


def settle(session: WritingSession, job: Job, settlement: Settlement) -> bool:
    """Write down how a job ended, and bring its task forward; True: no other attempt follows.

    A lost job of which nobody has heard keeps its lease: until its worker's word comes, or its
    time is up, nothing follows.

    Raises:
        Conflict: the job has ended otherwise, or another attempt has taken its place.
    """
    lock(session, job)
    lease = session.get(Lease, job.id, populate_existing=True)
    lost_before, lost = job.state == JobState.LOST, settlement.state is JobState.LOST
    if lost_before and (lease is None or not settlement.heard):
        raise Conflict(f"job {job.id} is lost; its report comes too late")
    if lost_before and lost and lease is not None and lease.ends_by is None:
        return False  # that is known, and what follows is under way
    if not (lost_before and lost):
        job.state = next_job_state(JobState(job.state), settlement.state)
    job.severity = settlement.severity
    job.message = settlement.message
    job.exitcode = settlement.exit_code
    job.begin = settlement.started_at or job.begin
    job.pid = settlement.pid or job.pid
    job.end = settlement.ended_at
    if not settlement.heard:
        return False
    _withdraw_follower(session, job)
    settles = attempts.conclude(
        session, job, again=settlement.again, not_before=settlement.not_before
    )
    if lease is not None:
        _end_lease(session, lease, may_report=lost and not settles and not settlement.fenced)
    return settles


def _withdraw_follower(session: WritingSession, job: Job) -> None:
    follower = attempts.follower_of(session, job)
    if follower is not None:
        skip(session, follower, f"attempt {job.attempt} has reported after all")


def _end_lease(session: WritingSession, lease: Lease, *, may_report: bool) -> None:
    """Until its successor is granted, what a lost job was is still worth knowing."""
    if may_report:
        lease.ends_by = None
    else:
        session.execute(delete(Lease).where(Lease.job_id == lease.job_id))


def give_up(session: WritingSession, job: Job) -> None:
    """Nobody has heard of a lost job, and its time is up: what follows a loss follows now.

    Until the next attempt is granted a report may still come, and withdraws it.
    """
    lock(session, job)
    lease = session.get(Lease, job.id)
    if job.state != JobState.LOST or lease is None or lease.ends_by is None:
        return
    job.end = session.clock()
    if job.cancel_reason is not None:
        job.state = next_job_state(JobState.LOST, JobState.CANCELLED)
    settles = attempts.conclude(session, job, again=True)
    _end_lease(session, lease, may_report=not settles)


def block(session: WritingSession, job: Job, message: str) -> None:
    """A scheduled job that may not start: it is over, and so is its task."""
    _end_unstarted(session, job, JobState.BLOCKED, message)
    if job.task is not None:
        attempts.end_task(session, job.task, TaskState.FAILED, TaskReason.BLOCKED, message)


def skip(session: WritingSession, job: Job, message: str) -> None:
    """A scheduled job that is not wanted any more; its task is the caller's matter."""
    _end_unstarted(session, job, JobState.SKIPPED, message)
    wish(session, WishKind.CANCEL_RUN, job.id)


def lose_unclaimed(session: WritingSession, job: Job, message: str) -> None:
    """Whoever was to run a scheduled job died before its claim: an attempt is lost."""
    lock(session, job)
    _end_unstarted(session, job, JobState.LOST, message)
    if job.task is not None:
        job.task.attempts += 1
    attempts.conclude(session, job, again=True)


def _end_unstarted(session: WritingSession, job: Job, state: JobState, message: str) -> None:
    job.state = next_job_state(JobState(job.state), state)
    job.severity = Severity.ERROR
    job.message = message
    job.end = session.clock()


def cancel(session: WritingSession, job: Job, reason: str) -> None:
    """Ask for the end of a job: a scheduled one is over, a running one is stopped by its worker.

    Raises:
        Conflict: it is over already.
    """
    lock(session, job)
    if job.state == JobState.LOST and session.get(Lease, job.id) is None:
        raise Conflict(f"job {job.id} is lost, and what follows it has been decided")
    next_job_state(JobState(job.state), JobState.CANCELLED)  # or it is over: Conflict
    job.cancel_reason = reason
    if job.state == JobState.SCHEDULED:
        _end_unstarted(session, job, JobState.CANCELLED, reason)
        if job.task is not None:
            attempts.end_task(session, job.task, TaskState.FAILED, TaskReason.CANCELLED, reason)
    wish(session, WishKind.CANCEL_RUN, job.id)
