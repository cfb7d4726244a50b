"""Prefect's event stream, for the lifetime of the worker."""

import asyncio
import contextlib
import logging
import re
import time
from collections.abc import AsyncIterator
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Protocol
from uuid import UUID

from prefect.events import Event
from prefect.events.clients import PrefectEventSubscriber, get_events_subscriber
from prefect.events.filters import EventAnyResourceFilter, EventFilter, EventNameFilter
from websockets.exceptions import ConnectionClosed

from jobauto_prefect.clock import Clock
from jobauto_prefect.errors import PrefectUnavailable

logger = logging.getLogger(__name__)

PREFIX = "prefect.flow-run."
WAITING = frozenset({"Scheduled", "AwaitingRetry", "Resuming"})
"""States in which a worker may start the run."""
ENDING = frozenset({"Cancelling", "Cancelled"})

POOL, QUEUE = "prefect.work-pool.", "prefect.work-queue."
LIMIT_EVENTS = frozenset(
    {
        *(f"{POOL}{word}" for word in ("paused", "ready", "not-ready", "updated", "deleted")),
        *(f"{QUEUE}{word}" for word in ("paused", "ready", "not-ready", "updated", "created")),
    }
)
"""Events after which a work pool or its queues may offer different runs."""

OF_JOBS = re.compile(r" #[0-9]+( \(task [0-9]+, attempt [0-9]+\))?$")
"""How names of flow runs created by the ledger end. A hint that saves asking about other runs."""

SHORTEST_PAUSE, LONGEST_PAUSE = 0.1, 5.0  # seconds between connection attempts
MISSED = timedelta(minutes=1)
"""How far back a new connection replays events."""

OPENED_SECONDS = 15.0  # at most, until a new connection is signed in
PING_SECONDS = 5.0

PONG_SECONDS = 10.0
"""How long a ping may be unanswered: a stopped server leaves its connections open. Prefect's client
takes up to 40 s to notice."""


@dataclass(frozen=True, slots=True)
class Announcement:
    """A flow run that waits for a worker, now or later.

    `deployment_id` and `queue_id` are given for a run just created for a job, otherwise None.
    """

    flow_run_id: UUID
    deployment_id: UUID | None = None
    queue_id: UUID | None = None


class RunListener(Protocol):
    """Handles events of a work pool. No call may block."""

    def on_connected(self) -> None:
        """Handle a new or renewed connection: earlier events may be missed."""

    def on_disconnected(self) -> None:
        """Handle a lost connection; it will be renewed."""

    def on_scheduled(self, announcement: Announcement) -> None:
        """Handle a flow run that waits for a worker, now or later."""

    def on_limits_changed(self) -> None:
        """Handle a work pool or queues that may be paused or have new limits."""

    def on_cancelling(self, flow_run_id: UUID) -> None:
        """Handle a flow run that is being cancelled, or was up to a minute ago."""


async def listen(pool_id: UUID, listener: RunListener, clock: Clock) -> None:
    """Notify `listener` of the flow runs of a work pool until cancelled, reconnecting forever.

    `clock` is the service's, as this host's may differ.
    """
    pause, complained = SHORTEST_PAUSE, False
    while True:
        since = time.monotonic()
        try:
            # One attempt per connection, because this loop must notice every reconnection.
            async with _open(_subscriber(pool_id, clock())) as stream:
                listener.on_connected()
                async for event in stream:
                    _notify(listener, event)
        except Exception as error:  # noqa: BLE001 - a subscriber fails in many ways; polling goes on
            # Don't reset the pause for a stream that opens but is refused at once.
            if time.monotonic() - since > LONGEST_PAUSE:
                pause, complained = SHORTEST_PAUSE, False
            if not complained:
                why = str(error) or type(error).__name__
                logger.warning("%s", PrefectUnavailable(f"no events arrive from Prefect: {why}"))
            complained = True
        listener.on_disconnected()
        await asyncio.sleep(pause)
        pause = min(2 * pause, LONGEST_PAUSE)


@contextlib.asynccontextmanager
async def _open(stream: PrefectEventSubscriber) -> AsyncIterator[PrefectEventSubscriber]:
    """Open a stream; reading it fails once its server no longer answers."""
    try:
        async with asyncio.timeout(OPENED_SECONDS):
            await stream.__aenter__()
    except (Exception, asyncio.CancelledError):
        _abort(stream)
        raise
    pinging = asyncio.create_task(_ping(stream))
    try:
        yield stream
    finally:
        pinging.cancel()
        await stream.__aexit__(None, None, None)


async def _ping(stream: PrefectEventSubscriber) -> None:
    socket = stream._websocket  # noqa: SLF001
    with contextlib.suppress(ConnectionClosed):
        while socket is not None:
            await asyncio.sleep(PING_SECONDS)
            try:
                async with asyncio.timeout(PONG_SECONDS):
                    await (await socket.ping())
            except TimeoutError:
                _abort(stream)
                return


def _abort(stream: PrefectEventSubscriber) -> None:
    """Drop the connection without the closing handshake, which a hung server does not answer."""
    socket = stream._websocket  # noqa: SLF001
    if socket is not None:
        socket.transport.abort()


def _subscriber(pool_id: UUID, now: datetime) -> PrefectEventSubscriber:
    names = sorted(LIMIT_EVENTS.union(PREFIX + name for name in WAITING | ENDING))
    wanted = EventFilter(
        event=EventNameFilter(name=names),
        any_resource=EventAnyResourceFilter(id=[f"prefect.work-pool.{pool_id}"]),
    )
    subscriber = get_events_subscriber(wanted, reconnection_attempts=0)
    # Prefect's default is this host's time less a minute. If this host is ahead, events up to then
    # would be missed.
    subscriber._backfill_since = now - MISSED  # type: ignore[assignment]  # noqa: SLF001
    return subscriber


def _notify(listener: RunListener, event: Event) -> None:
    if event.event in LIMIT_EVENTS:
        listener.on_limits_changed()
        return
    flow_run_id = UUID(event.resource.id.removeprefix(PREFIX))
    if event.event.removeprefix(PREFIX) in ENDING:
        listener.on_cancelling(flow_run_id)
        return
    deployment_id, queue_id = None, None
    was_moved = event.payload.get("initial_state") is not None  # its schedule may differ
    if not was_moved and OF_JOBS.search(event.resource.name or ""):
        deployment_id = _related(event, "deployment", "prefect.deployment.")
        queue_id = _related(event, "work-queue", QUEUE)
    listener.on_scheduled(Announcement(flow_run_id, deployment_id, queue_id))


def _related(event: Event, role: str, prefix: str) -> UUID | None:
    names = (related.id for related in event.related if related.role == role)
    name = next(names, "")
    return UUID(name.removeprefix(prefix)) if name.startswith(prefix) else None
