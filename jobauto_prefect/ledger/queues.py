"""Common parts of the ledger's queues: messages for Prefect, actions and notices.

A handler claims a row until `taken_until`, and is its only handler until then; a failed row is due
again after a pause that grows with each attempt.
"""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable
from datetime import datetime, timedelta

from sqlalchemy import ColumnElement, or_
from sqlalchemy.orm import InstrumentedAttribute

from jobauto_prefect.errors import JobautoError

HELD_FOR = timedelta(seconds=20)
"""How long a claimed row belongs to its handler unless renewed; if it dies, others go on then."""

RENEWED_EVERY = 5.0  # seconds

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


@contextlib.asynccontextmanager
async def renewed(renew: Callable[[], None]) -> AsyncIterator[None]:
    """Call `renew` in a thread every `RENEWED_EVERY` seconds of the block.

    It may still run when the block has ended: it must not claim a row that was released.
    """

    async def renew_for_ever() -> None:
        while True:
            await asyncio.sleep(RENEWED_EVERY)
            with contextlib.suppress(JobautoError):  # the claim may expire; then two handle it
                await asyncio.to_thread(renew)

    renewing = asyncio.create_task(renew_for_ever())
    try:
        yield
    finally:
        renewing.cancel()
