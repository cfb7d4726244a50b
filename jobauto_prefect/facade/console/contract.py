"""The console's own calls of the contract: in this process, with the visitor's credentials.

What a page shows and what its forms change goes through the contract's own routes, so that rights,
checks and audit are those of every other client.
"""

import asyncio
import base64
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from http import HTTPStatus
from typing import Annotated, Any
from urllib.parse import quote, urlencode

from fastapi import Depends, Request, Response
from starlette.concurrency import run_in_threadpool
from starlette.datastructures import MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from jobauto_prefect.console_addresses import CONTRACT
from jobauto_prefect.errors import JobautoError, TooManyRequests, Unauthorized
from jobauto_prefect.facade.auth.identity import CurrentUser, Identity
from jobauto_prefect.facade.auth.request_state import request_id_of
from jobauto_prefect.facade.auth.visitor_sessions import DOOR, SESSION, session_token
from jobauto_prefect.facade.concurrency import SLOT
from jobauto_prefect.facade.formats import View
from jobauto_prefect.facade.http.addresses import OWN_ADDRESS
from jobauto_prefect.facade.http.idempotency import HEADER as IDEMPOTENCY_KEY
from jobauto_prefect.facade.http.responses import VIEW_SINK
from jobauto_prefect.facade.kinds.registry import RESOURCES
from jobauto_prefect.facade.resources.lists import parse_selection
from jobauto_prefect.facade.service import Service
from jobauto_prefect.http_statuses import STATUS
from jobauto_prefect.ledger.queries import lists

PASSED_ON = ("user-agent", "host", "accept-language", "traceparent")
"""Headers of the visitor's request that the console's calls have, too."""

PASSWORD = "/your_password"  # noqa: S105 - a name
"""The control that takes the visitor's own password."""

WRONG_PASSWORD = (STATUS[Unauthorized], STATUS[TooManyRequests])

BY_COLLECTION = {resource.kind.collection: resource for resource in RESOURCES}


@dataclass(frozen=True, slots=True)
class InputError:
    """What is wrong with a field; `pointer` is its place in the body, "" for the whole of it."""

    pointer: str
    message: str


class ContractError(JobautoError):
    """The contract refused a call; `status` is that of its answer."""

    def __init__(self, status: int, message: str, errors: Sequence[InputError] = ()) -> None:
        super().__init__(message)
        self.status = status
        self.errors = errors

    @property
    def reason(self) -> str:
        """What is wrong with each field; of a call without fields, its message."""
        return "; ".join(error.message for error in self.errors) or str(self)


@dataclass(frozen=True, slots=True)
class _Answer:
    status: int
    body: bytes


class Contract:
    """The contract as the visitor of a page sees it."""

    def __init__(self, request: Request, who: Identity) -> None:
        self.who = who
        self._request = request
        self._app: ASGIApp = request.app

    async def read(self, path: str, query: Mapping[str, Any] | None = None) -> View:
        """Read what the contract's page at `/path` shows, with names, filters and paging.

        `query` fields that are None or "" are left out.

        Raises:
            ContractError: it is refused, or there is no such thing.
        """
        views: list[View] = []
        answer = await self._call("GET", f"{path}.html", query or {}, state={VIEW_SINK: views})
        if not views:
            raise ContractError(answer.status, HTTPStatus(answer.status).phrase)
        if answer.status >= 400:
            raise _error_of(answer.status, views[0].data)
        return views[0]

    async def fetch(self, path: str, query: Mapping[str, Any] | None = None) -> Any:
        """Read what the contract answers as JSON; `query` as `read` has it.

        Raises:
            ContractError: it is refused, or there is no such thing.
        """
        answer = await self._call("GET", path, query or {}, {"accept": "application/json"})
        data = json.loads(answer.body or b"null")
        if answer.status >= 400:
            raise _error_of(answer.status, data)
        return data

    async def names(
        self, collection: str, query: Mapping[str, Any] | None = None
    ) -> list[tuple[int, Any, str | None]]:
        """Read ids, names and companies of a list, however long, in the order of the names.

        A name is a text, or texts by their languages. The query of the list reads them, without
        what else its records say.

        Raises:
            InvalidInput: with every error of the query.
        """
        scope = self._scope("GET", f"/{collection}", query or {}, {}, 0, {})
        asked = Request({**scope, "address": OWN_ADDRESS, "app": self._app})
        resource = BY_COLLECTION[collection]
        selection = parse_selection(resource, asked, self.who)
        service: Service = self._request.app.state.service

        def read() -> list[tuple[int, Any, str | None]]:
            with service.ledger.reading() as session:
                return lists.names(session, resource.record, selection)

        return await run_in_threadpool(read)

    async def fetch_bytes(self, path: str) -> bytes:
        """Read a file of the contract.

        Raises:
            ContractError: it is refused, or there is no such thing.
        """
        answer = await self._call("GET", path, {})
        if answer.status >= 400:
            raise ContractError(answer.status, HTTPStatus(answer.status).phrase)
        return answer.body

    def pass_on(self, path: str, headers: Mapping[str, str] | None = None) -> Response:
        """Return an answer that is the contract's own, piece by piece, with these headers more."""
        return PassedOn(self._app, self._scope("GET", path, {}, {}, 0, {}), headers or {})

    async def write(
        self,
        method: str,
        path: str,
        body: Mapping[str, Any] | None = None,
        *,
        key: str = "",
        is_new: bool = False,
        password: str | None = None,
    ) -> Any:
        """Change something, and return what the contract answers; `key` is the Idempotency-Key.

        `is_new`: a record that is there already is not changed. `password` is the visitor's, for
        what a session does not do without; a wrong one is an error of the field `PASSWORD`.

        Raises:
            ContractError: it is refused; nothing has changed.
        """
        headers = {"accept": "application/json", "content-type": "application/json"}
        if key:
            headers[IDEMPOTENCY_KEY.lower()] = key
        if is_new:
            headers["if-none-match"] = "*"
        if password is not None:
            signed = base64.b64encode(f"{self.who.actor.name}:{password}".encode())
            headers["authorization"] = f"Basic {signed.decode()}"
        content = b"" if body is None else json.dumps(body).encode()
        answer = await self._call(method, path, {}, headers, content)
        data = json.loads(answer.body or b"null")
        if password is not None and answer.status in WRONG_PASSWORD:
            raise ContractError(400, "", [InputError(PASSWORD, data["message"])])
        if answer.status >= 400:
            raise _error_of(answer.status, data)
        return data

    async def _call(
        self,
        method: str,
        path: str,
        query: Mapping[str, Any],
        headers: Mapping[str, str] | None = None,
        content: bytes = b"",
        state: Mapping[str, Any] | None = None,
    ) -> _Answer:
        scope = self._scope(method, path, query, {**(headers or {})}, len(content), state or {})
        sent: list[Message] = []

        body = iter([{"type": "http.request", "body": content, "more_body": False}])

        async def receive() -> Message:
            for message in body:
                return message
            await asyncio.Event().wait()  # the visitor stays: whoever streams watches for that
            raise AssertionError

        async def send(message: Message) -> None:
            sent.append(message)

        await self._app(scope, receive, send)
        (status,) = (part["status"] for part in sent if part["type"] == "http.response.start")
        return _Answer(status, b"".join(part.get("body", b"") for part in sent))

    def _scope(
        self,
        method: str,
        path: str,
        query: Mapping[str, Any],
        headers: dict[str, str],
        length: int,
        state: Mapping[str, Any],
    ) -> Scope:
        outer = self._request.scope
        given = self._request.headers
        headers |= {name: given[name] for name in PASSED_ON if name in given}
        session = None if "authorization" in given else session_token(self._request)
        if "authorization" in given:
            headers.setdefault("authorization", given["authorization"])
        headers["x-request-id"] = request_id_of(self._request)
        headers["content-length"] = str(length)
        raw_path = quote(f"{CONTRACT}{path}", safe="/%")
        fields = {name: value for name, value in query.items() if value not in (None, "")}
        return {
            "type": "http",
            "asgi": outer["asgi"],
            "http_version": "1.1",
            "method": method,
            "scheme": outer["scheme"],
            "path": f"{CONTRACT}{path}",
            "raw_path": raw_path.encode(),
            "query_string": urlencode(fields).encode(),
            "root_path": "",
            "headers": [(name.encode(), text.encode("latin-1")) for name, text in headers.items()],
            "client": outer.get("client"),
            "server": outer.get("server"),
            "state": {"door": DOOR, SESSION: session, **self._slot(), **state},
        }

    def _slot(self) -> Mapping[str, Any]:
        """Return the place of the visitor's request: what it asks within itself takes no other."""
        state = self._request.scope["state"]
        return {SLOT: state[SLOT]} if SLOT in state else {}


async def current_contract(request: Request, who: CurrentUser) -> Contract:
    """Return the contract for the visitor of this request."""
    return Contract(request, who)


class PassedOn(Response):
    """An answer of the contract that is sent as it comes: files and logs may be long."""

    def __init__(self, app: ASGIApp, inner: Scope, more: Mapping[str, str]) -> None:
        super().__init__()
        self._app, self._inner, self._more = app, inner, more

    async def __call__(self, _scope: Scope, receive: Receive, send: Send) -> None:
        """Let the contract answer; it hears of a visitor who goes away."""

        async def sending(message: Message) -> None:
            if message["type"] == "http.response.start" and message["status"] < 400:
                MutableHeaders(scope=message).update(self._more)
            await send(message)

        await self._app(self._inner, receive, sending)


CurrentContract = Annotated[Contract, Depends(current_contract)]


def _words_of(error: Mapping[str, Any]) -> str:
    """Return what an error says; patterns are for programs, and hints say what they ask for."""
    if error.get("rule") == "string_pattern_mismatch":
        return "this is not written as it has to be"
    return str(error.get("message", ""))


def _error_of(status: int, body: Any) -> ContractError:
    body = body if isinstance(body, Mapping) else {}
    details = body.get("details")
    errors = [
        InputError(str(error.get("pointer", "")), _words_of(error))
        for error in (details if isinstance(details, list) else ())
        if isinstance(error, Mapping)
    ]
    return ContractError(status, str(body.get("message", "")), errors)
