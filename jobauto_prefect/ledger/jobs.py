"""The life of a job and its task in the ledger: waiting, granted, settled.

Each function works inside the caller's transaction and commits nothing.
"""

from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

from sqlalchemy import delete, select
from sqlalchemy.orm import Session

from jobauto_prefect.definitions.model import Severity
from jobauto_prefect.ledger.audit import WritingSession
from jobauto_prefect.ledger.records import Job, Lease, RunTemplate, Task
from jobauto_prefect.ledger.states import (
    JobState,
    TaskState,
    next_job_state,
    next_task_state,
)
from jobauto_prefect.ledger.wishes import WishKind, wish


@dataclass(frozen=True, slots=True)
class Settlement:
    """How a job ended. `exit_code` is None where no process ended by itself."""

    state: JobState
    severity: Severity
    message: str
    ended_at: datetime
    exit_code: int | None = None
    started_at: datetime | None = None


def new_job(template: RunTemplate, *, schedule: datetime, schedule_type: str) -> Job:
    """A waiting job of a template; nothing is told to Prefect by this alone."""
    return Job(
        app_id=template.app_id,
        company_id=template.company_id,
        runtemplate_id=template.id,
        runtemplate=template,
        executor=template.executor,
        state=JobState.WAITING,
        schedule=schedule,
        schedule_type=schedule_type,
    )


def task_for(
    session: Session, template: RunTemplate, window: tuple[datetime, datetime]
) -> tuple[Task, bool]:
    """The one task of a window, and whether it is new."""
    start, end = window
    known = session.scalar(
        select(Task).where(Task.runtemplate_id == template.id, Task.window_start == start)
    )
    if known is not None:
        return known, False
    task = Task(runtemplate_id=template.id, window_start=start, window_end=end, deadline=end)
    session.add(task)
    session.flush()
    return task, True


def grant(
    session: WritingSession, job: Job, *, claim_id: UUID, worker: str, directory: str
) -> None:
    """A worker may start this job: it is running, and its lease begins.

    Raises:
        Conflict: the job is not waiting.
    """
    job.state = next_job_state(JobState(job.state), JobState.RUNNING)
    job.claim_id, job.worker = claim_id, worker
    job.begin = session.clock()
    if job.task is not None:
        job.task.state = next_task_state(TaskState(job.task.state), TaskState.RUNNING)
        job.task.attempts += 1
        job.attempt = job.task.attempts
    session.flush()
    session.add(
        Lease(
            job_id=job.id,
            worker=worker,
            claim_id=claim_id,
            directory=directory,
            renewed_at=session.clock(),
        )
    )


def settle(session: WritingSession, job: Job, settlement: Settlement) -> None:
    """Write down how a job ended, end its lease, and bring its task forward.

    Raises:
        Conflict: the job has ended otherwise.
    """
    job.state = next_job_state(JobState(job.state), settlement.state)
    job.severity = settlement.severity
    job.message = settlement.message
    job.exitcode = settlement.exit_code
    job.begin = settlement.started_at or job.begin
    job.end = settlement.ended_at
    session.execute(delete(Lease).where(Lease.job_id == job.id))
    if job.task is not None:
        _settle_task(job.task, job, settlement)


def _settle_task(task: Task, job: Job, settlement: Settlement) -> None:
    if not settlement.severity.fulfils:
        if task.state == TaskState.RUNNING:
            task.state = next_task_state(TaskState.RUNNING, TaskState.FAILED)
            task.reason = settlement.message
        return
    task.state = next_task_state(TaskState(task.state), TaskState.FULFILLED)
    task.reason = settlement.message
    task.fulfilled_by_job_id = job.id
    task.fulfilled_at = settlement.ended_at


def refuse(session: WritingSession, job: Job, message: str) -> None:
    """A waiting job that may not start: it is over, and says why."""
    job.state = next_job_state(JobState(job.state), JobState.REFUSED)
    job.severity = Severity.ERROR
    job.message = message
    job.end = session.clock()
    if job.task is not None:
        job.task.state = next_task_state(TaskState(job.task.state), TaskState.FAILED)
        job.task.reason = message


def cancel(session: WritingSession, job: Job, reason: str) -> None:
    """Ask for the end of a job: a waiting one is over, a running one is stopped by its worker.

    Raises:
        Conflict: it is over already.
    """
    job.cancel_reason = reason
    if job.state == JobState.WAITING:
        job.state = next_job_state(JobState.WAITING, JobState.CANCELLED)
        job.severity, job.message, job.end = Severity.ERROR, reason, session.clock()
    else:
        next_job_state(JobState(job.state), JobState.CANCELLED)  # or it is over: Conflict
    wish(session, WishKind.CANCEL_RUN, job.id)
