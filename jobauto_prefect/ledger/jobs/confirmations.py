"""Ends of jobs not yet confirmed to be shown in Prefect.

Every flush that ends a job adds its end here; the reconciler checks it in Prefect once and removes
it. A change to a lost job is also sent to Prefect, because its reporter may have died before
doing so.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from uuid import UUID

from sqlalchemy import (
    Connection,
    Executable,
    and_,
    delete,
    event,
    func,
    insert,
    inspect,
    literal,
    or_,
    select,
)
from sqlalchemy.orm import Mapper, Session, object_session

from jobauto_prefect.ledger.audit.trail import SERVICE, WritingSession
from jobauto_prefect.ledger.base import UtcDateTime
from jobauto_prefect.ledger.jobs.leases import insert_of
from jobauto_prefect.ledger.outbox import ENQUEUED, OutboxKind, priority_of
from jobauto_prefect.ledger.records import Job, OutboxMessage, UnconfirmedEnd
from jobauto_prefect.ledger.states import LIVE_JOBS, JobState
from jobauto_prefect.ledger.store import Ledger

SETTLED_FOR = timedelta(seconds=10)
"""How long a worker has to show Prefect the end of its job before the reconciler checks."""

TAKEN = timedelta(seconds=30)
"""How long a claimed end belongs to its claimer; doubled with each failed check."""

MOST_LOOKS = 8
"""Number of checks after which Prefect's state is left as it is."""

SHOWN = ("state", "message", "flow_run_id")
"""Columns of a job that determine what Prefect shows, and where."""


@dataclass(frozen=True, slots=True)
class End:
    """An end to confirm. `is_newest`: the flow run has no later job."""

    job_id: int
    state: str
    flow_run_id: UUID | None
    run_number: int | None
    was_claimed: bool
    is_newest: bool
    looks: int
    until: datetime


@event.listens_for(Job, "after_insert")
@event.listens_for(Job, "after_update")
def _note_end(_mapper: Mapper[Job], connection: Connection, job: Job) -> None:
    session = object_session(job)
    if job.state in LIVE_JOBS or not isinstance(session, WritingSession):
        return
    changed = {name: inspect(job).attrs[name].history for name in SHOWN}
    if not any(history.has_changes() for history in changed.values()):
        return
    connection.execute(_owed(session, job.id))
    if JobState.LOST in (changed["state"].deleted or ()):
        now, kind = session.clock(), OutboxKind.SHOW_JOB
        show = {"kind": kind, "priority": priority_of(kind), "subject_id": job.id, "payload": {}}
        connection.execute(insert(OutboxMessage).values(**show, created_at=now, not_before=now))
        session.info[ENQUEUED] = True


def _owed(session: WritingSession, job_id: int) -> Executable:
    fresh = {"not_before": session.clock() + SETTLED_FOR, "looks": 0}
    statement = insert_of(session, UnconfirmedEnd).values(job_id=job_id, **fresh)
    owed: Executable = statement.on_conflict_do_update(index_elements=["job_id"], set_=fresh)
    return owed


def require_confirmation(session: WritingSession, job_id: int) -> None:
    """Require a check of an ended job's flow run: Prefect may show another state."""
    session.execute(_owed(session, job_id))


def require_confirmation_since(session: WritingSession, instant: datetime) -> None:
    """Require a check of the flow runs of all jobs that ended since an instant."""
    now = session.clock()
    ended = select(Job.id, literal(now, UtcDateTime()), literal(0)).where(
        Job.end >= instant, Job.state.not_in(LIVE_JOBS), Job.flow_run_id.is_not(None)
    )
    columns = ["job_id", "not_before", "looks"]
    session.execute(
        insert_of(session, UnconfirmedEnd).from_select(columns, ended).on_conflict_do_nothing()
    )


def last_end(session: Session) -> datetime | None:
    """Return when the last job ended; None if none has."""
    return session.scalar(select(func.max(Job.end)))


def claim_due(ledger: Ledger, limit: int) -> Sequence[End]:
    """Claim ends to check, those that have waited longest first."""
    due = (
        select(UnconfirmedEnd)
        .where(UnconfirmedEnd.not_before <= ledger.clock())
        .order_by(UnconfirmedEnd.not_before)
        .limit(limit)
    )
    with ledger.reading() as session:
        if session.scalar(due.limit(1)) is None:
            return []
    with ledger.writing(SERVICE) as session:
        taken = session.scalars(due.with_for_update(skip_locked=True)).all()
        for owed in taken:
            owed.not_before = session.clock() + TAKEN * 2**owed.looks
            owed.looks += 1
        session.flush()
        return list(_ends(session, taken))


def _ends(session: Session, taken: Sequence[UnconfirmedEnd]) -> Iterator[End]:
    owed = {end.job_id: end for end in taken}
    query = select(Job.id, Job.state, Job.flow_run_id, Job.run_number, Job.claim_id)
    jobs = session.execute(query.where(Job.id.in_(owed))).all()
    runs = {job.flow_run_id for job in jobs if job.flow_run_id}
    last = select(Job.flow_run_id, func.max(Job.id)).where(Job.flow_run_id.in_(runs))
    newest = {row[0]: row[1] for row in session.execute(last.group_by(Job.flow_run_id))}
    for job in jobs:
        yield End(
            job_id=job.id,
            state=job.state,
            flow_run_id=job.flow_run_id,
            run_number=job.run_number,
            was_claimed=job.claim_id is not None,
            is_newest=job.flow_run_id is None or newest[job.flow_run_id] == job.id,
            looks=owed[job.id].looks,
            until=owed[job.id].not_before,
        )


def confirm(session: WritingSession, ends: Sequence[End]) -> None:
    """Confirm ends that Prefect shows, or never will; those changed meanwhile stay."""
    if ends:
        same = (
            and_(UnconfirmedEnd.job_id == end.job_id, UnconfirmedEnd.not_before == end.until)
            for end in ends
        )
        session.execute(delete(UnconfirmedEnd).where(or_(*same)))
