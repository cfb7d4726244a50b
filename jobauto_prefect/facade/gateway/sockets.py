"""Prefect's websockets: their first message says who it is."""

import asyncio
import contextlib
import json
import logging
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

from starlette.requests import HTTPConnection
from starlette.types import ASGIApp, Message, Receive, Send

from jobauto_prefect.errors import Forbidden, JobautoError, Unauthorized, Unavailable
from jobauto_prefect.facade.auth import Identity
from jobauto_prefect.facade.gateway.asking import Ask
from jobauto_prefect.facade.gateway.checks import grant
from jobauto_prefect.facade.gateway.matching import socket_of
from jobauto_prefect.facade.gateway.reach import Holdings
from jobauto_prefect.facade.gateway.sign_in import SignIn
from jobauto_prefect.facade.gateway.table import Reach, Socket

logger = logging.getLogger(__name__)

API = "/api"
SUBPROTOCOL = "prefect"
FIRST_WITHIN_SECONDS = 10.0
"""How long a socket may stay open without saying who it is."""

LONGEST_FIRST = 64 * 1024
"""Characters of the message that says it; longer ones are not parsed."""

PROTOCOL_ERROR, POLICY_VIOLATION, TRY_AGAIN = 1002, 1008, 1013
LONGEST_REASON = 120  # bytes; the protocol allows 123

Look = Callable[[Message], Awaitable[Message]]
"""What of a client's message may be passed on. Raises Forbidden."""


class Sockets:
    """Lets sockets through, each once it has signed in."""

    def __init__(self, prefect: ASGIApp, sign_in: SignIn, holdings: Holdings, inner: str) -> None:
        self._prefect = prefect
        self._sign_in = sign_in
        self._holdings = holdings
        self._inner = inner

    async def serve(self, connection: HTTPConnection, receive: Receive, send: Send) -> None:
        """One socket, until it is closed."""
        await receive()  # the opening handshake
        if SUBPROTOCOL not in connection.scope.get("subprotocols", ()):
            await _close(send, PROTOCOL_ERROR, "the subprotocol prefect is needed to sign in")
            return
        await send({"type": "websocket.accept", "subprotocol": SUBPROTOCOL})
        try:
            look = await self._admitted(connection, receive)
        except _Gone:
            return
        except JobautoError as error:
            code = TRY_AGAIN if isinstance(error, Unavailable) else POLICY_VIOLATION
            await _refuse(connection, send, code, error)
            return
        await self._pass(connection, receive, send, look)

    async def _admitted(self, connection: HTTPConnection, receive: Receive) -> Look:
        """What to look at each message with, once the first one has said who it is."""
        text = await _token(receive)
        who = await self._sign_in.by_text(connection, text)
        found = socket_of(connection.scope["path"].removeprefix(API))
        if found is None:
            raise Forbidden("this is no socket of Prefect that this door knows")
        socket, said = found
        if who is None:
            return _unseen
        return await self._allowed(who, socket, said)

    async def _allowed(self, who: Identity, socket: Socket, said: Mapping[str, str]) -> Look:
        if who.worker_pools is None:
            if socket.permission in who.rights.everywhere:
                return _unseen
            raise Forbidden("this can't be narrowed to your companies; ask an administrator")
        if socket.workers is None:
            raise Forbidden("a worker's token does not open this")
        domain = self._holdings.domain(None, frozenset(who.worker_pools))
        reach = socket.workers
        if reach is Reach.POOL:
            await grant(reach, self._holdings, domain, Ask(socket.path, said))
            return _unseen

        async def look(message: Message) -> Message:
            body = _json(message.get("text"))
            granted = await grant(reach, self._holdings, domain, Ask(socket.path, said, body=body))
            return {**message, "text": json.dumps(granted.body)}

        return look

    async def _pass(
        self, connection: HTTPConnection, receive: Receive, send: Send, look: Look
    ) -> None:
        """Prefect's application sees a socket that signs in as its own administrator."""
        opening: list[Message] = [
            {"type": "websocket.connect"},
            {"type": "websocket.receive", "text": _signing_in(self._inner)},
        ]
        refused = asyncio.Event()

        async def from_client() -> Message:
            if opening:
                return opening.pop(0)
            message = await receive()
            if message["type"] == "websocket.receive":
                try:
                    return await look(message)
                except JobautoError as error:
                    refused.set()
                    await _refuse(connection, send, POLICY_VIOLATION, error)
                    return {"type": "websocket.disconnect", "code": POLICY_VIOLATION}
            return message

        async def to_client(message: Message) -> None:
            if message["type"] != "websocket.accept" and not refused.is_set():
                await send(message)

        await self._prefect(connection.scope, from_client, to_client)


class _Gone(Exception):
    """The client closed the socket."""


async def _token(receive: Receive) -> str:
    try:
        async with asyncio.timeout(FIRST_WITHIN_SECONDS):
            message = await receive()
    except TimeoutError:
        raise Unauthorized("the first message has to say who it is") from None
    if message["type"] == "websocket.disconnect":
        raise _Gone
    text = message.get("text") or ""
    first = _json(text) if len(text) <= LONGEST_FIRST else None
    token = first.get("token") if isinstance(first, dict) and first.get("type") == "auth" else None
    if not isinstance(token, str) or not token:
        raise Unauthorized("set PREFECT_API_AUTH_STRING to LOGIN:TOKEN")
    return token


def _json(text: Any) -> Any:
    with contextlib.suppress(ValueError, TypeError, RecursionError):
        return json.loads(text)
    return None


def _signing_in(inner: str) -> str:
    return json.dumps({"type": "auth", "token": inner})


async def _unseen(message: Message) -> Message:
    """Every message passes."""
    return message


async def _refuse(connection: HTTPConnection, send: Send, code: int, error: JobautoError) -> None:
    logger.warning("socket %s is closed: %s", connection.scope["path"], error)
    await _close(send, code, str(error))


async def _close(send: Send, code: int, reason: str) -> None:
    short = reason.encode()[:LONGEST_REASON].decode(errors="ignore")
    await send({"type": "websocket.close", "code": code, "reason": short})
