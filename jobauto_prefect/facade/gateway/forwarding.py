"""Forwarding requests to Prefect's application, signed in as its administrator."""

import asyncio
import contextlib
import json
import random
import sqlite3
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from jobauto_prefect.errors import Fault, InvalidInput

MAX_RECORDED = 256 * 1024
"""Maximum bytes of a response that is recorded; longer ones are not recorded at all."""

DROPPED_HEADERS = frozenset({b"authorization", b"cookie", b"origin"})
"""Headers that are not forwarded: Prefect answers every origin alike. Browsers send the console's
cookie to every port of its host."""


LOCKED_SECONDS = 5.0
"""How long a write that SQLite rejects is retried."""

LONGEST_WAIT = 0.05  # maximum seconds between retries

IN_PARTS = frozenset({"/flow_runs/bulk_set_state"})
"""Routes with several transactions: if one is rejected, others may have been committed."""

ITEMS_AT_ONCE: Mapping[str, int] = {"/logs/": 100, "/events": 50}
"""Maximum items of a list sent to Prefect at once, by route: building one statement for a thousand
lines, or reading them, blocks its event loop."""


def inner_scope(
    scope: Scope, authorization: str | None, length: int | None = None, *, plain: bool = False
) -> Scope:
    """Make the ASGI scope Prefect sees; without `authorization` it is unauthenticated.

    `length` is the length of a re-encoded body; `plain`: the response must not be compressed.
    """
    dropped = {*DROPPED_HEADERS, b"accept-encoding"} if plain else {*DROPPED_HEADERS}
    if length is not None:
        dropped |= {b"content-length", b"content-type", b"transfer-encoding"}
    headers = [pair for pair in scope["headers"] if pair[0] not in dropped]
    if authorization is not None:
        headers.append((b"authorization", authorization.encode()))
    if length is not None:
        headers.append((b"content-length", str(length).encode()))
        headers.append((b"content-type", b"application/json"))
    return {**scope, "headers": headers}


def encode_body(body: Any) -> bytes:
    """Re-encode the checked body, so that Prefect parses exactly what was authorized.

    Raises:
        InvalidInput: it has a number that JSON can't represent.
    """
    try:
        return b"" if body is None else json.dumps(body, allow_nan=False).encode()
    except ValueError:
        raise InvalidInput([Fault("", "number", "the body has an infinite number")]) from None


def parts_of(route: str, body: Any) -> list[Any]:
    """Return the bodies with which a request to a route is forwarded: a long list is split."""
    most = ITEMS_AT_ONCE.get(route)
    if most is None or not isinstance(body, list) or len(body) <= most:
        return [body]
    return [body[start : start + most] for start in range(0, len(body), most)]


class PartForwarder:
    """Forwards long lists in parts, one part at a time for all clients.

    Each part blocks Prefect's event loop: others are served between two of them, not after one of
    every list that is under way.
    """

    def __init__(self, app: ASGIApp) -> None:
        self._app = app
        self._turn = asyncio.Lock()

    async def forward(
        self, scopes_and_bodies: Iterable[tuple[Scope, bytes]], receive: Receive, send: Send
    ) -> None:
        """Forward the parts in order until one fails; answer as Prefect does to the last.

        What precedes a failed part is kept. Once the client has gone no more parts are forwarded:
        they can be thousands, which nobody waits for.
        """
        answer: list[Message] = []
        gone = asyncio.ensure_future(_disconnected(receive))

        async def receive_end() -> Message:
            return await asyncio.shield(gone)

        async def keep(message: Message) -> None:
            answer.append(message)

        try:
            for scope, body in scopes_and_bodies:
                async with self._turn:
                    if gone.done():
                        return
                    answer.clear()
                    await self._app(scope, replay_body(body, receive_end), keep)
                if answer[0]["status"] >= 400:
                    break
        finally:
            gone.cancel()
        await _send_all(answer, send)


async def _disconnected(receive: Receive) -> Message:
    while (message := await receive())["type"] != "http.disconnect":
        pass
    return message


class _Refused(Exception):
    """SQLite rejected a write and rolled back its transaction."""


class PatientForwarder:
    """Forwards writes, and retries those SQLite rejects because of a concurrent writer.

    SQLite rejects a transaction that reads first immediately, without waiting for the other writer.
    Retries run alone: they wait for writes in progress, and later writes wait for them.
    """

    def __init__(self, app: ASGIApp) -> None:
        self._app = app
        self._alone = asyncio.Lock()
        self._under_way = 0
        self._none_under_way = asyncio.Event()

    async def forward(self, scope: Scope, body: bytes, receive: Receive, send: Send) -> None:
        """Forward one write, for the last time after `LOCKED_SECONDS`."""
        async with self._alone:
            self._under_way += 1
        is_refused = False
        try:
            await _forward_unless_locked(self._app, scope, replay_body(body, receive), send)
        except _Refused:
            is_refused = True
        finally:
            self._under_way -= 1
            if self._under_way == 0:
                self._none_under_way.set()
        if is_refused:
            async with self._alone:
                await self._repeat(scope, body, receive, send)

    async def _repeat(self, scope: Scope, body: bytes, receive: Receive, send: Send) -> None:
        until = asyncio.get_running_loop().time() + LOCKED_SECONDS
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout_at(until):
                while self._under_way:
                    self._none_under_way.clear()
                    await self._none_under_way.wait()
        while asyncio.get_running_loop().time() < until:
            with contextlib.suppress(_Refused):
                await _forward_unless_locked(self._app, scope, replay_body(body, receive), send)
                return
            # Prefect's own services also write.
            await asyncio.sleep(random.uniform(0, LONGEST_WAIT))  # noqa: S311 - spreads the writers
        await self._app(scope, replay_body(body, receive), send)


async def _forward_unless_locked(app: ASGIApp, scope: Scope, receive: Receive, send: Send) -> None:
    """Forward a request; pass on a response with status 503 only if it has another reason.

    Raises:
        _Refused: SQLite rejected it.
    """
    held_back: list[Message] = []

    async def send_or_hold_back(message: Message) -> None:
        if held_back or message.get("status") == 503:
            held_back.append(message)
        else:
            await send(message)

    try:
        await app(dict(scope), receive, send_or_hold_back)  # Prefect writes into its scope
    except Exception as error:
        if held_back and _is_locked(error):
            raise _Refused from error
        await _send_all(held_back, send)
        raise
    await _send_all(held_back, send)


async def _send_all(messages: list[Message], send: Send) -> None:
    for message in messages:
        await send(message)


def _is_locked(error: Exception) -> bool:
    """Whether this is SQLite's error for a write during a concurrent write."""
    reason = getattr(error, "orig", None)  # SQLAlchemy's errors wrap the driver's
    return isinstance(reason, sqlite3.OperationalError) and "locked" in str(reason)


def replay_body(body: bytes, receive: Receive) -> Receive:
    """Make a `receive` that returns this body first, then what the connection receives."""
    is_given = False

    async def receive_body() -> Message:
        nonlocal is_given
        if is_given:
            return await receive()
        is_given = True
        return {"type": "http.request", "body": body, "more_body": False}

    return receive_body


class ResponseRecorder:
    """Forwards a response, and keeps its status, and its body if it is short."""

    def __init__(self, send: Send) -> None:
        self.status = 500
        self._send = send
        self._content = bytearray()

    async def send(self, message: Message) -> None:
        """Record what Prefect's application sends, and forward it."""
        if message["type"] == "http.response.start":
            self.status = message["status"]
        elif len(self._content) <= MAX_RECORDED:
            self._content += message.get("body", b"")
        await self._send(message)

    def json(self) -> Any:
        """Parse the response.

        Returns:
            None if it is not JSON, or longer than `MAX_RECORDED`.
        """
        try:
            return json.loads(self._content) if len(self._content) <= MAX_RECORDED else None
        except ValueError:
            return None


class ServerErrorGuard:
    """Forwards a response unless its status is 500; `failed` is whether there was one."""

    def __init__(self, send: Send) -> None:
        self.failed = False
        self._send = send

    async def send(self, message: Message) -> None:
        """Forward what Prefect's application sends, unless it is a response with status 500."""
        if message["type"] == "http.response.start" and message["status"] == 500:
            self.failed = True
        if not self.failed:
            await self._send(message)


async def forward_and_rewrite(
    app: ASGIApp, scope: Scope, receive: Receive, send: Send, change: Callable[[Any], Any]
) -> None:
    """Forward a request, and change the JSON of a response with status 200."""
    start: Message = {}
    content = bytearray()

    async def keep(message: Message) -> None:
        nonlocal start
        if message["type"] == "http.response.start":
            start = message
            return
        content.extend(message.get("body", b""))
        if not message.get("more_body"):
            await send_all()

    async def send_all() -> None:
        body = bytes(content)
        if start["status"] == 200:
            body = json.dumps(change(json.loads(body))).encode()
        headers = [pair for pair in start["headers"] if pair[0].lower() != b"content-length"]
        headers.append((b"content-length", str(len(body)).encode()))
        await send({**start, "headers": headers})
        await send({"type": "http.response.body", "body": body})

    await app(scope, receive, keep)
