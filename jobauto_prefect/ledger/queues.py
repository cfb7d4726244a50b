"""Common parts of the ledger's queues: messages for Prefect, actions and notices.

A handler claims a row until `taken_until`, and is its only handler until then; a failed row is due
again after a pause that grows with each attempt.
"""

from datetime import datetime, timedelta

from sqlalchemy import ColumnElement, or_
from sqlalchemy.orm import InstrumentedAttribute

MOST_DOUBLINGS = 20  # more than the longest pause needs


def is_due(
    due_at: InstrumentedAttribute[datetime],
    taken_until: InstrumentedAttribute[datetime | None],
    now: datetime,
) -> tuple[ColumnElement[bool], ...]:
    """Match the rows that are due and unclaimed."""
    return due_at <= now, or_(taken_until.is_(None), taken_until < now)


def pause_after(attempts: int, first: timedelta, longest: timedelta) -> timedelta:
    """Return the pause of a row that has failed `attempts` times before: doubled each time."""
    factor: int = 2 ** min(attempts, MOST_DOUBLINGS)
    return min(first * factor, longest)
