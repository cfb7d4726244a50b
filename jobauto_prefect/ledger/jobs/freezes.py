"""Freezes for maintenance: the active one, and earlier ones."""

from collections.abc import Sequence
from datetime import datetime

from sqlalchemy import and_, bindparam, func, or_, select
from sqlalchemy.orm import Session

from jobauto_prefect.ledger.audit.trail import WritingSession
from jobauto_prefect.ledger.records import Freeze, WorkerRecord

PRESENT = and_(
    Freeze.ended_at.is_(None), or_(Freeze.until.is_(None), Freeze.until > bindparam("now"))
)
"""Whether a freeze is active at `now`, a parameter of this name."""


def present_freeze(session: Session, now: datetime) -> Freeze | None:
    """Return the active freeze; None if there is none."""
    return session.scalar(select(Freeze).where(PRESENT), {"now": now})


def lock_unended_freeze(session: WritingSession) -> Freeze | None:
    """Lock the freeze without a recorded end; its `until` may have passed; or None."""
    return session.scalar(select(Freeze).where(Freeze.ended_at.is_(None)).with_for_update())


def lock_present_freeze(session: WritingSession) -> Freeze | None:
    """Keep the active freeze from ending until this transaction ends; return it, or None.

    Several transactions may hold this lock at once.
    """
    query = select(Freeze).where(PRESENT).with_for_update(read=True, key_share=True)
    query = query.execution_options(populate_existing=True)
    return session.scalar(query, {"now": session.clock()})


def freezes_since(session: Session, since: datetime) -> Sequence[Freeze]:
    """Return the freezes that were active after an instant, the oldest first."""
    end = func.coalesce(Freeze.ended_at, Freeze.until)
    query = select(Freeze).where(or_(end.is_(None), end > since))
    return session.scalars(query.order_by(Freeze.since)).all()


def await_claims(session: WritingSession) -> None:
    """Wait until all earlier claims have ended: each holds the row of its worker."""
    names = select(WorkerRecord.name).order_by(WorkerRecord.name)
    session.execute(names.with_for_update())
