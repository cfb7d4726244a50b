"""Rows of tasks and their attempts: created, looked up, locked and fenced.

Each function works inside the caller's transaction and commits nothing.

Locks are taken in one order everywhere: flow-run id, worker, freeze, run template (only for
attempts at a task that do not run in parallel), task, job, credential (only those with a limit),
lease; several of a kind by ascending id. What was read before a lock is read again after it.

All row locks are `key_share`: rows that refer to a locked row, such as the next attempt to its
first, can be inserted meanwhile. Otherwise two holders of one lock each could deadlock.
"""

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import NamedTuple
from uuid import UUID

from sqlalchemy import (
    ColumnElement,
    Select,
    String,
    bindparam,
    cast,
    delete,
    exists,
    func,
    or_,
    select,
)
from sqlalchemy.orm import Session, joinedload

from jobauto_prefect.errors import Conflict, Forbidden, NotFound
from jobauto_prefect.ledger.audit.trail import WritingSession
from jobauto_prefect.ledger.base import BigId
from jobauto_prefect.ledger.jobs.freezes import PRESENT, lock_present_freeze
from jobauto_prefect.ledger.queries.jobs import WITH_CONTEXT, WITH_CREDENTIALS
from jobauto_prefect.ledger.records import (
    Artifact,
    Credential,
    CredentialType,
    Freeze,
    Job,
    Lease,
    RunTemplate,
    Task,
    TemplateCredential,
    WorkerRecord,
)
from jobauto_prefect.ledger.states import LIVE_JOBS, JobState, TaskState
from jobauto_prefect.logs import current_log_context


def new_job(template: RunTemplate, *, schedule: datetime, schedule_type: str) -> Job:
    """Return a scheduled job of a template; the caller sends it to Prefect."""
    return Job(
        app_id=template.app_id,
        company_id=template.company_id,
        runtemplate_id=template.id,
        runtemplate=template,
        executor=template.executor,
        state=JobState.SCHEDULED,
        schedule=schedule,
        schedule_type=schedule_type,
        traceparent=current_log_context().traceparent,
    )


def is_active(template: RunTemplate) -> bool:
    """Whether a template may start anything."""
    return inactive_reason(template) is None


def inactive_reason(template: RunTemplate) -> str | None:
    """Return why nothing of this template may start; None: it may."""
    if template.retired_at is not None:
        return f"the run template {template.name} was deleted"
    if not template.active:
        return f"the run template {template.name} is not active"
    if not template.app.enabled:
        return f"the application {template.app.name} is disabled"
    if not template.company.enabled:
        return f"the company {template.company.name} is disabled"
    return None


class ClaimSubject(NamedTuple):
    """The jobs a claim may concern: that of its id, those of its flow run, the one it names."""

    claim_id: UUID
    flow_run_id: UUID
    named: int | None


_IS_SUBJECT = or_(
    Job.claim_id == bindparam("claim_id"),
    Job.flow_run_id == bindparam("flow_run_id"),
    Job.id == bindparam("named", type_=BigId),
)
"""Whether a claim may concern the job; the parameters are the members of a `ClaimSubject`."""


@dataclass(frozen=True, slots=True)
class Claimant:
    """The claiming worker, and what the statement that locked it also read.

    `freeze` None: there is none. `concerns_task`: one of the claim's possible jobs is an attempt at
    a task, so more must be locked before the job.
    """

    worker: WorkerRecord
    freeze: Freeze | None
    concerns_task: bool


# Built once: building statements that every job needs would be a good part of their cost.
_LOCK_WORKER = (
    select(WorkerRecord, Freeze, exists().where(_IS_SUBJECT, Job.task_id.is_not(None)))
    .outerjoin(Freeze, PRESENT)
    .where(WorkerRecord.name == bindparam("worker"))
    .with_for_update(read=True, key_share=True, of=WorkerRecord)
    .execution_options(populate_existing=True)
)


def lock_worker(
    session: WritingSession,
    name: str,
    instance: UUID,
    pools: Collection[str],
    subject: ClaimSubject,
) -> Claimant:
    """Lock the claiming worker: nobody can take over its name until this transaction ends.

    Its claims and renewals do not wait for each other.

    Raises:
        Conflict: another start of the worker is the current one.
        Forbidden: it is of a pool the token does not name.
    """
    asked = {"worker": name, "now": session.clock(), **subject._asdict()}
    row = session.execute(_LOCK_WORKER, asked).one_or_none()
    worker, freeze, concerns_task = row or (None, None, False)
    require_worker_pool(worker, pools)
    if worker is None or worker.instance != instance:
        raise Conflict(
            f"worker {name} has been replaced by another start of that name, or was"
            " declared lost; start it again"
        )
    if freeze is not None:  # so that its end waits for this claim, and finds the job that must wait
        freeze = lock_present_freeze(session)
    return Claimant(worker, freeze, concerns_task)


def require_worker_pool(worker: WorkerRecord | None, pools: Collection[str]) -> None:
    """Require that a token is for the pool of the worker it is used for.

    Raises:
        Forbidden: `pools`, which the token names, do not include it.
    """
    if worker is not None and worker.pool not in pools:
        raise Forbidden(
            f"worker {worker.name} is of work pool {worker.pool}, and this token is not for that"
            " pool"
        )


def lock_task(session: WritingSession, task_id: int) -> Task:
    query = select(Task).where(Task.id == task_id).with_for_update(key_share=True)
    return session.scalars(query.execution_options(populate_existing=True)).one()


def lock_job(session: WritingSession, job: Job) -> None:
    """Lock a job and its task, and refresh both."""
    if job.task_id is not None:
        lock_task(session, job.task_id)
    itself = select(Job).where(Job.id == job.id).options(*WITH_CONTEXT)
    itself = itself.with_for_update(key_share=True, of=Job)
    session.scalars(itself.execution_options(populate_existing=True)).one()


_LOCK_REPORTED_JOB = (
    select(Job, exists().where(Artifact.job_id == Job.id))
    .where(Job.id == bindparam("job_id"))
    .options(*WITH_CONTEXT)
    .with_for_update(key_share=True, of=Job)
    .execution_options(populate_existing=True)
)
_LOCK_REPORTED_JOB_WITHOUT_TASK = _LOCK_REPORTED_JOB.where(Job.task_id.is_(None))


def lock_reported_job(session: WritingSession, job_id: int) -> tuple[Job, bool]:
    """Lock a job and its task as `lock_job`; also return whether it left artifacts.

    A job without a task takes one statement.

    Raises:
        NotFound: there is no such job.
    """
    asked = {"job_id": job_id}
    row = session.execute(_LOCK_REPORTED_JOB_WITHOUT_TASK, asked).one_or_none()
    if row is None:
        its_task = select(Job.task_id).where(Job.id == job_id).scalar_subquery()
        session.execute(select(Task.id).where(Task.id == its_task).with_for_update(key_share=True))
        row = session.execute(_LOCK_REPORTED_JOB, asked).one_or_none()
    if row is None:
        raise NotFound(f"there is no job {job_id}")
    return row[0], row[1]


def lock_jobs(session: WritingSession, jobs: Sequence[Job]) -> None:
    """Lock several jobs: first their tasks, then themselves, each by ascending id."""
    tasks = {job.task_id for job in jobs if job.task_id is not None}
    for task_id in sorted(tasks):
        lock_task(session, task_id)
    for job in sorted(jobs, key=lambda job: job.id):
        lock_job(session, job)


def task_of_window(session: WritingSession, template: RunTemplate, start: datetime) -> Task | None:
    """Lock the task of the window that begins at an instant; None if it has none."""
    task_id = session.scalar(
        select(Task.id).where(Task.runtemplate_id == template.id, Task.window_start == start)
    )
    return None if task_id is None else lock_task(session, task_id)


def scheduled_job(session: WritingSession, task: Task) -> Job | None:
    """Return the scheduled attempt at a task; None if there is none."""
    return session.scalar(
        select(Job).where(Job.task_id == task.id, Job.state == JobState.SCHEDULED)
    )


def last_job(session: WritingSession, task: Task) -> Job | None:
    """Return the newest attempt at a task; None if there was none."""
    return session.scalar(
        select(Job).where(Job.task_id == task.id).order_by(Job.id.desc()).limit(1)
    )


def last_ended_job(session: WritingSession, task: Task) -> Job | None:
    """Return the attempt at a task that ended last; None if none has ended."""
    over = Job.state.not_in(LIVE_JOBS)
    query = select(Job).where(Job.task_id == task.id, over).order_by(Job.id.desc()).limit(1)
    return session.scalar(query)


def is_newest_window(session: WritingSession, task: Task) -> bool:
    """Whether no later window of the run template has opened."""
    later = select(Task.id).where(
        Task.runtemplate_id == task.runtemplate_id, Task.window_start > task.window_start
    )
    return session.scalar(later.limit(1)) is None


def lock_open_tasks(session: WritingSession, template: RunTemplate) -> Sequence[Task]:
    query = select(Task).where(Task.runtemplate_id == template.id, Task.state == TaskState.OPEN)
    return session.scalars(query.order_by(Task.id).with_for_update(key_share=True)).all()


def lock_scheduled_jobs(session: WritingSession, tasks: Sequence[Task]) -> Sequence[Job]:
    """Lock the scheduled attempts at these tasks."""
    query = select(Job).where(
        Job.task_id.in_([task.id for task in tasks]), Job.state == JobState.SCHEDULED
    )
    return session.scalars(query.order_by(Job.id).with_for_update(key_share=True)).all()


def follower_of(session: Session, job: Job) -> Job | None:
    """Return the scheduled attempt after a job; None if there is none."""
    return session.scalar(_following(job))


def lock_follower(session: WritingSession, job: Job) -> Job | None:
    """Lock the scheduled attempt after a job; None if there is none, or it has begun."""
    locked = _following(job).with_for_update(key_share=True)
    return session.scalar(locked.execution_options(populate_existing=True))


def _following(job: Job) -> Select[tuple[Job]]:
    return select(Job).where(_same_work(job), Job.id > job.id, Job.state == JobState.SCHEDULED)


def fence_others(session: WritingSession, job: Job) -> None:
    """Fence the lost predecessors of a job: their reports no longer count."""
    if job.attempt > 1:
        session.execute(delete(Lease).where(Lease.job_id.in_(_lost(_same_work(job)))))


def fence_task(session: WritingSession, task: Task) -> None:
    """Fence the lost attempts of a task that has ended: their reports no longer count."""
    session.execute(delete(Lease).where(Lease.job_id.in_(_lost(Job.task_id == task.id))))


def _lost(which: ColumnElement[bool]) -> Select[tuple[int]]:
    return select(Job.id).where(which, Job.state == JobState.LOST)


def _same_work(job: Job) -> ColumnElement[bool]:
    """Return the condition for attempts at the same work."""
    if job.task_id is not None:
        return Job.task_id == job.task_id
    first = job.retry_of or job.id
    return or_(Job.id == first, Job.retry_of == first)


# claims


def lock_flow_run(session: WritingSession, flow_run_id: UUID) -> None:
    """Lock a flow run, which may have no job yet: nobody else can claim it.

    SQLite has one writer at a time anyway.
    """
    if session.get_bind().dialect.name == "postgresql":
        key = int.from_bytes(flow_run_id.bytes[:8], signed=True)
        session.execute(select(func.pg_advisory_xact_lock(key)))


def lock_template(session: WritingSession, template: RunTemplate) -> None:
    """Lock a template: nobody else begins an attempt at a window of it, or opens its windows.

    Jobs can be inserted meanwhile: the lock is `key_share`.
    """
    query = select(RunTemplate.id).where(RunTemplate.id == template.id)
    session.execute(query.with_for_update(key_share=True))


@dataclass(frozen=True, slots=True)
class KnownJobs:
    """The jobs a claim may concern: its own, those of its flow run, the one it names."""

    own: Job | None
    of_run: Sequence[Job]
    named: Job | None


_JOBS_OF_CLAIM = (
    select(Job).where(_IS_SUBJECT).order_by(Job.id).execution_options(populate_existing=True)
)
_LOOK_AT_JOBS = _JOBS_OF_CLAIM.options(*WITH_CONTEXT)
_LOCK_JOBS = _JOBS_OF_CLAIM.options(*WITH_CREDENTIALS).with_for_update(key_share=True, of=Job)


def jobs_of_claim(
    session: WritingSession, subject: ClaimSubject, *, lock: bool = False
) -> KnownJobs:
    """Return the jobs of a claim in their current state, with one query.

    `lock`: nobody else decides about these jobs until this transaction ends.
    """
    query = _LOCK_JOBS if lock else _LOOK_AT_JOBS
    jobs = session.scalars(query, subject._asdict()).unique().all()
    return KnownJobs(
        own=next((job for job in jobs if job.claim_id == subject.claim_id), None),
        of_run=[job for job in jobs if job.flow_run_id == subject.flow_run_id],
        named=next((job for job in jobs if job.id == subject.named), None),
    )


def is_superseded(session: WritingSession, job: Job) -> bool:
    """Whether a later attempt at the same work has begun."""
    begun = select(Job.id).where(_same_work(job), Job.id > job.id, Job.claim_id.is_not(None))
    return session.scalar(begun.limit(1)) is not None


def live_attempt_after(session: Session, job: Job) -> int | None:
    """Return the id of the waiting or running later attempt at the same work; None if none."""
    live = (_same_work(job), Job.id > job.id, Job.state.in_(LIVE_JOBS))
    return session.scalar(select(func.max(Job.id)).where(*live))


def template_of_deployment(session: Session, deployment_id: UUID) -> RunTemplate | None:
    """Return the run template of a Prefect deployment; None: the deployment has none."""
    return session.scalar(
        select(RunTemplate)
        .where(RunTemplate.deployment_id == deployment_id)
        .options(joinedload(RunTemplate.app), joinedload(RunTemplate.company))
    )


def has_other_pools(session: Session, pools: Collection[str], default: str) -> bool:
    """Whether there are run templates in other work pools; `default` is for those without pool."""
    pool = func.coalesce(func.nullif(RunTemplate.pool, ""), default)
    return session.scalar(select(RunTemplate.id).where(pool.not_in(pools)).limit(1)) is not None


def template_that_asks(
    session: Session, flow_run_id: UUID, deployment_id: UUID
) -> RunTemplate | None:
    """Return a flow run's template, if its jobs need a preflight.

    That is for foreign blocks, checks of availability, and values that credentials refer to. None:
    they need no preflight.
    """
    of_run = select(Job.runtemplate_id).where(Job.flow_run_id == flow_run_id)
    checked = (
        select(TemplateCredential.runtemplate_id)
        .join(Credential)
        .join(CredentialType)
        .where(or_(CredentialType.availability.is_not(None), CredentialType.source.is_not(None)))
    )
    query = select(RunTemplate).where(
        or_(RunTemplate.deployment_id == deployment_id, RunTemplate.id.in_(of_run)),
        or_(cast(RunTemplate.blocks, String) != "[]", RunTemplate.id.in_(checked)),
    )
    return session.scalars(query.limit(1)).first()


def running_attempt(session: Session, template_id: int, besides: int) -> int | None:
    """Return an attempt of another task of a template whose process may be alive, or None."""
    query = select(Job.id).join(Lease, Lease.job_id == Job.id)
    others = query.where(
        Job.runtemplate_id == template_id,
        Job.task_id.is_not(None),
        Job.task_id != besides,
        Lease.ends_by.is_not(None),
    )
    with session.no_autoflush:  # pending changes concern no other task
        return session.scalar(others.limit(1))


def lock_credentials(session: WritingSession, credential_ids: Collection[int]) -> None:
    """Lock credentials, so that claims that use them are decided in turn."""
    query = select(Credential.id).where(Credential.id.in_(credential_ids)).order_by(Credential.id)
    session.execute(query.with_for_update(key_share=True))


def jobs_using(session: WritingSession, credential_id: int, besides: int) -> Sequence[int]:
    """Return the other jobs whose processes may be alive and use a credential, by id."""
    query = (
        select(Lease.job_id)
        .join(Job, Job.id == Lease.job_id)
        .join(TemplateCredential, TemplateCredential.runtemplate_id == Job.runtemplate_id)
        .where(
            TemplateCredential.credential_id == credential_id,
            Lease.ends_by.is_not(None),
            Lease.job_id != besides,
        )
    )
    with session.no_autoflush:
        return session.scalars(query.order_by(Lease.job_id)).all()
