"""Passing a request on to Prefect's application, as Prefect's own administrator."""

import json
from collections.abc import Callable
from typing import Any
from urllib.parse import parse_qsl

from starlette.requests import ClientDisconnect
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from jobauto_prefect.errors import Fault, InvalidInput, TooLarge
from jobauto_prefect.facade.requests import read_json, refuse_constant

KEPT_ANSWER = 256 * 1024
"""Bytes of an answer that are looked at; longer ones pass unseen."""

NEVER = frozenset({b"authorization", b"origin"})
"""Headers that are not passed on: Prefect answers every origin alike."""


def passed(
    scope: Scope, authorization: str | None, length: int | None = None, *, plain: bool = False
) -> Scope:
    """The scope Prefect sees: signed in by us, or by nobody (None).

    `length` is that of a body we wrote anew; `plain`: the answer is not to be compressed.
    """
    dropped = {*NEVER, b"accept-encoding"} if plain else {*NEVER}
    if length is not None:
        dropped |= {b"content-length", b"content-type", b"transfer-encoding"}
    headers = [pair for pair in scope["headers"] if pair[0] not in dropped]
    if authorization is not None:
        headers.append((b"authorization", authorization.encode()))
    if length is not None:
        headers.append((b"content-length", str(length).encode()))
        headers.append((b"content-type", b"application/json"))
    return {**scope, "headers": headers}


async def read_body(receive: Receive, limit: int) -> bytes:
    """The whole body.

    Raises:
        TooLarge: it has more than `limit` bytes.
        ClientDisconnect: the client hung up before its end.
    """
    content = bytearray()
    while True:
        message = await receive()
        if message["type"] == "http.disconnect":
            raise ClientDisconnect
        content += message.get("body", b"")
        if len(content) > limit:
            raise TooLarge(limit)
        if not message.get("more_body"):
            return bytes(content)


def parsed(raw: bytes, *, of_worker: bool) -> Any:
    """The JSON of a body; None where there is none.

    A worker's log lines and artifacts may hold characters that no request of a person may.

    Raises:
        InvalidInput: it is no JSON, or nothing that can be kept (`read_json`).
    """
    if not raw.strip():
        return None
    if not of_worker:
        return read_json(raw)
    try:
        return json.loads(raw, parse_constant=refuse_constant)
    except (ValueError, RecursionError):
        raise InvalidInput([Fault("", "syntax", "the body is no JSON")]) from None


def told(body: Any) -> bytes:
    """A body for Prefect; what was looked at is what Prefect reads.

    Raises:
        InvalidInput: it has a number that JSON does not have.
    """
    try:
        return b"" if body is None else json.dumps(body, allow_nan=False).encode()
    except ValueError:
        raise InvalidInput([Fault("", "number", "the body has an infinite number")]) from None


def query_of(scope: Scope) -> dict[str, str]:
    """What the query says; of several values the last, as Prefect reads it."""
    return dict(parse_qsl(scope.get("query_string", b"").decode("latin-1"), keep_blank_values=True))


def instead(body: bytes, receive: Receive) -> Receive:
    """A receive that gives this body first, then whatever the connection says."""
    given = False

    async def once() -> Message:
        nonlocal given
        if given:
            return await receive()
        given = True
        return {"type": "http.request", "body": body, "more_body": False}

    return once


class Watched:
    """Sends an answer on and keeps its status, and its JSON where that is short."""

    def __init__(self, send: Send) -> None:
        self.status = 500
        self._send = send
        self._content = bytearray()

    async def send(self, message: Message) -> None:
        """For the application."""
        if message["type"] == "http.response.start":
            self.status = message["status"]
        elif len(self._content) <= KEPT_ANSWER:
            self._content += message.get("body", b"")
        await self._send(message)

    def json(self) -> Any:
        """The answer; None where it is none, or too long."""
        try:
            return json.loads(self._content) if len(self._content) <= KEPT_ANSWER else None
        except ValueError:
            return None


class Faultless:
    """Sends an answer on, but none of status 500; `failed` says that there was one."""

    def __init__(self, send: Send) -> None:
        self.failed = False
        self._send = send

    async def send(self, message: Message) -> None:
        """For the application."""
        if message["type"] == "http.response.start" and message["status"] == 500:
            self.failed = True
        if not self.failed:
            await self._send(message)


async def rewritten(
    app: ASGIApp, scope: Scope, receive: Receive, send: Send, change: Callable[[Any], Any]
) -> None:
    """Pass on, and change the JSON of a good answer."""
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
