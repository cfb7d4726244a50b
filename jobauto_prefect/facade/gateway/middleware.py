"""The ASGI application around Prefect's: authenticates, authorizes, forwards and records."""

import asyncio
import re
from collections.abc import Callable, Collection, Coroutine
from dataclasses import replace
from typing import Any

from starlette.datastructures import MutableHeaders
from starlette.requests import HTTPConnection
from starlette.responses import JSONResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from jobauto_prefect.engine.api import authorization
from jobauto_prefect.errors import Forbidden, JobautoError, NotFound, PrefectFailed
from jobauto_prefect.facade.auth.identity import Identity
from jobauto_prefect.facade.concurrency import (
    WORKERS_CONCURRENT,
    WORKERS_WAITING,
    UserConcurrency,
)
from jobauto_prefect.facade.gateway.audit import AuditRecorder, StrayRecorder
from jobauto_prefect.facade.gateway.error_responses import (
    CONTENT_SECURITY_POLICY,
    audited_door,
    error_response,
)
from jobauto_prefect.facade.gateway.forwarding import (
    IN_PARTS,
    ITEMS_AT_ONCE,
    PartForwarder,
    PatientForwarder,
    ResponseRecorder,
    ServerErrorGuard,
    encode_body,
    forward_and_rewrite,
    inner_scope,
    parts_of,
    replay_body,
)
from jobauto_prefect.facade.gateway.policy.body_rules import require_limits, require_short_lists
from jobauto_prefect.facade.gateway.policy.decision import (
    STRAY,
    asks_for_secrets,
    decide,
    fetch_current,
    is_unrestricted,
    require_access,
)
from jobauto_prefect.facade.gateway.policy.owners import Ownership
from jobauto_prefect.facade.gateway.policy.scoped_request import Decision
from jobauto_prefect.facade.gateway.request import (
    WORKERS_OTHER_VALUES,
    WORKERS_VALUES,
    ProxyRequest,
    parse_body,
    parse_query,
    read_body,
)
from jobauto_prefect.facade.gateway.route_lookup import find_route
from jobauto_prefect.facade.gateway.routes import OPEN_PATHS, Content, Route
from jobauto_prefect.facade.gateway.sign_in import SignIn, authorization_header
from jobauto_prefect.facade.gateway.sockets import SocketGateway
from jobauto_prefect.facade.http.body_sizes import bounded, refuse_too_large
from jobauto_prefect.facade.http.requests import away_from_loop
from jobauto_prefect.facade.middleware.transport import ROUTE

API = "/api"
API_PAGES = frozenset({"/docs", "/docs/oauth2-redirect", "/redoc", "/openapi.json"})
"""Pages of Prefect's application that are not UI files."""

MAX_MEMBERS_BYTES = 512 * 1024
"""Maximum bytes of a body on routes for members: Prefect parses it in its event loop, and accepts
no more parameters."""

NEW_RUNS = re.compile(r"/deployments/([0-9a-f-]{36})/create_flow_run(?:/bulk)?")
SCHEDULED_RUNS = "/work_pools/{name}/get_scheduled_flow_runs"


class GatewayMiddleware:
    """Forwards what the route table and the caller's rights allow, and audits every change.

    `inner` is the login and password that Prefect itself requires for every request. `background`
    runs for the application's lifetime.
    """

    def __init__(
        self,
        prefect: ASGIApp,
        sign_in: SignIn,
        ownership: Ownership,
        inner: str,
        limit_bytes: int,
        background: Callable[[], Coroutine[Any, Any, None]],
    ) -> None:
        self._prefect = prefect
        self._patient = PatientForwarder(prefect)
        self._in_parts = PartForwarder(prefect)
        self._sign_in = sign_in
        self._ownership = ownership
        self._inner = authorization(inner)
        self._limit = limit_bytes
        self._background = background
        self._strays = StrayRecorder(sign_in.ledger)
        self._concurrency = UserConcurrency()
        self._workers = UserConcurrency(WORKERS_CONCURRENT, WORKERS_WAITING)
        self._sockets = SocketGateway(prefect, sign_in, ownership, inner)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request or socket; the application's lifespan is passed on."""
        if scope["type"] not in ("http", "websocket"):
            background = asyncio.create_task(self._background())
            try:
                await self._prefect(scope, receive, send)
            finally:
                background.cancel()
                await asyncio.wait({background})
            return
        connection = HTTPConnection(scope)
        connection.state.door = audited_door(connection.headers)
        path: str = scope["path"]
        if scope["type"] == "http":
            receive = bounded(receive, self._limit)
        try:
            if scope["type"] == "websocket":
                await self._sockets.serve(connection, receive, send)
            elif path == API or path.startswith(f"{API}/"):
                await self._serve_api(connection, receive, send)
            else:
                await self._serve_page(connection, receive, send)
        except JobautoError as error:
            await error_response(connection, error)(scope, receive, send)

    async def _serve_page(self, connection: HTTPConnection, receive: Receive, send: Send) -> None:
        scope = connection.scope
        reads = scope["method"] in ("GET", "HEAD")
        if not reads or scope["path"] in API_PAGES:
            await self._sign_in.identify_request(connection)
        if not reads:
            raise Forbidden("these files are read-only")
        if scope["path"].endswith("/ui-settings"):
            await forward_and_rewrite(
                self._prefect,
                inner_scope(scope, None, plain=True),
                receive,
                send,
                # The pages ask the server they came from, under the name the browser used.
                lambda settings: settings | {"api_url": API},
            )
            return
        await self._prefect(inner_scope(scope, None), receive, _add_security_policy(send))

    async def _serve_api(self, connection: HTTPConnection, receive: Receive, send: Send) -> None:
        scope = connection.scope
        path = scope["path"].removeprefix(API)
        if scope["method"] == "GET" and path in OPEN_PATHS:
            await self._prefect(inner_scope(scope, None), receive, send)
        elif self._sign_in.is_service(authorization_header(connection.headers)):
            refuse_too_large(connection.headers, self._limit)
            await self._forward_for_service(path, scope, receive, send)
        else:
            identity = await self._sign_in.identify_request(connection)
            refuse_too_large(connection.headers, self._limit)
            is_worker = identity.worker_pools is not None
            slot = (
                self._workers.slot(identity.actor.name)
                if is_worker
                else self._concurrency.slot(identity.user_id)
            )
            async with slot:
                await self._serve_identity(identity, path, scope, receive, send)

    async def _serve_identity(
        self, identity: Identity, path: str, scope: Scope, receive: Receive, send: Send
    ) -> None:
        match = find_route(scope["method"], path)
        if match is None:
            raise Forbidden(f"{scope['method']} {path} is not a Prefect route the gateway allows")
        route, path_parameters = match
        scope["state"][ROUTE] = f"{API}{route.path}"
        request = ProxyRequest(path, path_parameters, parse_query(scope))
        try:
            require_access(identity, route)
            request = replace(request, body=await self._read_body(identity, route, receive))
            decision = await decide(identity, route, request, self._ownership)
        except (Forbidden, NotFound) as error:
            if route.action or asks_for_secrets(request):
                await self._recorder(identity, route, request).record_refusal(str(error))
            raise
        if decision.answer is not None:
            await JSONResponse(decision.answer)(scope, receive, send)
            return
        if decision.stray is not None:
            await self._strays.record(identity.actor, decision.stray, STRAY)
        if asks_for_secrets(request):
            await self._recorder(identity, route, request, decision).record_reveal()
        await self._forward(identity, route, request, decision, scope, receive, send)

    async def _read_body(self, identity: Identity, route: Route, receive: Receive) -> Any:
        of_worker = identity.worker_pools is not None
        is_members = route.member_rule is not None and not of_worker
        raw = await read_body(bounded(receive, MAX_MEMBERS_BYTES) if is_members else receive)

        is_list = route.path in ITEMS_AT_ONCE

        def parse() -> Any:
            is_cut = is_list or route.content is Content.STATE
            most = WORKERS_VALUES if is_cut else WORKERS_OTHER_VALUES
            body = parse_body(raw, most if of_worker else None)
            if not is_list:
                require_short_lists(body)
                if is_members or route.is_search:
                    require_limits(body, is_filter=route.is_search)
            return body

        return await away_from_loop(len(raw), parse)

    async def _forward(
        self,
        identity: Identity,
        route: Route,
        request: ProxyRequest,
        decision: Decision,
        scope: Scope,
        receive: Receive,
        send: Send,
    ) -> None:
        parts = parts_of(route.path, decision.body)
        if len(parts) > 1:
            encoded = map(encode_body, parts)
            scopes = ((inner_scope(scope, self._inner, len(body)), body) for body in encoded)
            await self._in_parts.forward(scopes, receive, send)
            return
        body = encode_body(decision.body)
        is_inspected = (
            route.action is not None or route.path == SCHEDULED_RUNS or bool(route.hidden_fields)
        )
        scope = inner_scope(scope, self._inner, len(body), plain=is_inspected)
        if identity.worker_pools is not None:
            # The ledger has its own entries for what workers do: their claims and reports.
            await self._forward_for_worker(route, scope, replay_body(body, receive), send)
        elif route.action is not None:
            recorder = self._recorder(identity, route, request, decision)
            await recorder.record_intent(
                decision.body, await fetch_current(route, request, self._ownership)
            )
            response = ResponseRecorder(send)
            try:
                if route.path in IN_PARTS:
                    await self._prefect(scope, replay_body(body, receive), response.send)
                else:
                    await self._patient.forward(scope, body, receive, response.send)
            finally:
                await recorder.record_result(response.status, response.json())
            if route.content is Content.NEW_RUNS:
                self._ownership.remember_created(response.json())
        else:
            hidden_fields = () if is_unrestricted(identity, route) else route.hidden_fields
            receive = replay_body(body, receive)
            await self._forward_read(FieldRedactor(hidden_fields), scope, receive, send)

    async def _forward_read(
        self, redactor: "FieldRedactor", scope: Scope, receive: Receive, send: Send
    ) -> None:
        """Forward a request that changes nothing.

        Raises:
            PrefectFailed: Prefect answered with status 500.
        """
        guard = ServerErrorGuard(send)
        try:
            if redactor.hidden_fields:
                await forward_and_rewrite(self._prefect, scope, receive, guard.send, redactor)
            else:
                await self._prefect(scope, receive, guard.send)
        except Exception:
            if not guard.failed:
                raise
        if guard.failed:
            raise PrefectFailed("Prefect failed on this request; see its server's log")

    async def _forward_for_service(
        self, path: str, scope: Scope, receive: Receive, send: Send
    ) -> None:
        """Forward a request of this service, and cache the owner of the flow runs it creates.

        Its keys belong to one run template: what was created before has the same deployment.
        """
        new_runs = NEW_RUNS.fullmatch(path)
        if new_runs is None:
            await self._prefect(inner_scope(scope, self._inner), receive, send)
            return
        response = ResponseRecorder(send)
        await self._prefect(inner_scope(scope, self._inner, plain=True), receive, response.send)
        self._ownership.remember_created(response.json(), new_runs[1])

    async def _forward_for_worker(
        self, route: Route, scope: Scope, receive: Receive, send: Send
    ) -> None:
        if route.path != SCHEDULED_RUNS:
            await self._prefect(scope, receive, send)
            return
        response = ResponseRecorder(send)
        await self._prefect(scope, receive, response.send)
        self._ownership.remember_scheduled(response.json())

    def _recorder(
        self,
        identity: Identity,
        route: Route,
        request: ProxyRequest,
        decision: Decision | None = None,
    ) -> AuditRecorder:
        parameters = request.path_parameters
        object_id = parameters.get("id") or "/".join(parameters.values())
        owner = decision.owner if decision else None
        return AuditRecorder(self._sign_in.ledger, identity.actor, route, object_id, owner)


class FieldRedactor:
    """Clears the fields of a response that only administrators may see."""

    def __init__(self, hidden_fields: Collection[str]) -> None:
        self.hidden_fields = hidden_fields

    def __call__(self, answer: Any) -> Any:
        """Clear them in an object, or in each object of a list."""
        if isinstance(answer, list):
            return [self(item) for item in answer]
        return {name: {} if name in self.hidden_fields else value for name, value in answer.items()}


def _add_security_policy(send: Send) -> Send:
    async def sending(message: Message) -> None:
        if message["type"] == "http.response.start":
            headers = MutableHeaders(raw=list(message.get("headers", ())))
            if headers.get("content-type", "").startswith("text/html"):
                headers.setdefault("Content-Security-Policy", CONTENT_SECURITY_POLICY)
                message = {**message, "headers": headers.raw}
        await send(message)

    return sending
