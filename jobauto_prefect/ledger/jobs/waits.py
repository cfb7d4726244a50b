"""Waiting jobs, and what they wait for, always for many jobs at once."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime

from sqlalchemy import and_, bindparam, func, select
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
from jobauto_prefect.ledger.service_status import PREFECT_STATUS_VALUE, PrefectStatus, parse_status
from jobauto_prefect.ledger.states import JobState


@dataclass(frozen=True, slots=True)
class LivingWorker:
    """A worker with a recent sign of life. For `limit` and `hindrances` see `WorkerRecord`."""

    name: str
    running: int = 0
    limit: int | None = None
    hindrances: Mapping[str, str] = field(default_factory=dict)

    @property
    def is_full(self) -> bool:
        """Whether it takes no more jobs."""
        return free_slots(self.limit, self.running) == 0


@dataclass(frozen=True, slots=True)
class Start:
    """How a job starts. `pool` None: in the settings' work pool.

    `run_error` is why its flow run could not be created; None: it exists, or was not tried yet.
    """

    pool: str | None
    run_error: str | None = None


def starts_of(session: Session, job_ids: Collection[int]) -> dict[int, Start]:
    """Return job -> how it starts."""
    to_be_made = and_(
        OutboxMessage.kind == OutboxKind.CREATE_RUN,
        OutboxMessage.subject_id == Job.id,
        Job.flow_run_id.is_(None),
    )
    query = (
        select(Job.id, RunTemplate.pool, OutboxMessage.error)
        .join(RunTemplate, RunTemplate.id == Job.runtemplate_id)
        .outerjoin(OutboxMessage, to_be_made)
        .where(Job.id.in_(job_ids))
    )
    return {row[0]: Start(row[1], row[2]) for row in session.execute(query)}


@dataclass(frozen=True, slots=True)
class Surroundings:
    """What jobs wait for; `workers`: work pool -> its live workers by name, at least one."""

    freeze: Freeze | None
    prefect: PrefectStatus
    workers: Mapping[str, Sequence[LivingWorker]]


_HELD = (
    select(Lease.worker, func.count(Lease.job_id).label("running"))
    .where(Lease.ends_by.is_not(None))
    .group_by(Lease.worker)
    .subquery()
)
_ALIVE = and_(
    WorkerRecord.pool.in_(bindparam("pools", expanding=True)),
    WorkerRecord.seen_at > bindparam("since"),
    WorkerRecord.lost_at.is_(None),
)
_STATUS = select(PREFECT_STATUS_VALUE.label("prefect")).subquery()
_SURROUNDINGS = (
    select(_STATUS.c.prefect, Freeze, WorkerRecord, func.coalesce(_HELD.c.running, 0))
    .select_from(_STATUS)
    .outerjoin(Freeze, PRESENT)
    .outerjoin(WorkerRecord, _ALIVE)
    .outerjoin(_HELD, _HELD.c.worker == WorkerRecord.name)
    .order_by(WorkerRecord.name)
)
"""Built once, because every posted job runs it and building is a good part of its cost."""


def surroundings_of(
    session: Session, pools: Collection[str], since: datetime, now: datetime
) -> Surroundings:
    """Return what may hold up the jobs of work pools, by one statement.

    Workers are live if they gave a sign of life after `since`.
    """
    asked = {"now": now, "since": since, "pools": list(pools)}
    rows = session.execute(_SURROUNDINGS, asked).all()
    workers: dict[str, list[LivingWorker]] = {}
    for _, _, record, running in rows:
        if record is not None:
            living = LivingWorker(record.name, running, record.limit, record.hindrances)
            workers.setdefault(record.pool, []).append(living)
    return Surroundings(rows[0][1], parse_status(rows[0][0]), workers)


def waiting_jobs(session: WritingSession, template: RunTemplate) -> Sequence[Job]:
    """Return the scheduled jobs of a template."""
    query = select(Job).where(Job.runtemplate_id == template.id, Job.state == JobState.SCHEDULED)
    return session.scalars(query.order_by(Job.id)).all()


def next_waiting(session: WritingSession, template_id: int) -> int | None:
    """Return the template's longest-due job that has a flow run for its window.

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
    """Return the due jobs with a flow run whose last claim must be tried again later."""
    query = select(Job.id).where(
        Job.state == JobState.SCHEDULED,
        Job.flow_run_id.is_not(None),
        Job.message.is_not(None),
        Job.schedule <= session.clock(),
    )
    return session.scalars(query.order_by(Job.schedule, Job.id)).all()


def next_waiting_for(session: WritingSession, credential_ids: Collection[int]) -> int | None:
    """Return the longest-due job that has a flow run and uses one of these credentials.

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
