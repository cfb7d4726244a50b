"""Prefect's websockets: the first message signs the client in, the others are filtered."""

import asyncio
import contextlib
import json
import logging
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

from starlette.requests import HTTPConnection
from starlette.types import ASGIApp, Message, Receive, Send

from jobauto_prefect.errors import (
    Forbidden,
    JobautoError,
    TooManyRequests,
    Unauthorized,
    Unavailable,
)
from jobauto_prefect.facade.auth.identity import STREAM_CHECK_SECONDS, Identity
from jobauto_prefect.facade.concurrency import UserConcurrency
from jobauto_prefect.facade.gateway.policy.body_rules import refuse_own_events
from jobauto_prefect.facade.gateway.policy.owners import Ownership
from jobauto_prefect.facade.gateway.policy.scope_rules import apply_rule
from jobauto_prefect.facade.gateway.policy.scoped_request import ScopedRequest
from jobauto_prefect.facade.gateway.request import ProxyRequest
from jobauto_prefect.facade.gateway.route_lookup import find_socket
from jobauto_prefect.facade.gateway.routes import Content, ScopeRule, Socket
from jobauto_prefect.facade.gateway.sign_in import SignIn

logger = logging.getLogger(__name__)

API = "/api"
SUBPROTOCOL = "prefect"
FIRST_WITHIN_SECONDS = 10.0
"""How long a socket may stay open without signing in."""

MAX_FIRST_LENGTH = 64 * 1024
"""Maximum characters of the first message; longer ones are not parsed."""

MAX_SOCKETS = 128
"""Maximum open sockets of one user."""

WORKERS_SOCKETS = 1024
"""Maximum open sockets of one worker's token: replicas, and the runs that they start, share it."""

PROTOCOL_ERROR, POLICY_VIOLATION, TRY_AGAIN = 1002, 1008, 1013
MAX_REASON_BYTES = 120  # bytes; the protocol allows 123

MessageFilter = Callable[[Message], Awaitable[Message]]
"""Narrows a client's message to what may be forwarded. Raises Forbidden."""


class SocketGateway:
    """Serves sockets, each once it has signed in."""

    def __init__(self, prefect: ASGIApp, sign_in: SignIn, ownership: Ownership, inner: str) -> None:
        self._prefect = prefect
        self._sign_in = sign_in
        self._ownership = ownership
        self._inner = inner
        self._people = UserConcurrency(MAX_SOCKETS, 0)
        self._workers = UserConcurrency(WORKERS_SOCKETS, 0)

    async def serve(self, connection: HTTPConnection, receive: Receive, send: Send) -> None:
        """Serve one socket, until it is closed."""
        await receive()  # the opening handshake
        if SUBPROTOCOL not in connection.scope.get("subprotocols", ()):
            await _close(send, PROTOCOL_ERROR, "the subprotocol prefect is needed to sign in")
            return
        await send({"type": "websocket.accept", "subprotocol": SUBPROTOCOL})
        async with contextlib.AsyncExitStack() as stack:
            try:
                token = await _receive_token(receive)
                identity, message_filter = await self._sign_client_in(connection, token)
                if identity is not None:
                    await stack.enter_async_context(self._slot(identity))
            except _ClientClosed:
                return
            except JobautoError as error:
                is_later = isinstance(error, Unavailable | TooManyRequests)
                await _refuse(connection, send, TRY_AGAIN if is_later else POLICY_VIOLATION, error)
                return
            await self._forward(connection, receive, send, token, message_filter)

    def _slot(self, identity: Identity) -> contextlib.AbstractAsyncContextManager[object]:
        if identity.worker_pools is not None:
            return self._workers.slot(identity.actor.name)
        return self._people.slot(identity.user_id)

    async def _sign_client_in(
        self, connection: HTTPConnection, token: str
    ) -> tuple[Identity | None, MessageFilter]:
        """Identify the client, and choose the filter for the messages that follow its first."""
        identity = await self._sign_in.identify_socket(connection, token)
        match = find_socket(connection.scope["path"].removeprefix(API))
        if match is None:
            raise Forbidden("the gateway does not allow this socket of Prefect")
        socket, path_parameters = match
        if identity is None:
            return None, _pass_through
        return identity, await self._choose_filter(identity, socket, path_parameters)

    async def _choose_filter(
        self, identity: Identity, socket: Socket, path_parameters: Mapping[str, str]
    ) -> MessageFilter:
        if identity.worker_pools is None:
            if socket.permission in identity.rights.everywhere:
                return _check_events if socket.content is Content.EVENTS else _pass_through
            raise Forbidden("this can't be narrowed to your companies; ask an administrator")
        if socket.worker_rule is None:
            raise Forbidden("a worker's token is not allowed here")
        access_scope = self._ownership.scope(None, frozenset(identity.worker_pools))
        rule = socket.worker_rule
        if rule is ScopeRule.POOL:
            request = ProxyRequest(socket.path, path_parameters)
            await apply_rule(rule, ScopedRequest(request, access_scope, self._ownership))
            return _pass_through

        async def narrow(message: Message) -> Message:
            body = _parse_json(message.get("text"))
            request = ProxyRequest(socket.path, path_parameters, body=body)
            decision = await apply_rule(rule, ScopedRequest(request, access_scope, self._ownership))
            return {**message, "text": json.dumps(decision.body)}

        return narrow

    async def _forward(
        self,
        connection: HTTPConnection,
        receive: Receive,
        send: Send,
        token: str,
        message_filter: MessageFilter,
    ) -> None:
        """Present the socket to Prefect's application as signed in as its own administrator.

        It is closed once its client loses access.
        """
        opening: list[Message] = [
            {"type": "websocket.connect"},
            {
                "type": "websocket.receive",
                "text": json.dumps({"type": "auth", "token": self._inner}),
            },
        ]
        is_refused = asyncio.Event()

        async def from_client() -> Message:
            if opening:
                return opening.pop(0)
            message = await receive()
            if message["type"] == "websocket.receive":
                try:
                    return await message_filter(message)
                except JobautoError as error:
                    is_refused.set()
                    await _refuse(connection, send, POLICY_VIOLATION, error)
                    return {"type": "websocket.disconnect", "code": POLICY_VIOLATION}
            return message

        async def to_client(message: Message) -> None:
            if message["type"] != "websocket.accept" and not is_refused.is_set():
                await send(message)

        serving = asyncio.ensure_future(self._prefect(connection.scope, from_client, to_client))
        try:
            while not (await asyncio.wait({serving}, timeout=STREAM_CHECK_SECONDS))[0]:
                with contextlib.suppress(Unavailable):  # unknown; checked again later
                    _, message_filter = await self._sign_client_in(connection, token)
            await serving
        except JobautoError as error:
            is_refused.set()
            await _refuse(connection, send, POLICY_VIOLATION, error)
        finally:
            serving.cancel()
            await asyncio.wait({serving})


class _ClientClosed(Exception):
    """The client closed the socket."""


async def _receive_token(receive: Receive) -> str:
    try:
        async with asyncio.timeout(FIRST_WITHIN_SECONDS):
            message = await receive()
    except TimeoutError:
        raise Unauthorized("the first message must have credentials") from None
    if message["type"] == "websocket.disconnect":
        raise _ClientClosed
    text = message.get("text") or ""
    first = _parse_json(text) if len(text) <= MAX_FIRST_LENGTH else None
    token = first.get("token") if isinstance(first, dict) and first.get("type") == "auth" else None
    if not isinstance(token, str) or not token:
        raise Unauthorized("set PREFECT_API_AUTH_STRING to LOGIN:TOKEN")
    return token


def _parse_json(text: Any) -> Any:
    with contextlib.suppress(ValueError, TypeError, RecursionError):
        return json.loads(text)
    return None


async def _pass_through(message: Message) -> Message:
    return message


async def _check_events(message: Message) -> Message:
    """Forward events, except those in this service's name. Raises Forbidden."""
    refuse_own_events(_parse_json(message.get("text") or message.get("bytes")))
    return message


async def _refuse(connection: HTTPConnection, send: Send, code: int, error: JobautoError) -> None:
    logger.warning("socket %s is closed: %s", connection.scope["path"], error)
    await _close(send, code, str(error))


async def _close(send: Send, code: int, reason: str) -> None:
    short = reason.encode()[:MAX_REASON_BYTES].decode(errors="ignore")
    await send({"type": "websocket.close", "code": code, "reason": short})
