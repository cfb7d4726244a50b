"""The locks of records: one process at a time tells Prefect of one."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Collection
from dataclasses import dataclass, field
from datetime import timedelta
from uuid import UUID, uuid4

from jobauto_prefect.engine.context import EngineContext
from jobauto_prefect.errors import JobautoError, Locked
from jobauto_prefect.ledger import locks
from jobauto_prefect.ledger.audit.trail import SERVICE, WritingSession

LOCK = timedelta(seconds=10)
"""How long a process that applies templates has them alone; others wait no longer for a dead one.
"""

RECORD_LOCK = timedelta(seconds=30)
"""The same for a record that is applied by itself, with all that Prefect may keep it waiting."""


@contextlib.asynccontextmanager
async def hold_record(context: EngineContext, record: str) -> AsyncIterator[None]:
    """Hold a record (`app 7`): what it says is read, told and noted before somebody else does so.

    Raises:
        Locked: somebody else has it.
    """
    holder = uuid4()

    def acquire() -> bool:
        with context.ledger.writing(SERVICE) as session:
            return locks.acquire(session, record, holder, RECORD_LOCK)

    def discard() -> None:
        with contextlib.suppress(JobautoError), context.ledger.writing(SERVICE) as session:
            locks.discard(session, [record], holder)

    if not await asyncio.to_thread(acquire):
        raise Locked(f"{record} is being applied already")
    try:
        yield
    finally:
        await asyncio.shield(asyncio.to_thread(discard))


@dataclass(frozen=True, slots=True)
class TemplateLock:
    """Holds run templates: two who apply one at once would move waiting runs twice, and the older
    state could be the last.
    """

    holder: UUID = field(default_factory=uuid4)
    held: set[int] = field(default_factory=set)

    def acquire(self, context: EngineContext, wanted: Collection[int]) -> None:
        """Hold those of the templates that nobody else has."""
        names = {_name(template_id): template_id for template_id in wanted}
        with context.ledger.writing(SERVICE) as session:
            free = locks.acquire_free(session, names, self.holder, LOCK)
        self.held.update(names[name] for name in free)

    def end(self, session: WritingSession, ended: Collection[int]) -> None:
        """Release templates with the transaction; say so by `ended` once it is committed."""
        if ended:
            locks.discard(session, [*map(_name, ended)], self.holder)

    def ended(self, ended: Collection[int]) -> None:
        """Note that these are released."""
        self.held.difference_update(ended)

    def release(self, context: EngineContext) -> None:
        """Release what is still held or, where the ledger does not answer, let its time run out."""
        if self.held:
            with contextlib.suppress(JobautoError), context.ledger.writing(SERVICE) as session:
                self.end(session, self.held)


def _name(template_id: int) -> str:
    return f"template {template_id}"
