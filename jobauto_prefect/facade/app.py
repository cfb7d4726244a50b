"""The facade as an ASGI application."""

import asyncio
import contextlib
from collections.abc import AsyncIterator
from typing import TYPE_CHECKING, Any

from fastapi import FastAPI, Request, Response
from starlette.types import ASGIApp

from jobauto_prefect import __version__
from jobauto_prefect.engine.api import PrefectApi, own_authorization
from jobauto_prefect.engine.context import EngineContext
from jobauto_prefect.engine.outbox_worker import OutboxWorker
from jobauto_prefect.facade import metrics, worker_api
from jobauto_prefect.facade.auth.passwords import PasswordVerifier
from jobauto_prefect.facade.auth.throttle import SignInThrottle
from jobauto_prefect.facade.auth.token_cache import TokenCache
from jobauto_prefect.facade.compat.translation import FIELDS, PREFIXES, published_dialect
from jobauto_prefect.facade.http import errors
from jobauto_prefect.facade.http.addresses import Address, AddressMiddleware
from jobauto_prefect.facade.middleware.identification import IdentificationMiddleware
from jobauto_prefect.facade.middleware.methods import HeadMiddleware
from jobauto_prefect.facade.middleware.tracing import TracingMiddleware
from jobauto_prefect.facade.middleware.transport import TransportMiddleware
from jobauto_prefect.facade.openapi import docs_page, document
from jobauto_prefect.facade.resources.crud import build_contract_router
from jobauto_prefect.facade.service import Service
from jobauto_prefect.freed_memory import return_freed_memory
from jobauto_prefect.jobs.timetable import announcements_of
from jobauto_prefect.ledger.audit.trail import Actor
from jobauto_prefect.ledger.store import Ledger
from jobauto_prefect.monitoring import tracing
from jobauto_prefect.settings import Settings

if TYPE_CHECKING:
    from jobauto_prefect.monitoring.instruments import FacadeMonitor

ALIAS = "/api"


class Facade(FastAPI):
    """The application, with the rules of transport around everything, error answers included."""

    def openapi(self) -> dict[str, Any]:
        """Return the document of the contract."""
        return document()

    def build_middleware_stack(self) -> ASGIApp:
        """Build FastAPI's middleware stack inside the transport rules."""
        service: Service = self.state.service
        routes = AddressMiddleware(
            super().build_middleware_stack(), contract_addresses(service.settings)
        )
        note = service.monitor.requests.note if service.monitor is not None else None
        answering: ASGIApp = HeadMiddleware(routes)
        if tracing.is_on() and service.operator is None:
            answering = TracingMiddleware(answering)
        return TransportMiddleware(answering, service.settings, note)


def contract_addresses(settings: Settings) -> list[Address]:
    """Return the contract's addresses besides `/api/v1`."""
    dialect = published_dialect(settings.language)
    return [Address(ALIAS), *(Address(prefix, dialect) for prefix in PREFIXES)]


def create_app(
    settings: Settings,
    ledger: Ledger,
    operator: Actor | None = None,
) -> FastAPI:
    """Create the facade over an open ledger.

    `operator` is the person at this machine's command line, for the command line's own copy of
    the facade: no request to it needs a password. None for everything that listens on a port.
    """
    prefect = PrefectApi(settings.prefect_api_url, authorization=own_authorization(ledger.box))
    outbox_worker = OutboxWorker(EngineContext(ledger, prefect, settings))
    announcements = announcements_of(settings)
    ledger.when_rights_are_written(outbox_worker.wake)  # automations may follow

    @contextlib.asynccontextmanager
    async def lifespan(_app: FastAPI) -> AsyncIterator[None]:
        # A command's own copy ends before its caches could be stale: it need not listen.
        serving = [] if operator is not None else [announcements.run(), return_freed_memory()]
        beside = [asyncio.create_task(each) for each in (outbox_worker.run(), *serving)]
        yield
        for task in beside:
            task.cancel()
        await asyncio.gather(*beside, return_exceptions=True)
        await prefect.aclose()

    app = Facade(
        title="jobauto",
        version=__version__,
        lifespan=lifespan,
        docs_url=None,
        redoc_url=None,
        openapi_url=None,
        redirect_slashes=False,
    )
    throttle = SignInThrottle(settings, ledger)
    passwords = PasswordVerifier(ledger.clock)
    tokens = TokenCache(ledger, announcements)
    monitor = None if operator is not None else _monitor(settings, ledger)
    app.state.service = Service(
        settings, ledger, outbox_worker, throttle, passwords, tokens,
        _sign_in_form, _ask_to_sign_in, operator, monitor,
    )  # fmt: skip
    app.state.dialect_fields = FIELDS
    errors.add_error_handlers(app)
    app.add_middleware(IdentificationMiddleware)
    add_routes(app, visitors=operator is None)
    return app


def add_routes(app: FastAPI, *, visitors: bool) -> None:
    """Add all routes; a command's own copy has no visitors, and does not load pages."""
    contract = build_contract_router()
    for router in (worker_api.router, docs_page.router, metrics.router, contract):
        app.router.routes.extend(router.routes)
    if visitors:
        from jobauto_prefect.facade.console.pages import add_pages

        add_pages(app)


# The first visitor loads the console's pages and templates: commands have no visitors.


def _sign_in_form(request: Request) -> Response:
    from jobauto_prefect.facade.console.sign_in_page import respond_with_form

    return respond_with_form(request)


async def _ask_to_sign_in(request: Request) -> Response:
    from jobauto_prefect.facade.console.sign_in_page import respond_signed_out

    return await respond_signed_out(request)


def _monitor(settings: Settings, ledger: Ledger) -> "FacadeMonitor":
    """Return a facade's metrics; the command line's own copy does not load their library."""
    from jobauto_prefect.monitoring.instruments import FacadeMonitor

    monitor = FacadeMonitor()
    monitor.read_by(metrics.LedgerMetrics(ledger, settings).families)
    monitor.checks["ledger"] = metrics.ledger_check(ledger)
    return monitor
