"""The rows of tasks, their attempts and leases: made, found, locked and fenced.

Each function works inside the caller's transaction and commits nothing.

Locks are taken in one order everywhere: flow-run id, worker, run template (only for attempts at a
task that don't run in parallel), task, job, credential (only such as have a limit), lease; several
of a kind by ascending id. What was read
before a lock is read again after it.

No lock is one of the key: what refers to a row, such as the next attempt to its first, can be
written meanwhile, or two that hold one of the two each would wait for each other.
"""

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from uuid import UUID

from sqlalchemy import ColumnElement, Select, String, cast, delete, func, or_, select, update
from sqlalchemy.orm import Session, joinedload

from jobauto_prefect.errors import Conflict, Forbidden
from jobauto_prefect.ledger.audit import WritingSession
from jobauto_prefect.ledger.freezes import PRESENT
from jobauto_prefect.ledger.queries import WITH_CONTEXT, WITH_CREDENTIALS
from jobauto_prefect.ledger.records import (
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
from jobauto_prefect.logs import current


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
        traceparent=current().traceparent,
    )


def is_on(template: RunTemplate) -> bool:
    """Whether a template may start anything."""
    return inactive_reason(template) is None


def inactive_reason(template: RunTemplate) -> str | None:
    """Why nothing of this template may start; None: it may."""
    if template.retired_at is not None:
        return f"the run template {template.name} was deleted"
    if not template.active:
        return f"the run template {template.name} is not active"
    if not template.app.enabled:
        return f"the application {template.app.name} is disabled"
    if not template.company.enabled:
        return f"the company {template.company.name} is disabled"
    return None


def awaits_run(job: Job) -> bool:
    """Whether a job is to start and has no flow run that could start it."""
    return job.state == JobState.SCHEDULED and job.flow_run_id is None


def lock_worker(
    session: WritingSession, name: str, instance: UUID, pools: Collection[str]
) -> tuple[WorkerRecord, Freeze | None]:
    """The worker that claims; its name can't be taken over until this transaction ends.

    Its claims and renewals do not wait for each other. Beside it the freeze there is, read by the
    same statement; None: there is none.

    Raises:
        Conflict: this start of it is not the present one.
        Forbidden: it is of a pool the token does not name.
    """
    found = (
        select(WorkerRecord, Freeze)
        .outerjoin(Freeze, PRESENT)
        .where(WorkerRecord.name == name)
        .with_for_update(read=True, key_share=True, of=WorkerRecord)
        .execution_options(populate_existing=True)
    )
    worker, freeze = session.execute(found, {"now": session.clock()}).one_or_none() or (None, None)
    require_worker_pool(worker, pools)
    if worker is None or worker.instance != instance:
        raise Conflict(
            f"this is not the present start of worker {name}: another one has its name, or it was"
            " declared lost; start it again"
        )
    return worker, freeze


def require_worker_pool(worker: WorkerRecord | None, pools: Collection[str]) -> None:
    """A token that is not for the pool of a worker speaks for another one.

    Raises:
        Forbidden: `pools`, which the token names, are others.
    """
    if worker is not None and worker.pool not in pools:
        raise Forbidden(
            f"worker {worker.name} is of work pool {worker.pool}, and this token is not for it"
        )


def lock_task(session: WritingSession, task_id: int) -> Task:
    """The task, which nobody else decides about until this transaction ends."""
    found = select(Task).where(Task.id == task_id).with_for_update(key_share=True)
    return session.scalars(found.execution_options(populate_existing=True)).one()


def lock_job(session: WritingSession, job: Job) -> None:
    """Let nobody else decide about this job, or about its task, and read what they are now."""
    if job.task_id is not None:
        lock_task(session, job.task_id)
    itself = select(Job).where(Job.id == job.id).options(*WITH_CONTEXT)
    itself = itself.with_for_update(key_share=True, of=Job)
    session.scalars(itself.execution_options(populate_existing=True)).one()


def lock_jobs(session: WritingSession, jobs: Sequence[Job]) -> None:
    """As `lock_job`, for several: first their tasks, then themselves, each by ascending id."""
    tasks = {job.task_id for job in jobs if job.task_id is not None}
    for task_id in sorted(tasks):
        lock_task(session, task_id)
    for job in sorted(jobs, key=lambda job: job.id):
        lock_job(session, job)


def task_of_window(session: WritingSession, template: RunTemplate, start: datetime) -> Task | None:
    """The task of the window that begins at an instant, locked."""
    task_id = session.scalar(
        select(Task.id).where(Task.runtemplate_id == template.id, Task.window_start == start)
    )
    return None if task_id is None else lock_task(session, task_id)


def scheduled_job(session: WritingSession, task: Task) -> Job | None:
    """The attempt at a task that is to come."""
    return session.scalar(
        select(Job).where(Job.task_id == task.id, Job.state == JobState.SCHEDULED)
    )


def last_job(session: WritingSession, task: Task) -> Job | None:
    """The newest attempt at a task; None: there was none."""
    return session.scalar(
        select(Job).where(Job.task_id == task.id).order_by(Job.id.desc()).limit(1)
    )


def last_ended_job(session: WritingSession, task: Task) -> Job | None:
    """The attempt at a task that was over last; None: none is."""
    over = Job.state.not_in(LIVE_JOBS)
    found = select(Job).where(Job.task_id == task.id, over).order_by(Job.id.desc()).limit(1)
    return session.scalar(found)


def is_newest_window(session: WritingSession, task: Task) -> bool:
    """Whether no later window of the run template has opened."""
    later = select(Task.id).where(
        Task.runtemplate_id == task.runtemplate_id, Task.window_start > task.window_start
    )
    return session.scalar(later.limit(1)) is None


def lock_open_tasks(session: WritingSession, template: RunTemplate) -> Sequence[Task]:
    """The open tasks of a template, locked."""
    found = select(Task).where(Task.runtemplate_id == template.id, Task.state == TaskState.OPEN)
    return session.scalars(found.order_by(Task.id).with_for_update(key_share=True)).all()


def lock_scheduled_jobs(session: WritingSession, tasks: Sequence[Task]) -> Sequence[Job]:
    """The attempts at these tasks that are to come, locked."""
    found = select(Job).where(
        Job.task_id.in_([task.id for task in tasks]), Job.state == JobState.SCHEDULED
    )
    return session.scalars(found.order_by(Job.id).with_for_update(key_share=True)).all()


def waiting_jobs(session: WritingSession, template: RunTemplate) -> Sequence[Job]:
    """The jobs of a template that are to come."""
    found = select(Job).where(Job.runtemplate_id == template.id, Job.state == JobState.SCHEDULED)
    return session.scalars(found.order_by(Job.id)).all()


def follower_of(session: Session, job: Job) -> Job | None:
    """The attempt that is to come after a job."""
    return session.scalar(
        select(Job).where(_kin(job), Job.id > job.id, Job.state == JobState.SCHEDULED)
    )


def lock_follower(session: WritingSession, job: Job) -> Job | None:
    """The attempt that is to come after a job, locked; None: there is none, or it has begun."""
    found = select(Job).where(_kin(job), Job.id > job.id, Job.state == JobState.SCHEDULED)
    return session.scalar(
        found.with_for_update(key_share=True).execution_options(populate_existing=True)
    )


def next_waiting(session: WritingSession, template_id: int) -> int | None:
    """The job of a template that is due the longest and has a flow run for its window."""
    found = select(Job.id).where(
        Job.runtemplate_id == template_id,
        Job.state == JobState.SCHEDULED,
        Job.task_id.is_not(None),
        Job.flow_run_id.is_not(None),
        Job.schedule <= session.clock(),
    )
    return session.scalar(found.order_by(Job.schedule).limit(1))


def told_to_wait(session: WritingSession) -> Sequence[int]:
    """The jobs that are due and have a flow run whose last claim was told to come again."""
    found = select(Job.id).where(
        Job.state == JobState.SCHEDULED,
        Job.flow_run_id.is_not(None),
        Job.message.is_not(None),
        Job.schedule <= session.clock(),
    )
    return session.scalars(found.order_by(Job.schedule, Job.id)).all()


def fence_others(session: WritingSession, job: Job) -> None:
    """From now on this job counts: what its lost predecessors report changes nothing."""
    if job.attempt > 1:
        session.execute(delete(Lease).where(Lease.job_id.in_(_lost(_kin(job)))))


def fence_task(session: WritingSession, task: Task) -> None:
    """A task has ended: what its lost attempts report changes nothing any more."""
    session.execute(delete(Lease).where(Lease.job_id.in_(_lost(Job.task_id == task.id))))


def renew_lease(session: WritingSession, job: Job) -> None:
    """The worker of a job has asked about it: that is a sign of life."""
    mine = update(Lease).where(Lease.job_id == job.id)
    session.execute(mine.values(renewed_at=session.clock()))


def end_lease(session: WritingSession, lease: Lease, *, may_report: bool) -> None:
    """A job is over. `may_report`: until its successor is granted, its own report counts."""
    if may_report:
        lease.ends_by = None
    else:
        session.execute(delete(Lease).where(Lease.job_id == lease.job_id))


def _lost(which: ColumnElement[bool]) -> Select[tuple[int]]:
    return select(Job.id).where(which, Job.state == JobState.LOST)


def _kin(job: Job) -> ColumnElement[bool]:
    """The attempts at the same thing."""
    if job.task_id is not None:
        return Job.task_id == job.task_id
    first = job.retry_of or job.id
    return or_(Job.id == first, Job.retry_of == first)


# claims


def run_key(job: Job) -> str:
    """The idempotency key of the flow run that is made for a job.

    A ledger begun anew counts from 1 again: the instant tells its jobs from former ones.
    """
    return f"jobauto-job-{job.id}-{job.created_at.isoformat()}"


def window_key(template: RunTemplate, due: datetime) -> str:
    """The idempotency key of the flow run that is made ahead for a window."""
    return f"jobauto-window-{template.id}-{template.created_at.isoformat()}-{due.isoformat()}"


def is_of_window(job: Job) -> bool:
    """Whether a job is the first attempt of a window, at the time that is the window's.

    Its flow run may be there already, made ahead.
    """
    if job.task is None or job.attempt != 1:
        return False
    return bool(job.schedule == job.task.window_start + timedelta(seconds=job.runtemplate.delay))


def runs_bound(session: Session, flow_run_ids: Collection[UUID]) -> set[UUID]:
    """Of these flow runs, those that are jobs'."""
    found = select(Job.flow_run_id).where(Job.flow_run_id.in_(flow_run_ids))
    return {run for run in session.scalars(found) if run is not None}


def moved_key(flow_run_id: object) -> str:
    """The idempotency key of the flow run that takes the place of another."""
    return f"moved {flow_run_id}"


def lock_flow_run(session: WritingSession, flow_run_id: UUID) -> None:
    """Let nobody else claim a flow run, to which no job may be bound yet.

    On SQLite writers come one after another anyway.
    """
    if session.get_bind().dialect.name == "postgresql":
        key = int.from_bytes(flow_run_id.bytes[:8], signed=True)
        session.execute(select(func.pg_advisory_xact_lock(key)))


def lock_template(session: WritingSession, template: RunTemplate) -> None:
    """Let nobody else begin an attempt at a window of this template, or open its windows.

    Jobs can be inserted meanwhile: the lock is not one of the key.
    """
    found = select(RunTemplate.id).where(RunTemplate.id == template.id)
    session.execute(found.with_for_update(key_share=True))


@dataclass(frozen=True, slots=True)
class KnownJobs:
    """What the ledger has of a claim: its own job, those of its flow run, the one it names."""

    own: Job | None
    of_run: Sequence[Job]
    named: Job | None


def jobs_of_claim(
    session: WritingSession,
    claim_id: UUID,
    flow_run_id: UUID,
    named: int | None,
    *,
    lock: bool = False,
) -> KnownJobs:
    """What a claim is about, as it is now, with one query. `named` is the id of a job, or None.

    `lock`: nobody else decides about these jobs until this transaction ends.
    """
    which = [Job.claim_id == claim_id, Job.flow_run_id == flow_run_id]
    if named is not None:
        which.append(Job.id == named)
    context = WITH_CREDENTIALS if lock else WITH_CONTEXT
    found = select(Job).where(or_(*which)).order_by(Job.id).options(*context)
    if lock:
        found = found.with_for_update(key_share=True, of=Job)
    jobs = session.scalars(found.execution_options(populate_existing=True)).unique().all()
    return KnownJobs(
        own=next((job for job in jobs if job.claim_id == claim_id), None),
        of_run=[job for job in jobs if job.flow_run_id == flow_run_id],
        named=next((job for job in jobs if job.id == named), None),
    )


def jobs_of_flow_run(session: Session, flow_run_id: UUID) -> Sequence[Job]:
    """All attempts of a flow run as they are now, the first one first."""
    found = (
        select(Job).where(Job.flow_run_id == flow_run_id).order_by(Job.id).options(*WITH_CONTEXT)
    )
    return session.scalars(found.execution_options(populate_existing=True)).all()


def is_superseded(session: WritingSession, job: Job) -> bool:
    """Whether a later attempt at the same thing has begun."""
    begun = select(Job.id).where(_kin(job), Job.id > job.id, Job.claim_id.is_not(None))
    return session.scalar(begun.limit(1)) is not None


def template_of_deployment(session: Session, deployment_id: UUID) -> RunTemplate | None:
    """The run template a Prefect deployment stands for; None: the deployment is not ours."""
    return session.scalar(
        select(RunTemplate)
        .where(RunTemplate.deployment_id == deployment_id)
        .options(joinedload(RunTemplate.app), joinedload(RunTemplate.company))
    )


def template_that_asks(
    session: Session, flow_run_id: UUID, deployment_id: UUID
) -> RunTemplate | None:
    """The run template of a flow run, where something besides the ledger has to be asked for it.

    That are foreign blocks, checks of availability, and values that credentials name. None: nothing
    has to be asked.
    """
    of_run = select(Job.runtemplate_id).where(Job.flow_run_id == flow_run_id)
    checked = (
        select(TemplateCredential.runtemplate_id)
        .join(Credential)
        .join(CredentialType)
        .where(or_(CredentialType.availability.is_not(None), CredentialType.source.is_not(None)))
    )
    found = select(RunTemplate).where(
        or_(RunTemplate.deployment_id == deployment_id, RunTemplate.id.in_(of_run)),
        or_(cast(RunTemplate.blocks, String) != "[]", RunTemplate.id.in_(checked)),
    )
    return session.scalars(found.limit(1)).first()


def running_attempt(session: Session, template_id: int, besides: int) -> int | None:
    """An attempt of another task of a template whose process may live."""
    found = select(Job.id).join(Lease, Lease.job_id == Job.id)
    others = found.where(
        Job.runtemplate_id == template_id,
        Job.task_id.is_not(None),
        Job.task_id != besides,
        Lease.ends_by.is_not(None),
    )
    with session.no_autoflush:  # what is decided about here is no other task's
        return session.scalar(others.limit(1))


def lock_credentials(session: WritingSession, credential_ids: Collection[int]) -> None:
    """Of several claims that use these credentials one is decided about at a time."""
    found = select(Credential.id).where(Credential.id.in_(credential_ids)).order_by(Credential.id)
    session.execute(found.with_for_update(key_share=True))


def users_of(session: WritingSession, credential_id: int, besides: int) -> Sequence[int]:
    """The jobs whose processes may live and use a credential, but that one; by ascending id."""
    found = (
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
        return session.scalars(found.order_by(Lease.job_id)).all()


def next_waiting_for(session: WritingSession, credential_ids: Collection[int]) -> int | None:
    """The job that is due the longest, has a flow run, and uses one of these credentials."""
    users = select(TemplateCredential.runtemplate_id).where(
        TemplateCredential.credential_id.in_(credential_ids)
    )
    found = select(Job.id).where(
        Job.runtemplate_id.in_(users),
        Job.state == JobState.SCHEDULED,
        Job.flow_run_id.is_not(None),
        Job.schedule <= session.clock(),
    )
    return session.scalar(found.order_by(Job.schedule).limit(1))


def may_live(session: Session, job: Job) -> bool:
    """Whether nobody has said that the process of a job is gone."""
    found = select(Lease.job_id).where(Lease.job_id == job.id, Lease.ends_by.is_not(None))
    return session.scalar(found) is not None
