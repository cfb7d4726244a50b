"""The facade as an ASGI application."""

import asyncio
import contextlib
import functools
from collections.abc import AsyncIterator
from typing import TYPE_CHECKING, Any

from fastapi import APIRouter, FastAPI
from starlette.routing import BaseRoute
from starlette.types import ASGIApp

from jobauto_prefect import __version__
from jobauto_prefect.engine.api import PrefectApi, own_authorization
from jobauto_prefect.engine.neighbours import Neighbours
from jobauto_prefect.engine.wishes import Carrier
from jobauto_prefect.facade import errors, internal, metrics
from jobauto_prefect.facade.addresses import CONTRACT, Address, Addresses
from jobauto_prefect.facade.identification import Identification
from jobauto_prefect.facade.methods import HeadAsGet
from jobauto_prefect.facade.openapi import document, pages
from jobauto_prefect.facade.parameters import IgnoredNames, Parameters
from jobauto_prefect.facade.passwords import RememberedPasswords
from jobauto_prefect.facade.published import MEMBERS, PREFIXES, published
from jobauto_prefect.facade.remembered_tokens import RememberedTokens
from jobauto_prefect.facade.routes import contract_router
from jobauto_prefect.facade.service import Service
from jobauto_prefect.facade.throttle import SignInThrottle
from jobauto_prefect.facade.traced import Traced
from jobauto_prefect.facade.transport import TransportRules
from jobauto_prefect.jobs.timetable import announcements_of
from jobauto_prefect.ledger.audit import Actor
from jobauto_prefect.ledger.store import Ledger
from jobauto_prefect.monitoring import tracing
from jobauto_prefect.settings import Settings

if TYPE_CHECKING:
    from jobauto_prefect.monitoring.instruments import FacadeMonitor

ALIAS = "/api"


class Facade(FastAPI):
    """The application, with the rules of transport around everything, error answers included."""

    def openapi(self) -> dict[str, Any]:
        """The document of the contract."""
        return document()

    def build_middleware_stack(self) -> ASGIApp:
        """As FastAPI's, inside our rules."""
        service: Service = self.state.service
        routes = Addresses(super().build_middleware_stack(), addresses(service.settings))
        note = service.monitor.requests.note if service.monitor is not None else None
        answering: ASGIApp = HeadAsGet(routes)
        if tracing.is_on() and service.operator is None:
            answering = Traced(answering)
        return TransportRules(answering, service.settings, note)


def addresses(settings: Settings) -> list[Address]:
    """Where the contract is reached beside `/api/v1`."""
    dialect = published(settings.language)
    return [Address(ALIAS), *(Address(prefix, dialect) for prefix in PREFIXES)]


def create_app(
    settings: Settings,
    ledger: Ledger,
    operator: Actor | None = None,
) -> FastAPI:
    """The facade over an open ledger.

    `operator` is the person at this machine's command line, for the command line's own copy of
    the facade: no request to it needs a password. None for everything that listens on a port.
    """
    prefect = PrefectApi(settings.prefect_api_url, authorization=own_authorization(ledger.box))
    carrier = Carrier(Neighbours(ledger, prefect, settings))
    announcements = announcements_of(settings)

    @contextlib.asynccontextmanager
    async def lifespan(_app: FastAPI) -> AsyncIterator[None]:
        # A command's own copy is gone before what it remembers could be wrong: it need not listen.
        listening = [] if operator is not None else [announcements.run()]
        beside = [asyncio.create_task(each) for each in (carrier.run(), *listening)]
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
    passwords = RememberedPasswords(ledger.clock)
    tokens = RememberedTokens(ledger, announcements)
    monitor = None if operator is not None else _monitor(settings, ledger)
    app.state.service = Service(
        settings, ledger, carrier, throttle, passwords, tokens, operator, monitor
    )
    app.state.parameters = Parameters(MEMBERS)
    errors.install(app)
    app.add_middleware(Identification)
    app.add_middleware(IgnoredNames)
    app.router.routes.extend(_routes())
    return app


def _monitor(settings: Settings, ledger: Ledger) -> "FacadeMonitor":
    """What is measured of a facade; the command line's own copy does without its library."""
    from jobauto_prefect.monitoring.instruments import FacadeMonitor

    monitor = FacadeMonitor()
    monitor.read_by(metrics.LedgerMetrics(ledger, settings).families)
    monitor.checks["ledger"] = metrics.ledger_check(ledger)
    return monitor


@functools.cache
def _routes() -> list[BaseRoute]:
    """All routes, examined once for all facades of a process: that takes a third of a second."""
    router = APIRouter()
    router.include_router(internal.router)
    router.include_router(pages.router)
    router.include_router(metrics.router)
    router.include_router(contract_router(), prefix=CONTRACT)
    return router.routes
