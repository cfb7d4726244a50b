"""How requests may reach a service, whatever they ask for: an ASGI middleware for HTTP and sockets.

Plain HTTP is for this machine alone, other sites' pages change nothing, every request has an id,
and its answer the headers that keep browsers from doing harm. No query string is ever logged.
"""

import logging
import re
import time
import uuid
from collections.abc import Callable
from dataclasses import dataclass
from http import HTTPStatus
from typing import Any
from urllib.parse import quote

from starlette.datastructures import Headers, MutableHeaders
from starlette.requests import ClientDisconnect
from starlette.responses import JSONResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from jobauto_prefect.facade.auth.request_state import ANSWER_HEADERS
from jobauto_prefect.facade.middleware.proxies import ClientConnection, read_connection
from jobauto_prefect.logs import FIELDS, log_context, valid_traceparent
from jobauto_prefect.settings import Settings

SERVER = logging.getLogger("uvicorn.error")
"""The server's logger for what an application raises; Prefect filters it."""

ACCESS = logging.getLogger("jobauto_prefect.access")
REQUEST_ID = "X-Request-ID"
READING = frozenset({"GET", "HEAD", "OPTIONS", "TRACE"})
SECURITY_HEADERS = {
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "no-referrer",
}
ONLY_HTTPS = (
    "plain HTTP is answered only within this machine: use HTTPS; "
    "proxies have to be named in JOBAUTO_TRUSTED_PROXIES"
)
ROUTE = "route"
"""In a request's state: the template of its route, which routing has put there."""

RequestNote = Callable[[str, str | None, int | None, float], None]
"""Called after each request: method, route, status (None: the client disconnected), seconds."""

MAX_QUERY_FIELDS = 1_000
"""Queries are parsed in the event loop, even of unidentified clients."""

_SANE_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9._:-]{0,127}", re.ASCII)
_LONGEST_PATH = 300


@dataclass(frozen=True, slots=True)
class Refusal:
    """Why a request is refused."""

    status: int
    message: str


class TransportMiddleware:
    """Refuses requests by transport, before their credentials are checked.

    To be the outermost layer of an application, of the facade and of the Prefect gateway alike,
    under a server that leaves forwarding headers alone (`server_options`). A trusted proxy's
    client becomes the request's client. The id is in `scope["state"]["request_id"]`.
    """

    def __init__(self, app: ASGIApp, settings: Settings, note: RequestNote | None = None) -> None:
        self._app = app
        self._settings = settings
        self._note = note

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handle one request or socket; the application's lifespan is passed on."""
        if scope["type"] not in ("http", "websocket"):
            await self._app(scope, receive, send)
            return
        headers = Headers(scope=scope)
        arrival = read_connection(scope, headers, self._settings.trusted_proxies)
        given = headers.get(REQUEST_ID, "")
        request_id = given if _SANE_ID.fullmatch(given) else uuid.uuid4().hex
        scope = {
            **scope,
            "scheme": arrival.scheme,
            "client": arrival.client,
            "state": {**scope.get("state", {}), "request_id": request_id},
        }
        exchange = _Exchange(scope, headers, request_id, receive, send)
        with log_context(request_id, traceparent=valid_traceparent(headers.get("traceparent"))):
            try:
                await self._answer(scope, headers, arrival, exchange)
            finally:
                exchange.log(self._note)

    async def _answer(
        self, scope: Scope, headers: Headers, arrival: ClientConnection, exchange: "_Exchange"
    ) -> None:
        try:
            refusal = _refusal(scope, headers, arrival)
            if refusal is None:
                await self._app(scope, exchange.receive, exchange.send)
            else:
                await _refuse(refusal, scope, exchange)
        except ClientDisconnect:
            if not exchange.hung_up:
                raise
        except Exception:
            exchange.status = exchange.status or 500
            if not exchange.is_answered:
                raise
            # Otherwise the server would close the connection, and the client's next request would
            # fail.
            SERVER.exception("Exception in ASGI application")


class _Exchange:
    """One request and what is sent back.

    `hung_up`: the client disconnected in the middle of its body; nothing more is sent.
    `is_answered`: all of the answer has been sent.
    """

    def __init__(
        self, scope: Scope, headers: Headers, request_id: str, receive: Receive, send: Send
    ) -> None:
        self.request_id = request_id
        self.status: int | None = None
        self.hung_up = False
        self.is_answered = False
        self._scope = scope
        self._signed_in = "authorization" in headers
        length = headers.get("content-length", "0")
        self._unread = length != "0" or "transfer-encoding" in headers
        self._receive = receive
        self._send = send
        self._began = time.perf_counter()

    async def receive(self) -> Message:
        message = await self._receive()
        if message["type"] == "http.disconnect":
            self.hung_up = self._unread and self.status is None
        else:
            self._unread = self._unread and bool(message.get("more_body"))
        return message

    async def send(self, message: Message) -> None:
        if self.hung_up:
            return
        if message["type"] in ("http.response.start", "websocket.http.response.start"):
            self.status = message["status"]
            message = {**message, "headers": self._with_ours(message)}
        elif message["type"] == "websocket.accept":
            self.status = 101
        elif message["type"] == "websocket.close" and self.status is None:
            self.status = 403
        await self._send(message)
        if message["type"] == "http.response.body":
            self.is_answered = not message.get("more_body")

    def _with_ours(self, message: Message) -> list[tuple[bytes, bytes]]:
        headers = MutableHeaders(raw=list(message.get("headers", ())))
        for name, value in SECURITY_HEADERS.items():
            headers.setdefault(name, value)
        # A public file has an ETag and may be cached.
        if self._signed_in or "etag" not in headers:
            headers.setdefault("Cache-Control", "no-store")
        headers[REQUEST_ID] = self.request_id
        headers.update(self._scope["state"].get(ANSWER_HEADERS, {}))
        # The rest of a refused request is not read: the connection ends with the response.
        if self._unread and message["status"] >= 400:
            headers["Connection"] = "close"
        return headers.raw

    def log(self, note: RequestNote | None) -> None:
        seconds = time.perf_counter() - self._began
        method = self._scope.get("method", "WEBSOCKET")
        if note is not None:
            status = None if self.hung_up else self.status
            note(method, self._scope["state"].get(ROUTE), status, seconds)
        level = logging.DEBUG if self.hung_up else logging.INFO
        if not ACCESS.isEnabledFor(level):
            return
        # In ASCII, and what is no path is left out: it may have a password (`http://user:pw@host/`).
        asked = self._scope["path"].partition("?")[0][:_LONGEST_PATH]
        path = quote(asked) if asked.startswith("/") else "-"
        fields = {"method": method, "path": path, "status": self.status, "seconds": seconds}
        ACCESS.log(
            level,
            "%s %s %s %.1f ms %s",
            method,
            path,
            "hung up" if self.hung_up else self.status or "-",
            seconds * 1000,
            self.request_id,
            extra={FIELDS: fields},
        )


def _refusal(scope: Scope, headers: Headers, arrival: ClientConnection) -> Refusal | None:
    if not arrival.is_private:
        return Refusal(403, ONLY_HTTPS)
    if not scope["path"].startswith("/"):
        return Refusal(400, "the request target must be a path")
    if scope["query_string"].count(b"&") >= MAX_QUERY_FIELDS:
        return Refusal(400, f"the query has more than {MAX_QUERY_FIELDS} fields; send fewer")
    # Browsers open cross-site sockets without asking, and their messages may change anything.
    changes = scope["type"] == "websocket" or scope["method"] not in READING
    if changes and arrival.is_cross_site(headers):
        return Refusal(403, "pages of other sites may change nothing here")
    return None


async def _refuse(refusal: Refusal, scope: Scope, exchange: _Exchange) -> None:
    if scope["type"] == "websocket":
        await exchange.receive()  # the opening handshake
        if "websocket.http.response" not in scope.get("extensions", {}):
            await exchange.send({"type": "websocket.close", "code": 1008})
            return
    body: dict[str, Any] = {
        "error": HTTPStatus(refusal.status).phrase,
        "message": refusal.message,
        "request_id": exchange.request_id,
    }
    # The rest of the request is not read.
    answer = JSONResponse(body, status_code=refusal.status, headers={"Connection": "close"})
    await answer(scope, exchange.receive, exchange.send)
