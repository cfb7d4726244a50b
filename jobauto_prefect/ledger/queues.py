"""What all queues of the ledger have in common: messages for Prefect, actions and notices.

A handler claims a row until `taken_until`, and is its only handler until then; a row that could
not be handled is due again after a pause that grows with each attempt.
"""

from datetime import datetime, timedelta

from sqlalchemy import ColumnElement, or_
from sqlalchemy.orm import InstrumentedAttribute

MOST_DOUBLINGS = 20  # more than any longest pause takes


def is_due(
    due_at: InstrumentedAttribute[datetime],
    taken_until: InstrumentedAttribute[datetime | None],
    now: datetime,
) -> tuple[ColumnElement[bool], ...]:
    """Match the rows whose time has come and that nobody has claimed."""
    return due_at <= now, or_(taken_until.is_(None), taken_until < now)


def pause_after(attempts: int, first: timedelta, longest: timedelta) -> timedelta:
    """Return how long a row waits that has failed `attempts` times before: twice as long each."""
    factor: int = 2 ** min(attempts, MOST_DOUBLINGS)
    return min(first * factor, longest)
