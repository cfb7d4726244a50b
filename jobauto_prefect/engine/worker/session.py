"""A worker's session: listens and dispatches as its pool allows, then drains."""

import asyncio
import contextlib
import logging
from collections.abc import Collection, Coroutine
from dataclasses import dataclass
from types import TracebackType
from typing import Any, Self
from urllib.parse import quote
from uuid import UUID

from jobauto_prefect.engine.api import PAGE_SIZE, PrefectApi
from jobauto_prefect.engine.worker.dispatcher import Dispatcher, PollTarget, WaitingRun
from jobauto_prefect.engine.worker.listener import Announcement, listen
from jobauto_prefect.engine.worker.log_shipper import LogShipper
from jobauto_prefect.engine.worker.run_driver import RunDriver
from jobauto_prefect.errors import JobautoError
from jobauto_prefect.freed_memory import return_freed_memory
from jobauto_prefect.runtime.worker_context import WorkerContext

logger = logging.getLogger(__name__)
HURRIED_GRACE_SECONDS = 5.0
LAST_CLAIMS_SECONDS = 2.0  # for answers to pending claims
CANCELLATIONS_SECONDS = 15.0  # between two questions which runs are cancelled
LAST_REPORT_SECONDS = 5.0  # for reporting the last jobs' ends to Prefect


@dataclass(frozen=True, slots=True)
class SessionOptions:
    """`grace_seconds` is how long jobs may keep running once the session ends."""

    worker: str
    target: PollTarget
    grace_seconds: float


class WorkerSession:
    """An async context manager; call `end` before leaving it, or the jobs are ended at once."""

    def __init__(self, api: PrefectApi, opened: WorkerContext, options: SessionOptions) -> None:
        self._api = api
        self._opened = opened
        self._options = options
        self._logs = LogShipper(api)

        def pause(seconds: float) -> None:
            self._dispatcher.pause(seconds)

        self._driver = RunDriver(api, opened, options.worker, self._logs, pause)
        self._dispatcher = Dispatcher(
            api,
            options.target,
            self._driver.drive,
            opened.client.clock,
            is_able=lambda: opened.fitness.is_able,
            hears_all=lambda: self._is_connected and self._pool_limits.is_open,
            is_stray=self._driver.is_stray,
        )
        target = options.target
        self._pool_limits = PoolLimits(api, target.pool, target.queues)
        self._tasks: set[asyncio.Task[None]] = set()
        self._hurried = False
        self._is_connected = False
        self._listening: asyncio.Task[None] | None = None
        self._listening_to: UUID | None = None

    async def __aenter__(self) -> Self:
        self._begin(self._dispatcher.run())
        self._begin(self._logs.run())
        self._begin(self._poll_cancellations())
        self._begin(return_freed_memory())
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
        """Subscribe to the events of this work pool; a recreated pool has another id."""
        if pool_id != self._listening_to:
            if self._listening is not None:
                self._listening.cancel()
            self._listening_to = pool_id
            self._listening = asyncio.create_task(listen(pool_id, self, self._opened.client.clock))

    async def tick(self) -> None:
        """Poll for runs, and for limits if they are unknown."""
        await self._dispatcher.poll()
        if not self._pool_limits.is_known and self._is_connected:
            await self._pool_limits.read()

    async def _poll_cancellations(self) -> None:
        """Find what was cancelled even if no event says so, and while other calls hang."""
        while True:
            await asyncio.sleep(CANCELLATIONS_SECONDS)
            try:
                await self._driver.poll_cancellations()
            except Exception:
                logger.exception("cancelled runs could not be looked for; trying again")

    # what the event stream tells

    def on_connected(self) -> None:
        """Query cancellations and limits missed while disconnected."""
        self._is_connected = True
        self._begin(self._driver.poll_cancellations())
        self.on_limits_changed()

    def on_disconnected(self) -> None:
        """Check with Prefect before each start: polling covers the gap."""
        self._is_connected = False
        self._pool_limits.forget()

    def on_limits_changed(self) -> None:
        """Read the limits again and poll: waiting runs may start now."""
        self._dispatcher.wake()
        self._pool_limits.forget()
        self._begin(self._pool_limits.read())

    def on_scheduled(self, announcement: Announcement) -> None:
        """Start an announced run at once if the pool allows it; otherwise poll for it."""
        if announcement.deployment_id and self._pool_limits.allow(announcement.queue_id):
            now = self._opened.client.clock()
            # Only the ids are known, and that nobody has started the run.
            self._dispatcher.start(
                WaitingRun(
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
            )
        else:
            self._dispatcher.announce(announcement.flow_run_id)

    def on_cancelling(self, flow_run_id: UUID) -> None:
        """Don't start this run, and find out whether it must end."""
        self._dispatcher.drop(flow_run_id)
        self._driver.on_cancelling(flow_run_id)

    @property
    def is_able(self) -> bool:
        """Whether any job could be started."""
        return self._opened.fitness.is_able

    @property
    def is_superseded(self) -> bool:
        """Whether another worker has taken over the name."""
        return self._opened.fitness.is_superseded

    def on_fitness_changed(self) -> None:
        """Poll now: the worker may be able to run jobs again."""
        self._dispatcher.wake()

    # the end

    async def finish(self) -> None:
        """Stop accepting runs; let active runs finish, however long they take."""
        self._dispatcher.stop()
        await self._dispatcher.wait_until_idle()
        await self._report_last()

    async def end(self) -> None:
        """Stop accepting runs; give active ones the grace period, then end them as lost."""
        self._dispatcher.stop()
        # Once pending claims are answered or abandoned, the runner knows all jobs.
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(LAST_CLAIMS_SECONDS):
                await self._driver.wait_until_decided()
        self._driver.give_up_claims()
        grace = self._options.grace_seconds
        hurried = min(grace, HURRIED_GRACE_SECONDS)
        await self._opened.runner.drain(hurried if self._hurried else grace)
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(LAST_REPORT_SECONDS):
                await self._dispatcher.wait_until_idle()
        await self._report_last()

    def hurry(self) -> None:
        """Shorten the grace period of a running `end`."""
        self._hurried = True
        self._opened.runner.hurry(HURRIED_GRACE_SECONDS)

    async def _report_last(self) -> None:
        with contextlib.suppress(TimeoutError, JobautoError):
            async with asyncio.timeout(LAST_REPORT_SECONDS):
                await self._driver.wait_until_idle()
                await self._logs.flush()


class PoolLimits:
    """The unrestricted queues (neither paused nor limited) of an unrestricted pool.

    A paused pool or queue starts nothing, and only Prefect knows the free slots of a limited one,
    so the worker polls for each run. Nothing is known before `read` or after `forget`.
    """

    def __init__(self, api: PrefectApi, pool: str, queues: Collection[str] = ()) -> None:
        """Watch the limits of a pool.

        `queues`: the names of the queues to watch; none: all of the pool.
        """
        self._api = api
        self._pool = quote(pool, safe="")
        self._queues = queues
        self._open: frozenset[UUID] | None = None
        self.is_open = False
        """Whether all queues of the pool are known to be open."""

        self._changes = 0

    @property
    def is_known(self) -> bool:
        """Whether the limits were read since the last change."""
        return self._open is not None

    def allow(self, queue_id: UUID | None) -> bool:
        """Whether runs of this queue may start when announced."""
        return self._open is not None and queue_id in self._open

    def forget(self) -> None:
        """Discard the limits: they may have changed."""
        self._changes += 1
        self._open, self.is_open = None, False

    async def read(self) -> None:
        """Read the limits from Prefect; changes meanwhile leave them unknown."""
        changes = self._changes
        try:
            unrestricted, all_of_them = await self._ask()
        except JobautoError as error:
            logger.debug("the limits of the work pool are unknown: %s", error)
            return
        if changes == self._changes:
            self._open, self.is_open = unrestricted, all_of_them

    async def _ask(self) -> tuple[frozenset[UUID], bool]:
        """Return the unrestricted queues, and whether those are all."""
        pool = await self._api.get(f"/work_pools/{self._pool}")
        if _is_restricted(pool):
            return frozenset(), False
        path = f"/work_pools/{self._pool}/queues/filter"
        queues = await self._api.post(path, {"limit": PAGE_SIZE})
        counted = [queue for queue in queues if not self._queues or queue["name"] in self._queues]
        unrestricted = [queue for queue in counted if not _is_restricted(queue)]
        are_all = len(unrestricted) == len(counted) and len(queues) < PAGE_SIZE
        return frozenset(UUID(queue["id"]) for queue in unrestricted), are_all


def _is_restricted(restrictable: dict[str, object]) -> bool:
    return bool(restrictable["is_paused"]) or restrictable["concurrency_limit"] is not None
