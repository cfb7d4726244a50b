"""Reading the changes of event sources into the ledger, each source at its own interval.

Changes are stored together with the mark in one transaction, and only then removed from the
adapter: a change read twice is recognized by its number and content, one not stored is still there.
"""

import asyncio
import contextlib
import logging
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from uuid import UUID, uuid4

from sqlalchemy.exc import StatementError

from jobauto_prefect.errors import JobautoError, Locked, SourceUnavailable
from jobauto_prefect.ledger import locks, queues
from jobauto_prefect.ledger.audit.trail import SERVICE, WritingSession
from jobauto_prefect.ledger.events.event_store import SourceChange, store_changes
from jobauto_prefect.ledger.queries.events import source_times
from jobauto_prefect.ledger.queries.lookup import get_record
from jobauto_prefect.ledger.records import EventSource
from jobauto_prefect.ledger.store import Ledger
from jobauto_prefect.settings import Settings
from jobauto_prefect.sources.adapters import Adapter, Change
from jobauto_prefect.sources.targets import source_rules, source_target

logger = logging.getLogger(__name__)

BATCH = 500  # changes stored at once, at most
LOOK_SECONDS = 1.0
SHORTEST_SECONDS = 0.02
NONE_SECONDS = 60.0  # poll interval if there is no source, and nobody announces one
AT_ONCE = 16  # sources read concurrently
UNKEPT = (StatementError, ValueError, RecursionError)
"""Errors of values that the ledger can't store, as distinct from its outage."""

LOOKBACK = 1000
"""If changes are kept, how far below the mark to read: lower numbers may be committed later."""


class Poller:
    """Reads the sources that are due, until cancelled.

    `happened` is set when there are new changes; `there_are` is set by others when a source
    appears.
    """

    def __init__(
        self,
        ledger: Ledger,
        settings: Settings,
        happened: asyncio.Event | None = None,
        there_are: asyncio.Event | None = None,
    ) -> None:
        self._ledger = ledger
        self._settings = settings
        self._happened = happened or asyncio.Event()
        self._there_are = there_are or asyncio.Event()
        self._me = uuid4()
        self._reading: dict[int, asyncio.Task[None]] = {}

    async def run(self) -> None:
        """Find and read due sources until cancelled."""
        with ThreadPoolExecutor(AT_ONCE, "source") as threads:
            while True:
                self._there_are.clear()
                due, pause = await asyncio.to_thread(self._due)
                for source_id in due:
                    if source_id not in self._reading and len(self._reading) < AT_ONCE:
                        self._reading[source_id] = asyncio.create_task(
                            self._read_in(threads, source_id)
                        )
                if pause < NONE_SECONDS:
                    await asyncio.sleep(pause)
                    continue
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(pause):
                        await self._there_are.wait()

    def _due(self) -> tuple[list[int], float]:
        """Return the sources that are due, and the seconds until the next check."""
        try:
            with self._ledger.reading() as session:
                times = source_times(session)
        except JobautoError as error:
            logger.warning("%s", error)
            return [], LOOK_SECONDS
        now = self._ledger.clock()
        ahead = [(at - now).total_seconds() for at, _ in times if at > now]
        due = [source_id for at, source_id in times if at <= now]
        longest = LOOK_SECONDS if times else NONE_SECONDS
        return due, max(SHORTEST_SECONDS, min([longest, *ahead]))

    async def _read_in(self, threads: ThreadPoolExecutor, source_id: int) -> None:
        def keep() -> None:
            with self._ledger.writing(SERVICE) as session:
                locks.extend(session, _lock_name(source_id), self._me, queues.HELD_FOR)

        try:
            async with queues.renewed(keep):
                loop = asyncio.get_running_loop()
                if await loop.run_in_executor(threads, self.read, source_id):
                    self._happened.set()
        finally:
            self._reading.pop(source_id, None)

    def read(self, source_id: int) -> int:
        """Read one source to its end, unless somebody else does; return the number of new changes.

        It raises nothing: the source stores why it could not be read.
        """
        reading = _Reading(self._ledger, self._settings, self._me)
        error = None
        try:
            with self._ledger.writing(SERVICE) as session:
                _lock(session, source_id, self._me)
                source = get_record(session, EventSource, source_id)
            reading.to_the_end(source)
        except Locked:
            return 0
        except JobautoError as failed:
            error = str(failed)
            logger.warning("event source %s: %s", source_id, error)
        except Exception:
            error = "an error in this program; see the log of jobauto services"
            logger.exception("event source %s failed", source_id)
        with contextlib.suppress(JobautoError):
            self._end(source_id, error)
        return reading.new

    def _end(self, source_id: int, error: str | None) -> None:
        with self._ledger.writing(SERVICE) as session:
            source = session.get(EventSource, source_id)
            if source is not None:
                source.polled_at, source.poll_error = session.clock(), error
            locks.release(session, _lock_name(source_id), self._me)


def _lock_name(source_id: int) -> str:
    return f"source {source_id}"


def _lock(session: WritingSession, source_id: int, reader: UUID) -> None:
    if not locks.acquire(session, _lock_name(source_id), reader, queues.HELD_FOR):
        raise Locked(f"event source {source_id} is being read by another process")


class _Reading:
    """One pass over a source, all its pages; `new` counts the new changes."""

    def __init__(self, ledger: Ledger, settings: Settings, me: UUID) -> None:
        self._ledger = ledger
        self._settings = settings
        self._me = me
        self.new = 0

    def to_the_end(self, source: EventSource) -> None:
        """Read to the end: store, then remove, page by page.

        Raises:
            SourceUnavailable: it can't be read, or its changes can't be removed.
            Locked: this took so long that somebody else has taken over.
        """
        unremoved = None
        target = source_target(source, self._ledger.box)
        with Adapter(target, source_rules(self._settings)) as adapter:
            after = floor_of(source)
            while changes := adapter.after(after, BATCH):
                self._store(source, changes)
                if source.consume == "delete":
                    try:
                        adapter.remove([change.inversion for change in changes])
                    except SourceUnavailable as error:  # reading goes on
                        reason = f"its changes are stored but can't be removed: {error}"
                        unremoved = SourceUnavailable(reason)
                after = changes[-1].inversion
        if unremoved is not None:
            raise unremoved

    def _store(self, source: EventSource, changes: Sequence[Change]) -> None:
        rows = [SourceChange(each.inversion, each.members, each.fault) for each in changes]
        try:
            self._store_rows(source, rows)
        except UNKEPT:
            for row in rows:
                self._store_alone(source, row)

    def _store_alone(self, source: EventSource, row: SourceChange) -> None:
        try:
            self._store_rows(source, [row])
        except UNKEPT as error:
            logger.exception("change %d of event source %d can't be kept", row.inversion, source.id)
            fault = f"the ledger can't keep it ({type(error).__name__})"
            self._store_rows(source, [SourceChange(row.inversion, {}, fault)])

    def _store_rows(self, source: EventSource, rows: Sequence[SourceChange]) -> None:
        with self._ledger.writing(SERVICE) as session:
            _lock(session, source.id, self._me)
            self.new += store_changes(session, session.get_one(EventSource, source.id), rows)


def floor_of(source: EventSource) -> int:
    """Return where to begin. If changes are removed, all that are left are new."""
    if source.consume == "delete":
        return source.start_after
    return max(source.start_after, source.last_processed_id - LOOKBACK)
