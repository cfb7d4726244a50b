"""Jobs that wait, and what they wait for, always for many jobs at once."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime

from sqlalchemy import func, select
from sqlalchemy.orm import Session

from jobauto_prefect.ledger.audit.trail import WritingSession
from jobauto_prefect.ledger.jobs.freezes import PRESENT
from jobauto_prefect.ledger.jobs.workers import free_slots
from jobauto_prefect.ledger.outbox import OutboxKind
from jobauto_prefect.ledger.records import (
    Freeze,
    Job,
    Lease,
    OutboxMessage,
    RunTemplate,
    TemplateCredential,
    WorkerRecord,
)
from jobauto_prefect.ledger.states import JobState


@dataclass(frozen=True, slots=True)
class LivingWorker:
    """A worker that gave a sign of life lately. For `limit` and `hindrances` see `WorkerRecord`."""

    name: str
    running: int = 0
    limit: int | None = None
    hindrances: Mapping[str, str] = field(default_factory=dict)

    @property
    def is_full(self) -> bool:
        """Whether it takes no more jobs."""
        return free_slots(self.limit, self.running) == 0


def pools_of(
    session: Session, template_ids: Collection[int], now: datetime
) -> tuple[dict[int, str | None], Freeze | None]:
    """Return template -> its work pool, None: the settings' one; and the freeze that lasts.

    None: no freeze lasts.
    """
    query = (
        select(RunTemplate.id, RunTemplate.pool, Freeze)
        .outerjoin(Freeze, PRESENT)
        .where(RunTemplate.id.in_(template_ids))
    )
    rows = session.execute(query, {"now": now}).all()
    return {row[0]: row[1] for row in rows}, next((row[2] for row in rows), None)


def run_errors(session: Session, job_ids: Collection[int]) -> dict[int, str | None]:
    """Return job whose flow run is to be made -> why that failed last; None: it did not."""
    query = select(OutboxMessage.subject_id, OutboxMessage.error).where(
        OutboxMessage.kind == OutboxKind.CREATE_RUN, OutboxMessage.subject_id.in_(job_ids)
    )
    return {row[0]: row[1] for row in session.execute(query).all()}


def living_workers(
    session: Session, pools: Collection[str], since: datetime
) -> dict[str, list[LivingWorker]]:
    """Return work pool -> its workers that gave a sign of life since an instant, by name."""
    held = (
        select(Lease.worker, func.count(Lease.job_id).label("running"))
        .where(Lease.ends_by.is_not(None))
        .group_by(Lease.worker)
        .subquery()
    )
    query = (
        select(WorkerRecord, func.coalesce(held.c.running, 0))
        .outerjoin(held, held.c.worker == WorkerRecord.name)
        .where(
            WorkerRecord.pool.in_(pools),
            WorkerRecord.seen_at > since,
            WorkerRecord.lost_at.is_(None),
        )
        .order_by(WorkerRecord.name)
    )
    workers: dict[str, list[LivingWorker]] = {}
    for record, running in session.execute(query):
        living = LivingWorker(record.name, running, record.limit, record.hindrances)
        workers.setdefault(record.pool, []).append(living)
    return workers


def waiting_jobs(session: WritingSession, template: RunTemplate) -> Sequence[Job]:
    """Return the jobs of a template that are to come."""
    query = select(Job).where(Job.runtemplate_id == template.id, Job.state == JobState.SCHEDULED)
    return session.scalars(query.order_by(Job.id)).all()


def next_waiting(session: WritingSession, template_id: int) -> int | None:
    """Return the template's job that is due the longest and has a flow run for its window.

    None: there is none.
    """
    query = select(Job.id).where(
        Job.runtemplate_id == template_id,
        Job.state == JobState.SCHEDULED,
        Job.task_id.is_not(None),
        Job.flow_run_id.is_not(None),
        Job.schedule <= session.clock(),
    )
    return session.scalar(query.order_by(Job.schedule).limit(1))


def jobs_told_to_wait(session: WritingSession) -> Sequence[int]:
    """Return the jobs that are due and have a flow run whose last claim was told to come again."""
    query = select(Job.id).where(
        Job.state == JobState.SCHEDULED,
        Job.flow_run_id.is_not(None),
        Job.message.is_not(None),
        Job.schedule <= session.clock(),
    )
    return session.scalars(query.order_by(Job.schedule, Job.id)).all()


def next_waiting_for(session: WritingSession, credential_ids: Collection[int]) -> int | None:
    """Return the job due the longest that has a flow run and uses one of these credentials.

    None: there is none.
    """
    users = select(TemplateCredential.runtemplate_id).where(
        TemplateCredential.credential_id.in_(credential_ids)
    )
    query = select(Job.id).where(
        Job.runtemplate_id.in_(users),
        Job.state == JobState.SCHEDULED,
        Job.flow_run_id.is_not(None),
        Job.schedule <= session.clock(),
    )
    return session.scalar(query.order_by(Job.schedule).limit(1))
