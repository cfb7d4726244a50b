"""What a request is passed on to Prefect's application with, as its own administrator."""

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
"""Bytes of a response that are recorded; of longer ones nothing is."""

DROPPED_HEADERS = frozenset({b"authorization", b"cookie", b"origin"})
"""Headers that are not passed on: Prefect answers every origin alike. Browsers send the console's
cookie to every port of its host."""


LOCKED_SECONDS = 5.0
"""How long a write that SQLite refuses is repeated."""

LONGEST_WAIT = 0.05  # seconds until the next try

IN_PARTS = frozenset({"/flow_runs/bulk_set_state"})
"""Routes of several transactions: what one of them refused, others may have done."""

ITEMS_AT_ONCE: Mapping[str, int] = {"/logs/": 100, "/events": 50}
"""How many items of a list Prefect is sent at once, by route: its event loop takes no other request
while it makes one statement for a thousand lines, or reads them."""


def inner_scope(
    scope: Scope, authorization: str | None, length: int | None = None, *, plain: bool = False
) -> Scope:
    """Make the ASGI scope Prefect sees; without `authorization` it is signed in as nobody.

    `length` is that of a body encoded anew; `plain`: the response is not to be compressed.
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
        InvalidInput: it has a number that JSON does not have.
    """
    try:
        return b"" if body is None else json.dumps(body, allow_nan=False).encode()
    except ValueError:
        raise InvalidInput([Fault("", "number", "the body has an infinite number")]) from None


def parts_of(route: str, body: Any) -> list[Any]:
    """Return the bodies a request to a route is passed on with: a long list is cut."""
    most = ITEMS_AT_ONCE.get(route)
    if most is None or not isinstance(body, list) or len(body) <= most:
        return [body]
    return [body[start : start + most] for start in range(0, len(body), most)]


async def forward_in_parts(
    app: ASGIApp, scopes_and_bodies: Iterable[tuple[Scope, bytes]], receive: Receive, send: Send
) -> None:
    """Pass the parts of a list on one after the other, up to one that fails; answer as to the last.

    What came before one that fails is kept.
    """
    answer: list[Message] = []

    async def keep(message: Message) -> None:
        answer.append(message)

    for scope, body in scopes_and_bodies:
        answer.clear()
        await app(scope, replay_body(body, receive), keep)
        if answer[0]["status"] >= 400:
            break
    await _send_all(answer, send)


class _Refused(Exception):
    """SQLite refused a write, and took back all that its transaction had done."""


class PatientForwarder:
    """Passes writes on, and repeats what SQLite refuses because somebody else writes.

    A transaction that first reads is refused at once, without waiting for the other writer. Those
    that come again do so alone: what is under way ends first, and what comes meanwhile waits.
    """

    def __init__(self, app: ASGIApp) -> None:
        self._app = app
        self._alone = asyncio.Lock()
        self._under_way = 0
        self._none_under_way = asyncio.Event()

    async def forward(self, scope: Scope, body: bytes, receive: Receive, send: Send) -> None:
        """Pass one write on, for the last time after `LOCKED_SECONDS`."""
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
            # Prefect's own services write, too.
            await asyncio.sleep(random.uniform(0, LONGEST_WAIT))  # noqa: S311 - spreads the writers
        await self._app(scope, replay_body(body, receive), send)


async def _forward_unless_locked(app: ASGIApp, scope: Scope, receive: Receive, send: Send) -> None:
    """Pass a request on; an answer of status 503 only where it has another reason.

    Raises:
        _Refused: SQLite refused it.
    """
    held_back: list[Message] = []

    async def send_or_hold_back(message: Message) -> None:
        if held_back or message.get("status") == 503:
            held_back.append(message)
        else:
            await send(message)

    try:
        await app(dict(scope), receive, send_or_hold_back)  # which writes into its scope
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
    """Whether this is SQLite's answer to who would write while somebody else does."""
    reason = getattr(error, "orig", None)  # SQLAlchemy's errors have the driver's
    return isinstance(reason, sqlite3.OperationalError) and "locked" in str(reason)


def replay_body(body: bytes, receive: Receive) -> Receive:
    """Make a `receive` that gives this body first, then what the connection receives."""
    is_given = False

    async def receive_body() -> Message:
        nonlocal is_given
        if is_given:
            return await receive()
        is_given = True
        return {"type": "http.request", "body": body, "more_body": False}

    return receive_body


class ResponseRecorder:
    """Sends a response on, and keeps its status, and its body where that is short."""

    def __init__(self, send: Send) -> None:
        self.status = 500
        self._send = send
        self._content = bytearray()

    async def send(self, message: Message) -> None:
        """Record what Prefect's application sends, and pass it on."""
        if message["type"] == "http.response.start":
            self.status = message["status"]
        elif len(self._content) <= MAX_RECORDED:
            self._content += message.get("body", b"")
        await self._send(message)

    def json(self) -> Any:
        """Parse the response.

        Returns:
            None where it is no JSON, or longer than `MAX_RECORDED`.
        """
        try:
            return json.loads(self._content) if len(self._content) <= MAX_RECORDED else None
        except ValueError:
            return None


class ServerErrorGuard:
    """Sends a response on, but none of status 500; `failed` tells whether there was one."""

    def __init__(self, send: Send) -> None:
        self.failed = False
        self._send = send

    async def send(self, message: Message) -> None:
        """Pass on what Prefect's application sends, unless it is an answer with status 500."""
        if message["type"] == "http.response.start" and message["status"] == 500:
            self.failed = True
        if not self.failed:
            await self._send(message)


async def forward_and_rewrite(
    app: ASGIApp, scope: Scope, receive: Receive, send: Send, change: Callable[[Any], Any]
) -> None:
    """Pass a request on, and change the JSON of a response of status 200."""
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
