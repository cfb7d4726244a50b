"""The parts of the installation: facades, services and Prefect servers, as they report themselves.

Workers are in `ledger/jobs/workers`: they have no access to the ledger.
"""

from collections.abc import Sequence
from datetime import datetime, timedelta
from uuid import UUID

from sqlalchemy import delete, select
from sqlalchemy.orm import Session

from jobauto_prefect.ledger.audit.trail import WritingSession
from jobauto_prefect.ledger.records import PartRecord

SIGN_SECONDS = 10.0
"""How often a part reports that it lives."""

SILENT_AFTER = timedelta(seconds=3 * SIGN_SECONDS)

FORGOTTEN_AFTER = timedelta(days=1)
"""How long a part that ended without saying so is kept."""


def report(session: WritingSession, part: PartRecord) -> None:
    """Store a part's sign of life."""
    part.seen_at = session.clock()
    session.merge(part)


def forget(session: WritingSession, instance: UUID) -> None:
    """Remove a part that ends."""
    session.execute(delete(PartRecord).where(PartRecord.instance == instance))


def forget_silent(session: WritingSession) -> None:
    """Delete parts that ended without saying so."""
    long_ago = session.clock() - FORGOTTEN_AFTER
    session.execute(delete(PartRecord).where(PartRecord.seen_at < long_ago))


def living_parts(session: Session, now: datetime) -> Sequence[PartRecord]:
    """Return the parts that have recently reported, by kind, host and start."""
    query = select(PartRecord).where(PartRecord.seen_at > now - SILENT_AFTER)
    return session.scalars(
        query.order_by(PartRecord.kind, PartRecord.host, PartRecord.started_at)
    ).all()
