"""Locks on records: only one process at a time updates a record in Prefect."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Collection
from dataclasses import dataclass, field
from datetime import timedelta
from uuid import UUID, uuid4

from jobauto_prefect.engine.context import EngineContext
from jobauto_prefect.errors import JobautoError, Locked
from jobauto_prefect.ledger import locks, queues
from jobauto_prefect.ledger.audit.trail import SERVICE, WritingSession

LOCK = timedelta(seconds=10)
"""Lock time of a batch of run templates: how long others wait if the holder dies."""


@contextlib.asynccontextmanager
async def hold_record(context: EngineContext, record: str) -> AsyncIterator[None]:
    """Lock a record (`app 7`) while it is read, sent to Prefect and the result is stored.

    Raises:
        Locked: another process holds it.
    """
    holder = uuid4()

    def acquire() -> bool:
        with context.ledger.writing(SERVICE) as session:
            return locks.acquire(session, record, holder, queues.HELD_FOR)

    def extend() -> None:
        with context.ledger.writing(SERVICE) as session:
            locks.extend(session, record, holder, queues.HELD_FOR)

    def discard() -> None:
        with contextlib.suppress(JobautoError), context.ledger.writing(SERVICE) as session:
            locks.discard(session, [record], holder)

    if not await asyncio.to_thread(acquire):
        raise Locked(f"{record} is already being applied")
    try:
        async with queues.renewed(extend):
            yield
    finally:
        await asyncio.shield(asyncio.to_thread(discard))


@dataclass(frozen=True, slots=True)
class TemplateLock:
    """Locks on run templates.

    If two processes applied one at the same time, waiting runs would be moved twice, and the older
    state could win.
    """

    holder: UUID = field(default_factory=uuid4)
    held: set[int] = field(default_factory=set)

    def acquire(self, context: EngineContext, wanted: Collection[int]) -> None:
        """Lock those of the templates that nobody else holds."""
        names = {_name(template_id): template_id for template_id in wanted}
        with context.ledger.writing(SERVICE) as session:
            free = locks.acquire_free(session, names, self.holder, LOCK)
        self.held.update(names[name] for name in free)

    def end(self, session: WritingSession, ended: Collection[int]) -> None:
        """Release templates in this transaction; call `ended` once it is committed."""
        if ended:
            locks.discard(session, [*map(_name, ended)], self.holder)

    def ended(self, ended: Collection[int]) -> None:
        """Note that these are released."""
        self.held.difference_update(ended)

    def release(self, context: EngineContext) -> None:
        """Release what is still held; if the ledger does not answer, the locks expire."""
        if self.held:
            with contextlib.suppress(JobautoError), context.ledger.writing(SERVICE) as session:
                self.end(session, self.held)


def _name(template_id: int) -> str:
    return f"template {template_id}"
