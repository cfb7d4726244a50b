"""Prefect's server application, started by uvicorn, and its background services."""

import asyncio
import functools
import gc
import importlib
import os
import signal
import threading
import time
from collections.abc import Awaitable, Callable
from datetime import timedelta
from typing import Any

from jobauto_prefect.engine.parts import reported
from jobauto_prefect.engine.prefect_server.redis import eviction_policy
from jobauto_prefect.engine.work_pools import add_worker_type
from jobauto_prefect.errors import NotReady
from jobauto_prefect.ledger.database.bounded_columns import bound_json, bound_text
from jobauto_prefect.ledger.store import Ledger
from jobauto_prefect.monitoring.monitor import Monitor
from jobauto_prefect.monitoring.ports import Part, management_port
from jobauto_prefect.settings import Settings

AUTHENTICATION = "PREFECT_SERVER_API_AUTH_STRING"


def create_app(*, with_services: bool = True) -> Callable[..., Awaitable[Any]]:
    """Create Prefect's ASGI application, responsive on SQLite too, with our worker's type."""
    collect_in_thread()  # first: with a collector running, Prefect's imports are a tenth slower
    from prefect.server.api.server import create_app as create

    _adapt()
    # One server, one process: no need to keep its application object for a second one.
    return create(webserver_only=not with_services, final=True)


def _adapt() -> None:
    from prefect.settings import get_current_settings

    from jobauto_prefect.engine.prefect_server.state_rules import add_state_rules

    add_state_rules()
    broker = importlib.import_module(get_current_settings().server.events.messaging_broker)
    end_when_cancelled(broker.Consumer)
    add_worker_type()
    bound_states()
    take_over_soon()


AGAIN_SECONDS = 0.1
"""How long a consumer of events that is cancelled may take to end before it is cancelled again."""


def end_when_cancelled(consumer: type[Any]) -> None:
    """Have Prefect's consumers of this class end when they are cancelled.

    They lose a cancellation while redis-py sends a command, because `asyncio.wait_for` of Python
    3.11 loses one that comes with the result; and while Prefect handles an event, because it then
    commits in a `finally`, whose error takes the place of the cancellation, and reads on.
    """
    run = consumer.run

    async def run_until_cancelled(self: Any, handler: Callable[[Any], Awaitable[None]]) -> None:
        running = asyncio.ensure_future(run(self, handler))
        try:
            await asyncio.shield(running)
        except asyncio.CancelledError:
            while not running.done():
                running.cancel()
                await asyncio.wait({running}, timeout=AGAIN_SECONDS)
            raise

    consumer.run = run_until_cancelled


TAKEOVER = timedelta(seconds=20)
"""How long a server that shares its work may be silent before others take its tasks."""


def take_over_soon() -> None:
    """Have Prefect's servers take over the tasks of one that was killed, if they share them.

    Docket's default is 5 minutes, during which the loop of a killed server runs nowhere. Its worker
    takes another timeout, but Prefect creates it without one and has no setting for it.
    """
    from docket import Worker
    from prefect.server.api import background_workers
    from prefect.settings import get_current_settings

    if get_current_settings().server.docket.url.startswith("memory:"):
        return
    worker = functools.partial(Worker, redelivery_timeout=TAKEOVER)
    background_workers.Worker = worker  # type: ignore[assignment,attr-defined]


def run_prefect_services(settings: Settings, ledger: Ledger) -> None:
    """Run Prefect's background services without its API, until SIGTERM or SIGINT."""
    collect_in_thread()
    from docket import Docket
    from prefect.logging.configuration import setup_logging
    from prefect.server.api.background_workers import background_worker
    from prefect.server.services.base import Service
    from prefect.settings import get_current_settings

    setup_logging()
    _adapt()
    shared = get_current_settings().server.docket

    async def check_redis() -> None:
        await eviction_policy(settings)

    monitor = Monitor("prefect")
    monitor.checks["redis"] = check_redis

    async def run() -> None:
        loop, stopping = asyncio.get_running_loop(), asyncio.Event()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, stopping.set)
        async with (
            management_port(settings, Part.PREFECT, monitor),
            reported(ledger, settings, Part.PREFECT, "services"),
            Docket(name=shared.name, url=shared.url, execution_ttl=timedelta(0)) as docket,
        ):
            services = asyncio.create_task(Service.run_services())
            # Its end waits for the tasks in hand: those of a killed server wait for TAKEOVER.
            async with background_worker(docket):
                waiting = asyncio.create_task(stopping.wait())
                await asyncio.wait({services, waiting}, return_when=asyncio.FIRST_COMPLETED)
            services.cancel()
            await asyncio.wait({services})

    asyncio.run(run())


def create_closed_app(login: str, *, with_services: bool) -> Callable[..., Awaitable[Any]]:
    """Create Prefect's application that requires this login (name:password).

    Raises:
        NotReady: Prefect's settings ignore it.
    """
    from prefect.context import refresh_global_settings_context
    from prefect.settings import get_current_settings

    os.environ[AUTHENTICATION] = login
    refresh_global_settings_context()  # Prefect may have been imported before
    taken = get_current_settings().server.api.auth_string
    if taken is None or taken.get_secret_value() != login:
        raise NotReady(f"Prefect's settings do not take {AUTHENTICATION} from the environment")
    return create_app(with_services=with_services)


LONGEST_STATE_TEXT = 10_000
"""Maximum length read of a state's message, and of its data as JSON."""


def bound_states() -> None:
    """Have the database truncate what Prefect's server in this process reads of a state.

    Lists of runs repeat the state for each run. Prefect accepts any length, and may hold states
    from before the gateway limited new ones. What is stored stays unchanged.
    """
    from prefect.server.database import orm_models

    for model in (orm_models.FlowRunState, orm_models.TaskRunState):
        columns = model.__table__.columns
        bound_text(columns["message"], LONGEST_STATE_TEXT)
        bound_json(columns["data"], LONGEST_STATE_TEXT)


PAUSE_SECONDS = 1.0


def collect_in_thread() -> None:
    """Collect this process's garbage in a separate thread from now on.

    Python collects in whichever thread happens to allocate. In the event loop of Prefect's server
    on SQLite that blocks everything for up to a minute: the collector closes the cursor of a failed
    statement and waits for its connection, which waits for a lock held by a transaction that only
    the event loop can end. See docs/decisions/0005-garbage.md.
    """
    gc.disable()
    threading.Thread(target=_collect, name="garbage collector", daemon=True).start()


def _collect() -> None:
    while True:
        time.sleep(PAUSE_SECONDS)
        due = [
            generation
            for generation, (count, threshold) in enumerate(
                zip(gc.get_count(), gc.get_threshold(), strict=True)
            )
            if count > threshold
        ]
        if due:
            gc.collect(due[-1])
