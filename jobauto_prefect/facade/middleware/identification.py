"""Clients are identified before anything else of a request is read or validated."""

import re
from collections.abc import Mapping
from contextlib import AbstractAsyncContextManager, AsyncExitStack, nullcontext
from typing import Any

from anyio import to_thread
from fastapi import Request
from starlette.types import ASGIApp, Receive, Scope, Send

from jobauto_prefect.console_addresses import CONTRACT
from jobauto_prefect.errors import JobautoError, Unauthorized
from jobauto_prefect.facade.auth.identity import (
    Identity,
    identify,
    require_person,
    require_worker,
)
from jobauto_prefect.facade.auth.visitor_sessions import SIGN_IN, SIGN_OUT, offers_sign_in
from jobauto_prefect.facade.concurrency import (
    ARTIFACTS_CONCURRENT,
    SLOT,
    STRANGERS_CONCURRENT,
    WORKERS_CONCURRENT,
    WORKERS_WAITING,
    Slot,
    UserConcurrency,
)
from jobauto_prefect.facade.http.body_sizes import (
    ARTIFACTS,
    INTERNAL,
    body_limit,
    bounded,
    received,
    refuse_too_large,
    unpacked,
)
from jobauto_prefect.facade.http.errors import respond_to_error
from jobauto_prefect.facade.middleware.transport import ROUTE
from jobauto_prefect.facade.service import Service
from jobauto_prefect.logs import current_log_context

OPEN = re.compile(rf"{CONTRACT}/(ping|login)(\.[^/]+)?|{re.escape(SIGN_IN)}")
"""Public paths, after `AddressMiddleware` has mapped them."""


class IdentificationMiddleware:
    """Passes on requests of identified clients, and all requests to public paths.

    Workers' routes are for workers' tokens alone, all others for users with a role; to sign out
    takes none.
    Belongs inside `TransportMiddleware` and `AddressMiddleware`, and outside of everything that
    reads a body, a query or a path. The identity is then in `scope["state"]["identity"]`.

    Whatever reads the body gets at most as many bytes as its path takes. Each identity has its
    own bound of requests at once, and so has each address from which strangers sign in: a place of
    theirs is taken once all of the body is there, or one who never sends it would keep out all
    others of the address. A worker's artifacts have places of their own: its signs of life wait
    for no other body.
    """

    def __init__(self, app: ASGIApp) -> None:
        self._app = app
        self._people = UserConcurrency()
        self._workers = UserConcurrency(WORKERS_CONCURRENT, WORKERS_WAITING)
        self._artifacts = UserConcurrency(ARTIFACTS_CONCURRENT, WORKERS_WAITING)
        self._strangers = UserConcurrency(STRANGERS_CONCURRENT)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Identify who sends a request; sockets and the application's lifespan are passed on."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        request = Request(scope, receive)
        async with AsyncExitStack() as stack:
            try:
                limit = await _identify(request)
                if request.method == "GET":
                    receive = bounded(receive, limit)
                else:
                    receive = unpacked(receive, request.headers, limit)
                if OPEN.fullmatch(scope["path"]):
                    receive = await received(receive)
                if slot := await stack.enter_async_context(self._slot(request)):
                    scope["state"][SLOT] = slot
            except JobautoError as error:
                if isinstance(error, Unauthorized) and offers_sign_in(request):
                    service: Service = request.app.state.service
                    response = await service.ask_to_sign_in(request)
                else:
                    response = respond_to_error(request, error)
                await response(scope, receive, send)
                return
            try:
                await self._app(scope, receive, send)
            finally:
                route = scope.get("route")
                if route is not None:
                    scope["state"][ROUTE] = route.path.removeprefix(CONTRACT)
                    _note_job(route.path, scope["path_params"])

    def _slot(self, request: Request) -> AbstractAsyncContextManager[Slot | None]:
        identity: Identity | None = getattr(request.state, "identity", None)
        if request.app.state.service.operator is not None:
            return nullcontext()
        if identity is None:
            if request.method != "POST" or request.client is None:
                return nullcontext()
            return self._strangers.slot(request.client.host)
        if identity.worker_pools is not None:
            if ARTIFACTS.fullmatch(request.scope["path"]):
                return self._artifacts.slot(identity.actor.name)
            return self._workers.slot(identity.actor.name)
        return nullcontext() if identity.user_id is None else self._people.slot(identity.user_id)


def _note_job(route: str, parts: Mapping[str, Any]) -> None:
    """Record the job that a request's path names in its log context."""
    job_id = parts.get("record_id") if "/job/" in route else parts.get("job_id")
    if re.fullmatch("[0-9]{1,19}", str(job_id)):
        current_log_context().job_id = int(str(job_id))


async def _identify(request: Request) -> int:
    """Identify the client; return the maximum bytes of its body."""
    service: Service = request.app.state.service
    path: str = request.scope["path"]
    is_open = OPEN.fullmatch(path) is not None
    if not is_open:
        scheme = request.headers.get("authorization", "").partition(" ")[0].lower()
        limiter = service.comparing_threads if scheme == "basic" else None
        request.state.identity = await to_thread.run_sync(
            identify, request, service, limiter=limiter
        )
    limit = body_limit(path, service.settings)
    refuse_too_large(request.headers, limit)
    if not is_open and path != SIGN_OUT:
        kind = require_worker if path.startswith(INTERNAL) else require_person
        await kind(request.state.identity)
    return limit
