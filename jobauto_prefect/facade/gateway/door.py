"""The door itself: an ASGI application around Prefect's."""

import asyncio
from collections.abc import Callable, Collection, Coroutine
from typing import Any

from starlette.datastructures import MutableHeaders
from starlette.requests import HTTPConnection
from starlette.responses import JSONResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from jobauto_prefect.engine.api import authorization
from jobauto_prefect.errors import Forbidden, JobautoError, NotFound, PrefectFailed
from jobauto_prefect.facade.auth import Identity
from jobauto_prefect.facade.body_sizes import refuse_too_large
from jobauto_prefect.facade.gateway.answers import (
    CONTENT_SECURITY_POLICY,
    door_of,
    error_answer,
)
from jobauto_prefect.facade.gateway.asking import Ask
from jobauto_prefect.facade.gateway.checks import Granted
from jobauto_prefect.facade.gateway.concurrency import UserConcurrency
from jobauto_prefect.facade.gateway.deciding import asks_for_secrets, current_of, decide, is_wide
from jobauto_prefect.facade.gateway.matching import route_of
from jobauto_prefect.facade.gateway.passing import (
    Faultless,
    Watched,
    instead,
    parsed,
    passed,
    query_of,
    read_body,
    rewritten,
    told,
)
from jobauto_prefect.facade.gateway.reach import Holdings
from jobauto_prefect.facade.gateway.sign_in import SignIn, given_by
from jobauto_prefect.facade.gateway.sockets import Sockets
from jobauto_prefect.facade.gateway.table import OPEN, Route
from jobauto_prefect.facade.gateway.trail import Trail
from jobauto_prefect.facade.transport import ROUTE

API = "/api"
DOCUMENTS = frozenset({"/docs", "/docs/oauth2-redirect", "/redoc", "/openapi.json"})
"""Pages of Prefect's application that are not files of its UI."""

SCHEDULED = "/work_pools/{name}/get_scheduled_flow_runs"


class Door:
    """Lets through what the table and somebody's rights allow, and writes down who changed what.

    `inner` is the login and the password that Prefect itself asks for: what comes without them,
    by whatever way, it refuses. `beside` runs as long as the application does.
    """

    def __init__(
        self,
        prefect: ASGIApp,
        sign_in: SignIn,
        holdings: Holdings,
        inner: str,
        limit_bytes: int,
        beside: Callable[[], Coroutine[Any, Any, None]],
    ) -> None:
        self._prefect = prefect
        self._sign_in = sign_in
        self._holdings = holdings
        self._inner = authorization(inner)
        self._limit = limit_bytes
        self._beside = beside
        self._concurrency = UserConcurrency()
        self._sockets = Sockets(prefect, sign_in, holdings, inner)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """One request, socket, or the application's lifespan (which is passed on)."""
        if scope["type"] not in ("http", "websocket"):
            beside = asyncio.create_task(self._beside())
            try:
                await self._prefect(scope, receive, send)
            finally:
                beside.cancel()
            return
        connection = HTTPConnection(scope)
        connection.state.door = door_of(connection.headers)
        path: str = scope["path"]
        try:
            if scope["type"] == "websocket":
                await self._sockets.serve(connection, receive, send)
            elif path == API or path.startswith(f"{API}/"):
                await self._api(connection, receive, send)
            else:
                await self._page(connection, receive, send)
        except JobautoError as error:
            await error_answer(connection, error)(scope, receive, send)

    async def _page(self, connection: HTTPConnection, receive: Receive, send: Send) -> None:
        """A file of Prefect's UI."""
        scope = connection.scope
        reads = scope["method"] in ("GET", "HEAD")
        if not reads or scope["path"] in DOCUMENTS:
            await self._sign_in.by_header(connection)
        if not reads:
            raise Forbidden("these are files, to be read only")
        if scope["path"].endswith("/ui-settings"):
            await rewritten(
                self._prefect, passed(scope, None, plain=True), receive, send, _with_own_address
            )
            return
        await self._prefect(passed(scope, None), receive, _with_policy(send))

    async def _api(self, connection: HTTPConnection, receive: Receive, send: Send) -> None:
        scope = connection.scope
        path = scope["path"].removeprefix(API)
        if scope["method"] == "GET" and path in OPEN:
            await self._prefect(passed(scope, None), receive, send)
        elif self._sign_in.is_service(given_by(connection.headers)):
            refuse_too_large(connection.headers, self._limit)
            await self._prefect(passed(scope, self._inner), receive, send)
        else:
            who = await self._sign_in.by_header(connection)
            refuse_too_large(connection.headers, self._limit)
            if who.worker_pools is not None:
                await self._for(who, path, scope, receive, send)
                return
            async with self._concurrency.place(who.user_id):
                await self._for(who, path, scope, receive, send)

    async def _for(
        self, who: Identity, path: str, scope: Scope, receive: Receive, send: Send
    ) -> None:
        found = route_of(scope["method"], path)
        if found is None:
            raise Forbidden(f"{scope['method']} {path} is no route of Prefect that this door knows")
        route, said = found
        scope["state"][ROUTE] = f"{API}{route.path}"
        raw = await read_body(receive, self._limit)
        body = parsed(raw, of_worker=who.worker_pools is not None)
        ask = Ask(path, said, query_of(scope), body)
        try:
            granted = await decide(who, route, ask, self._holdings)
        except (Forbidden, NotFound) as error:
            if route.action or asks_for_secrets(ask):
                await self._trail(who, route, ask).refused(str(error))
            raise
        if granted.answer is not None:
            await JSONResponse(granted.answer)(scope, receive, send)
            return
        if asks_for_secrets(ask):
            await self._trail(who, route, ask, granted).revealed()
        await self._pass(who, route, ask, granted, scope, receive, send)

    async def _pass(
        self,
        who: Identity,
        route: Route,
        ask: Ask,
        granted: Granted,
        scope: Scope,
        receive: Receive,
        send: Send,
    ) -> None:
        body = told(granted.body)
        looked_at = route.action is not None or route.path == SCHEDULED or bool(route.hidden)
        scope = passed(scope, self._inner, len(body), plain=looked_at)
        receive = instead(body, receive)
        if who.worker_pools is not None:
            # What workers do is in the ledger's own entries: their claims and their reports.
            await self._for_worker(route, scope, receive, send)
        elif route.action is not None:
            trail = self._trail(who, route, ask, granted)
            await trail.intend(granted.body, await current_of(route, ask, self._holdings))
            watched = Watched(send)
            try:
                await self._prefect(scope, receive, watched.send)
            finally:
                await trail.done(watched.status, watched.json())
        else:
            without = _Without(() if is_wide(who, route) else route.hidden)
            await self._read(without, scope, receive, send)

    async def _read(self, without: "_Without", scope: Scope, receive: Receive, send: Send) -> None:
        """Pass on what changes nothing; a fault of Prefect's own is none of this service."""
        answer = Faultless(send)
        try:
            if without.hidden:
                await rewritten(self._prefect, scope, receive, answer.send, without)
            else:
                await self._prefect(scope, receive, answer.send)
        except Exception:
            if not answer.failed:
                raise
        if answer.failed:
            raise PrefectFailed("Prefect failed on this; the log of its server says how")

    async def _for_worker(self, route: Route, scope: Scope, receive: Receive, send: Send) -> None:
        if route.path != SCHEDULED:
            await self._prefect(scope, receive, send)
            return
        watched = Watched(send)
        await self._prefect(scope, receive, watched.send)
        self._holdings.learn(watched.json())

    def _trail(
        self, who: Identity, route: Route, ask: Ask, granted: Granted | None = None
    ) -> Trail:
        named = ask.said.get("id") or "/".join(ask.said.values())
        owner = granted.owner if granted else None
        return Trail(self._sign_in.ledger, who.actor, route, named, owner)


class _Without:
    """Empties the members of an answer that are not for everybody."""

    def __init__(self, hidden: Collection[str]) -> None:
        self.hidden = hidden

    def __call__(self, answer: Any) -> Any:
        if isinstance(answer, list):
            return [self(one) for one in answer]
        return {name: {} if name in self.hidden else one for name, one in answer.items()}


def _with_own_address(settings: Any) -> Any:
    """The pages ask the server they came from, by whatever name they reached it."""
    return settings | {"api_url": API}


def _with_policy(send: Send) -> Send:
    async def sending(message: Message) -> None:
        if message["type"] == "http.response.start":
            headers = MutableHeaders(raw=list(message.get("headers", ())))
            if headers.get("content-type", "").startswith("text/html"):
                headers.setdefault("Content-Security-Policy", CONTENT_SECURITY_POLICY)
                message = {**message, "headers": headers.raw}
        await send(message)

    return sending
