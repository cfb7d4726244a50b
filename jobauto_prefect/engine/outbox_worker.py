"""The outbox worker: delivers the messages of the outbox to Prefect."""

import asyncio
import contextlib
import logging
import math
from collections import deque
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from datetime import timedelta

from jobauto_prefect.definitions.storable import storable_text
from jobauto_prefect.engine.batches import MOST_TOGETHER
from jobauto_prefect.engine.context import EngineContext
from jobauto_prefect.engine.hand_overs import Start
from jobauto_prefect.engine.message_handlers import OF_JOBS, handle, handle_together
from jobauto_prefect.errors import (
    JobautoError,
    Locked,
    PrefectRefuses,
    PrefectUnavailable,
)
from jobauto_prefect.ledger import outbox, queues
from jobauto_prefect.ledger.jobs import leases
from jobauto_prefect.ledger.outbox import OutboxKind, Priority
from jobauto_prefect.ledger.records import OutboxMessage
from jobauto_prefect.logs import log_context

logger = logging.getLogger(__name__)

AT_ONCE = 8  # messages handled concurrently
OWN_AT_ONCE = AT_ONCE + 5 * MOST_TOGETHER
"""Including messages that were just written and are waited for: while some are sent to Prefect in
batches, more gather, several for each of many deployments."""

REGISTRATIONS_AT_ONCE = AT_ONCE // 2
"""The other slots stay free for starts and ends, however long registrations take."""

REGISTRATIONS_TAKEN = 2 * AT_ONCE
"""Registrations claimed at once: one query for each would cost as much as handling it."""

TEMPLATES_TOGETHER = REGISTRATIONS_TAKEN // REGISTRATIONS_AT_ONCE
"""Run templates applied in one slot, for the same reason."""


AWAY_SECONDS = 1.0
"""How long nothing is tried after Prefect did not answer."""


class OutboxWorker:
    """Handles due messages, several concurrently; starts and ends first.

    `wake` may be called from any thread. Failed messages are retried with growing delays. While
    Prefect does not answer, one message every `AWAY_SECONDS` probes for all of them whether it is
    back.
    """

    def __init__(self, context: EngineContext, poll_seconds: float | None = None) -> None:
        """Prepare to deliver messages.

        `poll_seconds`: the poll interval; None: look only when woken.
        """
        self.context = context
        self.prefect_away: str | None = None
        """Why Prefect did not take the last message; None if it did, or none was tried."""

        self._poll_seconds = poll_seconds
        self._loop: asyncio.AbstractEventLoop | None = None
        self._due = asyncio.Event()
        self._in_hand: dict[asyncio.Task[None], Priority] = {}
        self._own: deque[OutboxMessage] = deque()
        self._registrations: deque[OutboxMessage] = deque()
        """Claimed registrations that wait for a slot."""

        self._more_may_wait = True
        self._locked = 0
        self._away_until = 0.0

    @property
    def is_running(self) -> bool:
        """Whether the worker accepts messages."""
        return self._loop is not None

    def wake(self) -> None:
        """Wake the worker: there may be a message."""
        if self._loop is not None:
            self._loop.call_soon_threadsafe(self._look_again)

    def accept(self, starts: Mapping[OutboxMessage, Start]) -> None:
        """Handle committed messages that were written for this process to handle."""
        if self._loop is not None:
            self.context.hand_overs.prepared.update(starts)
            self._own.extend(starts)
            self._loop.call_soon_threadsafe(self._due.set)

    def _look_again(self) -> None:
        self._more_may_wait = True
        self._due.set()

    async def run(self) -> None:
        """Handle messages until cancelled."""
        self._loop = asyncio.get_running_loop()
        try:
            async with self._deliveries() as group:
                while True:
                    await self._begin_due(group)
                    try:
                        async with asyncio.timeout(self._poll_seconds):
                            await self._due.wait()
                    except TimeoutError:
                        self._more_may_wait = True
        finally:
            self._loop = None  # the ledger may outlive this worker

    async def handle_all(self) -> None:
        """Handle every message that is due now."""
        async with self._deliveries() as group:
            await self._begin_due(group)
            while self._in_hand or self._locked:
                await self._due.wait()
                await self._begin_due(group)

    @contextlib.asynccontextmanager
    async def _deliveries(self) -> AsyncIterator[asyncio.TaskGroup]:
        """Open the task group for deliveries; at its end release unhandled registrations."""
        try:
            async with asyncio.TaskGroup() as group:
                yield group
        finally:
            for message in self._registrations:
                with contextlib.suppress(JobautoError):
                    outbox.release(self.context.ledger, message)
            self._registrations.clear()

    async def _begin_due(self, group: asyncio.TaskGroup) -> None:
        """Start handling due messages in free slots."""
        self._due.clear()
        while self._own and len(self._in_hand) < self._limit(OWN_AT_ONCE):
            self._begin_taken(group, [self._own.popleft()])
        self._begin_registrations(group)
        while self._more_may_wait and (free := self._limit(AT_ONCE) - len(self._in_hand)) > 0:
            self._more_may_wait = False
            wants_registrations = not self._registrations and self._slots_for_registrations() > 0
            try:
                taken = await self._claim(free, REGISTRATIONS_TAKEN if wants_registrations else 0)
            except JobautoError as error:
                logger.warning("the outbox can't be read: %s", error)
                return
            runs = [message for message in taken if message.priority < Priority.REGISTRATION]
            for message in runs:
                self._begin(group, [message])
            self._registrations.extend(taken[len(runs) :])
            self._begin_registrations(group)
            self._more_may_wait |= len(runs) == free

    def _begin_registrations(self, group: asyncio.TaskGroup) -> None:
        """Start handling one registration in each free slot, or several together.

        One that failed before is handled alone, so that others do not fail with it.
        """
        while self._registrations and (slots := self._slots_for_registrations()) > 0:
            share = min(TEMPLATES_TOGETHER, math.ceil(len(self._registrations) / slots))
            taken = [self._registrations.popleft()]
            while self._registrations and len(taken) < share:
                if not all(map(_goes_together, (taken[0], self._registrations[0]))):
                    break
                taken.append(self._registrations.popleft())
            self._begin_taken(group, taken)

    def _begin_taken(self, group: asyncio.TaskGroup, messages: Sequence[OutboxMessage]) -> None:
        """Start handling claimed messages; leave those whose claim has expired."""
        now = self.context.ledger.clock()
        mine = [each for each in messages if each.taken_until and each.taken_until > now]
        self._more_may_wait |= len(mine) < len(messages)
        if mine:
            self._begin(group, mine)

    def _begin(self, group: asyncio.TaskGroup, messages: Sequence[OutboxMessage]) -> None:
        task = group.create_task(self._handle(messages))
        self._in_hand[task] = Priority(messages[0].priority)
        task.add_done_callback(self._finished)

    def _finished(self, task: asyncio.Task[None]) -> None:
        if self._in_hand.pop(task) == Priority.REGISTRATION and not self._registrations:
            self._more_may_wait = True  # others may wait for the freed slot
        self._due.set()

    def _slots_for_registrations(self) -> int:
        busy = list(self._in_hand.values()).count(Priority.REGISTRATION)
        return min(self._limit(AT_ONCE) - len(self._in_hand), REGISTRATIONS_AT_ONCE - busy)

    def _limit(self, at_once: int) -> int:
        """Return how many messages may be handled at once."""
        if self.prefect_away is None:
            return at_once
        return int(asyncio.get_running_loop().time() >= self._away_until)

    async def _claim(self, most: int, registrations: int) -> Sequence[OutboxMessage]:
        """Claim the next messages; release them if cancelled meanwhile."""
        taking = asyncio.ensure_future(
            asyncio.to_thread(outbox.claim_due, self.context.ledger, most, registrations)
        )
        try:
            return await asyncio.shield(taking)
        except asyncio.CancelledError:
            for message in await taking:
                outbox.release(self.context.ledger, message)
            raise

    async def _handle(self, messages: Sequence[OutboxMessage]) -> None:
        first, left = messages[0], deque(messages)
        is_of_job = first.kind in (*OF_JOBS, OutboxKind.CREATE_RUN)
        try:
            with log_context(job_id=first.subject_id if is_of_job else None):
                async with queues.renewed(lambda: outbox.renew(self.context.ledger, messages)):
                    for outcome in await self._outcomes(messages):
                        await self._settle(left[0], outcome)
                        left.popleft()
        except JobautoError as error:  # its claim expires, and another worker takes it
            logger.warning("the outbox can't be written: %s", error)
        except Exception:
            logger.exception("%s %s failed; it will be retried", left[0].kind, left[0].subject_id)
        except asyncio.CancelledError:
            for message in left:  # so that another process need not wait for the expiry
                outbox.release(self.context.ledger, message)
            raise

    async def _outcomes(self, messages: Sequence[OutboxMessage]) -> Sequence[bool | Exception]:
        """Handle messages; return the outcome of each."""
        try:
            if len(messages) > 1:
                return await handle_together(self.context, messages)
            return [await handle(self.context, messages[0])]
        except JobautoError as error:
            return [error] * len(messages)
        except Exception as error:
            logger.exception("%s %s failed", messages[0].kind, messages[0].subject_id)
            return [error] * len(messages)

    async def _settle(self, message: OutboxMessage, outcome: bool | Exception) -> None:
        """Complete a message or schedule its retry, by its outcome."""
        ledger = self.context.ledger
        match outcome:
            case Locked():
                wait = await asyncio.to_thread(outbox.retry_soon, ledger, message)
                self._locked += 1
                self._call_later(wait, self._unlocked)
            case PrefectRefuses():
                self._go_on()
                await self._refused(message, outcome)
            case JobautoError():
                logger.warning(
                    "retrying %s %s later: %s", message.kind, message.subject_id, outcome
                )
                if isinstance(outcome, PrefectUnavailable):
                    self.prefect_away = str(outcome)
                    self._away_until = asyncio.get_running_loop().time() + AWAY_SECONDS
                    self._call_later(timedelta(seconds=AWAY_SECONDS), self._look_again)
                else:
                    self._go_on()
                await self._retry_later(message, storable_text(str(outcome)))
            case Exception():
                await self._retry_later(message, "an error in this program")
            case is_removed:
                self._go_on()
                if not is_removed:
                    await asyncio.to_thread(outbox.complete, ledger, message)

    def _go_on(self) -> None:
        if self.prefect_away is not None:
            self.prefect_away = None
            self._look_again()

    async def _refused(self, message: OutboxMessage, error: PrefectRefuses) -> None:
        """Retry registrations and creations until Prefect accepts them; give up other messages."""
        logger.warning("%s %s is refused: %s", message.kind, message.subject_id, error)
        if message.priority == Priority.REGISTRATION or message.kind == OutboxKind.CREATE_RUN:
            await self._retry_later(message, storable_text(str(error)))
            return
        if message.kind in OF_JOBS:
            text = storable_text(str(error))
            await self.context.write(leases.add_notice, message.subject_id, text)
        await asyncio.to_thread(outbox.complete, self.context.ledger, message)

    async def _retry_later(self, message: OutboxMessage, error: str) -> None:
        wait = await asyncio.to_thread(outbox.retry_later, self.context.ledger, message, error)
        self._call_later(wait, self._look_again)

    def _unlocked(self) -> None:
        self._locked -= 1
        self._look_again()

    def _call_later(self, wait: timedelta, look: Callable[[], None]) -> None:
        asyncio.get_running_loop().call_later(wait.total_seconds(), look)


def _goes_together(message: OutboxMessage) -> bool:
    """Whether a message may be handled in a batch with others of its kind."""
    return message.kind == OutboxKind.APPLY_TEMPLATE and message.attempts == 0
