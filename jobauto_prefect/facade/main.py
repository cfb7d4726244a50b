"""The facade, configured by this process's environment and settings files."""

import asyncio
import contextlib
import functools
import importlib
import logging
import os
import pkgutil
import signal
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager

from fastapi import FastAPI

from jobauto_prefect.definitions.validation.record_files import RECORD_KINDS, record_validator
from jobauto_prefect.definitions.validation.schema import validator
from jobauto_prefect.engine.parts import reported
from jobauto_prefect.engine.prefect_server.process import wait_ready
from jobauto_prefect.engine.services.background import run_services
from jobauto_prefect.errors import Conflict, PrefectUnavailable
from jobauto_prefect.facade.app import create_app
from jobauto_prefect.facade.console.page_response import load_console_files
from jobauto_prefect.facade.formats.html.page import load_templates
from jobauto_prefect.facade.formats.html.page_language import LANGUAGES, translator
from jobauto_prefect.facade.local_listener import serve_local_socket
from jobauto_prefect.facade.metrics import ledger_check
from jobauto_prefect.facade.openapi.schemas import load_examples
from jobauto_prefect.facade.stock_credential_types import add_stock_types
from jobauto_prefect.jobs.timetable import timetable_of
from jobauto_prefect.ledger.opening import open_ledger
from jobauto_prefect.ledger.queries.agenda import Topic
from jobauto_prefect.ledger.store import Ledger
from jobauto_prefect.monitoring.health import check_answers, check_loops
from jobauto_prefect.monitoring.monitor import Monitor
from jobauto_prefect.monitoring.ports import Part, management_port
from jobauto_prefect.monitoring.tracing import begin_tracing
from jobauto_prefect.settings import Settings, load_settings
from jobauto_prefect.sources.notices import NoticeSender
from jobauto_prefect.sources.poller import Poller
from jobauto_prefect.sources.webhooks import WebhookSender

logger = logging.getLogger(__name__)

STARTING_SECONDS = 30.0
"""How long the services wait for a Prefect that starts with them."""


def application() -> FastAPI:
    """Return the application: `uvicorn --factory jobauto_prefect.facade.main:application`.

    Raises:
        NotReady: the installation lacks its key or its tables.
        LedgerUnavailable: the database does not answer.
    """
    settings = load_settings()
    begin_tracing("facade")
    load_everything()
    ledger = _open_ledger(settings)
    app = create_app(settings, ledger)
    _add_listeners(app, settings, ledger)
    return app


def application_with_services() -> FastAPI:
    """Return the application, with the services running in its process during its lifespan.

    If the services fail, the process exits.

    Raises:
        NotReady, LedgerUnavailable: as for `application`.
    """
    settings = load_settings()
    begin_tracing("facade")
    load_everything()
    ledger = _open_ledger(settings)
    app = create_app(settings, ledger)
    monitor = app.state.service.monitor
    _add_listeners(app, settings, ledger)
    _watch_services(monitor, settings, ledger)
    _extend_lifespan(app, functools.partial(_services, settings, ledger, monitor))
    return app


LOADED = ("compiler", "definitions", "facade", "jobs", "ledger", "sources")
LEFT_OUT = ("jobauto_prefect.facade.gateway.", "jobauto_prefect.ledger.migrations.")
"""Of another process, and of what is over when an application is made."""


def load_everything() -> None:
    """Load what would be loaded at its first use: an upgrade replaces the files of what runs."""
    for name in LOADED:
        package = importlib.import_module(f"jobauto_prefect.{name}")
        for module in pkgutil.walk_packages(package.__path__, f"{package.__name__}."):
            if not module.name.startswith(LEFT_OUT) and not module.name.endswith("__main__"):
                importlib.import_module(module.name)
    load_templates()
    load_console_files()
    load_examples()
    for language in LANGUAGES:
        translator(language)
    validator()
    for kind in RECORD_KINDS:
        record_validator(kind)


def _add_listeners(app: FastAPI, settings: Settings, ledger: Ledger) -> None:
    """Add the socket for commands, the management port and the reports of this part."""
    monitor = app.state.service.monitor
    _extend_lifespan(app, functools.partial(reported, ledger, settings, Part.FACADE))
    _extend_lifespan(app, functools.partial(serve_local_socket, app, settings))
    _extend_lifespan(app, functools.partial(management_port, settings, Part.FACADE, monitor))


def _extend_lifespan(app: FastAPI, more: Callable[[], AbstractAsyncContextManager[None]]) -> None:
    alone = app.router.lifespan_context

    @contextlib.asynccontextmanager
    async def lifespan(served: FastAPI) -> AsyncIterator[None]:
        async with alone(served), more():
            yield

    app.router.lifespan_context = lifespan


@contextlib.asynccontextmanager
async def _services(settings: Settings, ledger: Ledger, monitor: Monitor) -> AsyncIterator[None]:
    running = asyncio.create_task(_run_services(settings, ledger, monitor))
    yield
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)


def _open_ledger(settings: Settings) -> Ledger:
    """Open the ledger; a new one gets the stock credential types."""
    ledger = open_ledger(settings)
    with contextlib.suppress(Conflict):  # another facade creates them
        add_stock_types(ledger, settings)
    return ledger


async def serve_services(settings: Settings, ledger: Ledger) -> None:
    """Run the services, those of events included, until cancelled; a process of their own."""
    begin_tracing("services")
    monitor = Monitor("services")
    _watch_services(monitor, settings, ledger)
    monitor.checks["facade"] = check_answers(f"{settings.facade}/api/v1/ping.json")
    async with management_port(settings, Part.SERVICES, monitor):
        await run_all_services(settings, ledger, monitor)


def _watch_services(monitor: Monitor, settings: Settings, ledger: Ledger) -> None:
    monitor.checks["ledger"] = ledger_check(ledger)
    monitor.checks["prefect"] = check_answers(f"{settings.prefect_api_url}/health")
    monitor.checks["loops"] = check_loops(monitor.loops)


async def run_all_services(
    settings: Settings, ledger: Ledger, monitor: Monitor | None = None
) -> None:
    """Run the services, those of events included, until cancelled."""
    timetable = timetable_of(ledger, settings)
    wanted = timetable.wanted
    loops = monitor.loops if monitor is not None else None
    async with reported(ledger, settings, Part.SERVICES), asyncio.TaskGroup() as tasks:
        tasks.create_task(run_services(settings, ledger, timetable, loops))
        tasks.create_task(
            Poller(ledger, settings, wanted[Topic.EVENTS], wanted[Topic.SOURCES]).run()
        )
        tasks.create_task(WebhookSender(ledger, settings, wanted[Topic.WEBHOOKS]).run())
        tasks.create_task(NoticeSender(ledger, settings, wanted[Topic.NOTICES]).run())


async def _run_services(settings: Settings, ledger: Ledger, monitor: Monitor) -> None:
    with contextlib.suppress(PrefectUnavailable):
        await wait_ready(settings.prefect_api_url, STARTING_SECONDS)
    try:
        await run_all_services(settings, ledger, monitor)
    except Exception:
        logger.exception("the services have ended; so does this process")
        os.kill(os.getpid(), signal.SIGTERM)
