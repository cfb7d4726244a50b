"""Prefect's application behind the gateway, for ASGI servers."""

import asyncio
import contextlib
import functools
import secrets
import threading
from typing import cast

import httpx
from fastapi import FastAPI
from fastapi.exceptions import RequestValidationError
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Mount, Route
from starlette.types import ASGIApp

from jobauto_prefect.engine.api import PrefectApi, authorization
from jobauto_prefect.engine.parts import reported
from jobauto_prefect.engine.prefect_server.app import create_closed_app
from jobauto_prefect.facade.auth.passwords import PasswordVerifier
from jobauto_prefect.facade.auth.throttle import SignInThrottle
from jobauto_prefect.facade.auth.token_cache import TokenCache
from jobauto_prefect.facade.gateway.middleware import GatewayMiddleware
from jobauto_prefect.facade.gateway.policy.owners import Ownership
from jobauto_prefect.facade.gateway.sign_in import SignIn
from jobauto_prefect.facade.metrics import ledger_check
from jobauto_prefect.facade.middleware.transport import TransportMiddleware
from jobauto_prefect.jobs.timetable import announcements_of
from jobauto_prefect.ledger.opening import open_ledger
from jobauto_prefect.ledger.store import Ledger
from jobauto_prefect.monitoring.instruments import GatewayMonitor
from jobauto_prefect.monitoring.monitor import Monitor
from jobauto_prefect.monitoring.ports import Part, management_port
from jobauto_prefect.settings import Settings, load_settings


def application(*, with_services: bool = True) -> ASGIApp:
    """Create it for a server: `uvicorn --factory jobauto_prefect.facade.gateway.asgi:application`.

    `with_services`: with Prefect's background services.

    Raises:
        NotReady: the installation lacks its key or its tables.
        LedgerUnavailable: the database does not answer.
    """
    settings = load_settings()
    ledger = open_ledger(settings)
    monitor = GatewayMonitor()
    monitor.checks["ledger"] = ledger_check(ledger)
    # Prefect requires a password that only the gateway knows.
    inner = f"door:{secrets.token_urlsafe(32)}"
    prefect = cast("FastAPI", create_closed_app(inner, with_services=with_services))
    _make_document_once(prefect)
    _answer_without_bodies(prefect)
    role = "all" if with_services else "api"
    middleware = create_middleware(settings, ledger, prefect, inner, monitor, role)
    return TransportMiddleware(middleware, settings, monitor.requests.note)


def _make_document_once(prefect: FastAPI) -> None:
    """Cache the OpenAPI document, which Prefect rebuilds in its event loop for each request."""
    one_by_one = threading.Lock()

    @functools.cache
    def content() -> bytes:
        return bytes(JSONResponse(prefect.openapi()).body)

    def answer(_request: Request) -> Response:  # in a thread, since this is no coroutine
        with one_by_one:
            return Response(content(), media_type="application/json")

    prefect.router.routes.insert(0, Route("/openapi.json", answer))


MOST_TOLD = 100
"""Maximum number of errors reported for one body."""


def _answer_without_bodies(prefect: FastAPI) -> None:
    """Report what is wrong with a body without repeating it.

    Prefect repeats the body in its event loop, for each error: 4 MB blocked it for 20 s.
    """

    def answer(_request: Request, error: Exception) -> Response:
        errors = error.errors() if isinstance(error, RequestValidationError) else ()
        told = [
            {name: each[name] for name in ("type", "loc", "msg")} for each in errors[:MOST_TOLD]
        ]
        message = "Invalid request received."
        return JSONResponse({"exception_message": message, "exception_detail": told}, 422)

    for route in prefect.routes:
        if isinstance(route, Mount) and isinstance(route.app, FastAPI):
            route.app.add_exception_handler(RequestValidationError, answer)


def create_middleware(
    settings: Settings,
    ledger: Ledger,
    prefect: ASGIApp,
    inner: str,
    monitor: Monitor | None = None,
    role: str = "all",
) -> GatewayMiddleware:
    """Put the gateway in front of an application; `inner` is the login and password it requires.

    With a monitor it is a part of the installation, a Prefect server with this role.
    """
    signed_in = authorization(inner)
    transport = httpx.ASGITransport(prefect, raise_app_exceptions=False)
    inner_api = PrefectApi("http://prefect/api", authorization=signed_in, transport=transport)
    passwords = PasswordVerifier(ledger.clock)
    announcements = announcements_of(settings)
    tokens = TokenCache(ledger, announcements)
    sign_in = SignIn(ledger, SignInThrottle(settings, ledger), passwords, tokens)
    ownership = Ownership(ledger, inner_api, settings.pool)
    limit = settings.body_limit_bytes

    async def check_prefect() -> None:
        await inner_api.get("/health")

    if monitor is not None:
        # Not at PREFECT_API_URL: a balancer there may wait for this server to be ready.
        monitor.checks["prefect"] = check_prefect

    async def run_background() -> None:
        async with contextlib.AsyncExitStack() as stack:
            if monitor is not None:
                await stack.enter_async_context(management_port(settings, Part.PREFECT, monitor))
                await stack.enter_async_context(reported(ledger, settings, Part.PREFECT, role))
            await announcements.run()  # immediately if the database has none
            await asyncio.Event().wait()

    return GatewayMiddleware(prefect, sign_in, ownership, inner, limit, run_background)
