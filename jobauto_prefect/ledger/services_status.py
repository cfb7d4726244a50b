"""Whether the services run beside the facade: each signs now and then."""

from datetime import datetime, timedelta

from sqlalchemy import select
from sqlalchemy.orm import Session

from jobauto_prefect.ledger.audit import WritingSession
from jobauto_prefect.ledger.records import Fact

NAME = "services_seen_at"

PATIENCE = timedelta(minutes=1)
"""How long a sign holds."""


def sign(session: WritingSession) -> None:
    """The services run now."""
    session.merge(Fact(name=NAME, value=session.clock().isoformat()))


def are_running(session: Session, now: datetime) -> bool:
    """Whether there was a sign lately."""
    seen = seen_at(session)
    return seen is not None and seen > now - PATIENCE


def seen_at(session: Session) -> datetime | None:
    """When the last sign was; None: there was none yet."""
    kept = session.scalar(select(Fact.value).where(Fact.name == NAME))
    return None if kept is None else datetime.fromisoformat(kept)
