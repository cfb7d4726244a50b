"""Figures of the whole ledger for monitoring: few statements, each using an index."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from sqlalchemy import and_, case, func, literal, or_, select
from sqlalchemy.orm import Session

from jobauto_prefect.ledger import service_status
from jobauto_prefect.ledger.jobs.workers import is_living
from jobauto_prefect.ledger.parts import living_parts
from jobauto_prefect.ledger.records import (
    AuditEntry,
    AuditSeal,
    Company,
    Delivery,
    Event,
    EventSource,
    Job,
    Lease,
    Notice,
    OutboxMessage,
    PendingAction,
    RunTemplate,
    SignInFailure,
    Task,
    WorkerRecord,
)
from jobauto_prefect.ledger.states import (
    ActionState,
    DeliveryState,
    JobState,
    NoticeState,
    TaskState,
)

LATELY = timedelta(hours=1)
"""Windows with a deadline within this time are also counted separately."""


@dataclass(frozen=True, slots=True)
class JobCount:
    """Number of a company's (slug) jobs in a state; severity empty: none yet."""

    company: str
    state: str
    severity: str
    number: int


@dataclass(frozen=True, slots=True)
class Depth:
    """Length of a queue and time of its oldest item; `failing`: how many were tried already."""

    number: int
    oldest: datetime
    failing: int = 0


@dataclass(frozen=True, slots=True)
class SourceLag:
    """An enabled event source. `polled_at` None: never. `waiting`: changes not sent to Prefect."""

    id: int
    name: str
    polled_at: datetime | None
    failing: bool
    waiting: Depth | None


@dataclass(frozen=True, slots=True)
class Figures:
    """All figures at one instant `at`.

    `windows` and `late_windows` (those of `LATELY`) are by state, `outbox` is by kind. `leases`: of
    jobs that may be running; `ends`: ends of jobs that Prefect was not told of. `dead_actions` are
    by kind, `failing_notices` (with failed attempts) by channel. `workers` are by pool: live,
    silent, and live but unable to work. `due` are the jobs that wait for a worker now and those
    that run, by pool and state; `parts` are the parts that live, by kind and version.
    """

    at: datetime
    jobs: Sequence[JobCount]
    windows: Mapping[str, int]
    late_windows: Mapping[str, int]
    leases: Depth | None
    outbox: Mapping[str, Depth]
    sources: Sequence[SourceLag]
    ends: Depth | None
    dead_actions: Mapping[str, int]
    dead_deliveries: int
    failing_notices: Mapping[str, int]
    sign_in_failures: int
    seals: int
    sealed_at: datetime | None
    unsealed: Depth | None
    services_seen_at: datetime | None
    workers: Mapping[str, tuple[int, int, int]]
    due: Mapping[tuple[str, str], int]
    parts: Mapping[tuple[str, str], int]


def read_figures(
    session: Session, now: datetime, *, lease_seconds: float, sign_in_seconds: float, pool: str
) -> Figures:
    """Return the figures; the session must be a snapshot, so that they are consistent.

    `pool` is that of run templates which name none.
    """
    windows, late = _windows(session, now)
    waiting = _waiting_events(session)
    seals, sealed_at, unsealed = _seals(session)
    failures = select(func.count(SignInFailure.guess.distinct())).where(
        SignInFailure.failed_at > now - timedelta(seconds=sign_in_seconds)
    )
    return Figures(
        at=now,
        jobs=_jobs(session),
        windows=windows,
        late_windows=late,
        leases=_leases(session),
        outbox=_outbox(session),
        sources=_sources(session, waiting),
        ends=waiting.get(None),
        dead_actions=_dead_actions(session),
        dead_deliveries=_dead_deliveries(session),
        failing_notices=_failing_notices(session),
        sign_in_failures=session.scalar(failures) or 0,
        seals=seals,
        sealed_at=sealed_at,
        unsealed=unsealed,
        services_seen_at=service_status.seen_at(session),
        workers=_workers(session, now, lease_seconds),
        due=_due(session, now, pool),
        parts=Counter((part.kind, part.version) for part in living_parts(session, now)),
    )


def _jobs(session: Session) -> list[JobCount]:
    slugs = {row.id: row.slug for row in session.execute(select(Company.id, Company.slug))}
    key = (Job.company_id, Job.state, Job.severity)
    query = select(*key, func.count()).where(Job.retired_at.is_(None)).group_by(*key)
    return [
        JobCount(slugs[company_id], state, severity or "", number)
        for company_id, state, severity, number in session.execute(query).all()
    ]


def _windows(session: Session, now: datetime) -> tuple[dict[str, int], dict[str, int]]:
    all_of_them = select(Task.state, func.count()).group_by(Task.state)
    lately = all_of_them.where(
        Task.state.in_(list(TaskState)), Task.deadline.between(now - LATELY, now)
    )
    counted = [session.execute(query).all() for query in (all_of_them, lately)]
    windows, late = ({row[0]: row[1] for row in rows} for rows in counted)
    return windows, late


def _leases(session: Session) -> Depth | None:
    query = select(func.count(), func.min(Lease.renewed_at)).where(Lease.ends_by.is_not(None))
    return _depth(*session.execute(query).one())


def _outbox(session: Session) -> dict[str, Depth]:
    failing = func.sum(case((OutboxMessage.attempts > 0, 1), else_=0))
    query = select(OutboxMessage.kind, func.count(), func.min(OutboxMessage.created_at), failing)
    rows = session.execute(query.group_by(OutboxMessage.kind)).all()
    return {kind: Depth(number, oldest, failed) for kind, number, oldest, failed in rows}


def _waiting_events(session: Session) -> dict[int | None, Depth]:
    """Return the waiting events by source; None: ends of jobs."""
    query = select(Event.event_source_id, func.count(), func.min(Event.created_at))
    silent = query.where(Event.emitted_at.is_(None)).group_by(Event.event_source_id)
    return {source: Depth(number, at) for source, number, at in session.execute(silent).all()}


def _sources(session: Session, waiting: Mapping[int | None, Depth]) -> list[SourceLag]:
    query = select(
        EventSource.id, EventSource.name, EventSource.polled_at, EventSource.poll_error.is_not(None)
    ).where(EventSource.retired_at.is_(None), EventSource.enabled)
    return [
        SourceLag(number, name, polled_at, bool(failing), waiting.get(number))
        for number, name, polled_at, failing in session.execute(query).all()
    ]


def _dead_actions(session: Session) -> dict[str, int]:
    dead = PendingAction.state == literal(ActionState.DEAD.value, literal_execute=True)
    query = select(PendingAction.kind, func.count()).where(dead)
    return {row[0]: row[1] for row in session.execute(query.group_by(PendingAction.kind)).all()}


def _failing_notices(session: Session) -> dict[str, int]:
    owed = Notice.state == literal(NoticeState.OWED.value, literal_execute=True)
    query = select(Notice.channel, func.count()).where(owed, Notice.attempts > 0)
    return {row[0]: row[1] for row in session.execute(query.group_by(Notice.channel)).all()}


def _dead_deliveries(session: Session) -> int:
    # A literal, because SQLite uses no partial index for a parameter.
    dead = Delivery.state == literal(DeliveryState.DEAD.value, literal_execute=True)
    unkept = select(func.count(Event.id)).where(Event.error.is_not(None)).scalar_subquery()
    return session.scalar(select(func.count(Delivery.id) + unkept).where(dead)) or 0


def _seals(session: Session) -> tuple[int, datetime | None, Depth | None]:
    """Return the number of seals, the time of the last one, and the entries without a seal.

    None: there is no seal, or no such entry.
    """
    query = select(AuditSeal.id, AuditSeal.last_id, AuditSeal.sealed_at)
    newest = session.execute(query.order_by(AuditSeal.id.desc()).limit(1)).one_or_none()
    seals, last_id, sealed_at = newest or (0, 0, None)
    after = AuditEntry.id > last_id
    oldest = select(AuditEntry.created_at).where(after).order_by(AuditEntry.id).limit(1)
    unsealed = select(func.count(AuditEntry.id), oldest.scalar_subquery()).where(after)
    return seals, sealed_at, _depth(*session.execute(unsealed).one())


def _workers(session: Session, now: datetime, seconds: float) -> dict[str, tuple[int, int, int]]:
    by_pool: dict[str, tuple[int, int, int]] = {}
    for worker in session.scalars(select(WorkerRecord).where(WorkerRecord.lost_at.is_(None))):
        lives = is_living(worker, now, seconds)
        living, silent, hindered = by_pool.get(worker.pool, (0, 0, 0))
        hindered += lives and bool(worker.hindrances)
        by_pool[worker.pool] = (living + lives, silent + (not lives), hindered)
    return by_pool


def _due(session: Session, now: datetime, default: str) -> dict[tuple[str, str], int]:
    pool = func.coalesce(func.nullif(RunTemplate.pool, ""), default)
    waiting = and_(Job.state == JobState.SCHEDULED, Job.schedule <= now)
    query = (
        select(pool, Job.state, func.count())
        .join(RunTemplate, RunTemplate.id == Job.runtemplate_id)
        .where(or_(waiting, Job.state == JobState.RUNNING))
        .group_by(RunTemplate.pool, Job.state)
    )
    counted: Counter[tuple[str, str]] = Counter()
    for name, state, number in session.execute(query):
        counted[name, state] += number
    return counted


def _depth(number: int, oldest: datetime | None) -> Depth | None:
    return None if oldest is None else Depth(number, oldest)
