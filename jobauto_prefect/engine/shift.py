"""A worker's shift: listening and dispatching, then the drain at its end."""

import asyncio
import contextlib
import logging
from collections.abc import Coroutine
from dataclasses import dataclass
from datetime import datetime
from types import TracebackType
from typing import Any, Self
from uuid import UUID

from jobauto_prefect.engine.api import PrefectApi
from jobauto_prefect.engine.dispatch import Dispatcher, Station
from jobauto_prefect.engine.drive import Driver
from jobauto_prefect.engine.due import WaitingRun
from jobauto_prefect.engine.listen import Announcement, listen
from jobauto_prefect.engine.logs import LogShipper
from jobauto_prefect.engine.pool_terms import PoolTerms
from jobauto_prefect.errors import JobautoError
from jobauto_prefect.runtime.opening import OpenWorker

logger = logging.getLogger(__name__)

HURRIED_GRACE_SECONDS = 5.0
LAST_CLAIMS_SECONDS = 2.0  # for answers to claims that are under way
LAST_WORDS_SECONDS = 5.0  # for telling Prefect how the last jobs ended


@dataclass(frozen=True, slots=True)
class Terms:
    """`grace_seconds` is how long the jobs may go on once the shift ends; None: until they end."""

    worker: str
    station: Station
    grace_seconds: float


class Shift:
    """Use it as an async context; `end` it before leaving, or the jobs are ended at once."""

    def __init__(self, api: PrefectApi, opened: OpenWorker, terms: Terms) -> None:
        self._api = api
        self._opened = opened
        self._terms = terms
        self._logs = LogShipper(api)
        self._driver = Driver(api, opened, terms.worker, self._logs, self._pause)
        self._dispatcher = Dispatcher(
            api,
            terms.station,
            self._driver.drive,
            opened.client.clock,
            is_able=lambda: opened.fitness.is_able,
            hears_all=lambda: self._is_connected and self._pool_terms.is_open,
        )
        station = terms.station
        self._pool_terms = PoolTerms(api, station.pool, station.queues)
        self._tasks: set[asyncio.Task[None]] = set()
        self._hurried = False
        self._is_connected = False
        self._listening: asyncio.Task[None] | None = None
        self._listening_to: UUID | None = None

    async def __aenter__(self) -> Self:
        self._begin(self._dispatcher.run())
        self._begin(self._logs.run())
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        tasks = [*self._tasks, *([self._listening] if self._listening else [])]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await self._dispatcher.abandon()

    def _begin(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    def listen_to(self, pool_id: UUID) -> None:
        """Hear what happens in this work pool; a pool made again has another id."""
        if pool_id != self._listening_to:
            if self._listening is not None:
                self._listening.cancel()
            self._listening_to = pool_id
            self._listening = asyncio.create_task(listen(pool_id, self))

    async def tick(self) -> None:
        """What has to be asked for unannounced, now and then."""
        await asyncio.gather(self._dispatcher.ask(), self._driver.look_for_endings())
        if not self._pool_terms.is_known and self._is_connected:
            await self._pool_terms.read()

    # what the event stream tells

    def connected(self) -> None:
        """What was said while the stream was away went unheard."""
        self._is_connected = True
        self._begin(self._driver.look_for_endings())
        self.terms_changed()

    def disconnected(self) -> None:
        """Polling goes on."""
        self._is_connected = False
        self._pool_terms.forget()

    def terms_changed(self) -> None:
        """What may start unasked is to be found out anew, and what waited may start now."""
        self._dispatcher.wake()
        self._pool_terms.forget()
        self._begin(self._pool_terms.read())

    def announced(self, announcement: Announcement) -> None:
        """A flow run waits."""
        if announcement.deployment_id and self._pool_terms.allow(announcement.queue_id):
            now = self._opened.client.clock()
            self._dispatcher.take(_announced_run(announcement, now))
        else:
            self._dispatcher.announce(announcement.flow_run_id)

    def ending(self, flow_run_id: UUID) -> None:
        """A flow run is or was being ended."""
        self._dispatcher.drop(flow_run_id)
        self._driver.ending(flow_run_id)

    @property
    def is_able(self) -> bool:
        """Whether any job could be started."""
        return self._opened.fitness.is_able

    @property
    def is_superseded(self) -> bool:
        """Whether the worker's name is another start's."""
        return self._opened.fitness.is_superseded

    def fitness_changed(self) -> None:
        """Jobs may be possible again."""
        self._dispatcher.wake()

    def _pause(self, seconds: float) -> None:
        self._dispatcher.pause(seconds)

    # the end

    async def finish(self) -> None:
        """Take no more runs, and let those in hand come to their end however long it takes."""
        self._dispatcher.stop()
        await self._dispatcher.finished()
        await self._last_words()

    async def end(self) -> None:
        """Take no more runs; those in hand have the grace period, then they are ended as lost."""
        self._dispatcher.stop()
        await self._claims_answered()
        grace = self._terms.grace_seconds
        hurried = min(grace, HURRIED_GRACE_SECONDS)
        await self._opened.runner.drain(hurried if self._hurried else grace)
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(LAST_WORDS_SECONDS):
                await self._dispatcher.finished()
        await self._last_words()

    def hurry(self) -> None:
        """Shorten the grace period of an `end` that is under way."""
        self._hurried = True
        self._opened.runner.hurry(HURRIED_GRACE_SECONDS)

    async def _claims_answered(self) -> None:
        """Claims under way are answered or given up; then the runner knows all jobs."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(LAST_CLAIMS_SECONDS):
                await self._driver.decided()
        self._driver.give_up_claims()

    async def _last_words(self) -> None:
        with contextlib.suppress(TimeoutError, JobautoError):
            async with asyncio.timeout(LAST_WORDS_SECONDS):
                await self._driver.finished()
                await self._logs.flush()


def _announced_run(announcement: Announcement, now: datetime) -> WaitingRun:
    """A run of which no more is known than its ids, and that nobody has begun yet."""
    return WaitingRun(
        id=announcement.flow_run_id,
        deployment_id=announcement.deployment_id,
        run_count=0,
        due=now,
        scheduled_for=now,
        auto_scheduled=False,
        idempotency_key=None,
        name="",
        parameters={},
        labels={},
        announced=True,
    )
