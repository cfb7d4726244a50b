"""In-process client of the contract: pages call its routes on behalf of the visitor.

Permissions, checks and audit are the same as for any other client. The visitor's request has passed
the layers in front of the routes (sign-in, limits, log, metrics) already: inner calls skip them.
"""

import asyncio
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from http import HTTPStatus
from typing import Annotated, Any
from urllib.parse import quote, urlencode

from anyio import to_thread
from fastapi import Depends, Request, Response
from starlette.concurrency import run_in_threadpool
from starlette.datastructures import MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from jobauto_prefect.console_addresses import CONTRACT
from jobauto_prefect.errors import JobautoError, TooLarge, TooManyRequests, Unauthorized
from jobauto_prefect.facade.auth.identity import CurrentUser, Identity, check_password
from jobauto_prefect.facade.auth.request_state import request_id_of
from jobauto_prefect.facade.auth.visitor_sessions import DOOR
from jobauto_prefect.facade.concurrency import SLOT
from jobauto_prefect.facade.formats import View
from jobauto_prefect.facade.http.addresses import OWN_ADDRESS, mapped
from jobauto_prefect.facade.http.body_sizes import body_limit
from jobauto_prefect.facade.http.idempotency import HEADER as IDEMPOTENCY_KEY
from jobauto_prefect.facade.http.responses import VIEW_SINK
from jobauto_prefect.facade.kinds.registry import RESOURCES
from jobauto_prefect.facade.resources.lists import parse_selection
from jobauto_prefect.facade.service import Service
from jobauto_prefect.http_statuses import STATUS
from jobauto_prefect.ledger.queries import lists

PASSED_ON = ("user-agent", "host", "accept-language")
"""Headers copied from the visitor's request to the console's calls."""

SHARED = ("app", "asgi", "client", "scheme", "server")
"""Members of the scope copied from the visitor's request to the console's calls."""

HANDLING = ("fastapi_middleware_astack", "starlette.exception_handlers")
"""Members of the scope that the layers in front of the routes set and the routes need."""

PASSWORD = "/your_password"  # noqa: S105 - a name
"""Pointer of the form field for the visitor's own password."""

BY_COLLECTION = {resource.kind.collection: resource for resource in RESOURCES}


@dataclass(frozen=True, slots=True)
class InputError:
    """An error in a field; `pointer` is its JSON pointer in the body, "" for the whole body."""

    pointer: str
    message: str


class ContractError(JobautoError):
    """The contract refused a call; `status` is the HTTP status of its answer."""

    def __init__(self, status: int, message: str, errors: Sequence[InputError] = ()) -> None:
        super().__init__(message)
        self.status = status
        self.errors = errors

    @property
    def reason(self) -> str:
        """The messages of all field errors; without any, the error's own message."""
        return "; ".join(error.message for error in self.errors) or str(self)


@dataclass(frozen=True, slots=True)
class _Answer:
    status: int
    body: bytes


class Contract:
    """The contract, called on behalf of a page's visitor."""

    def __init__(self, request: Request, who: Identity) -> None:
        self.who = _in_console(who)
        self._request = request
        self._routes: ASGIApp = request.app.router

    async def read(self, path: str, query: Mapping[str, Any] | None = None) -> View:
        """Read the view behind the contract's page at `/path`, with names, filters and paging.

        `query` fields that are None or "" are left out.

        Raises:
            ContractError: refused or not found.
        """
        views: list[View] = []
        answer = await self._call("GET", f"{path}.html", query or {}, state={VIEW_SINK: views})
        if not views:
            raise ContractError(answer.status, HTTPStatus(answer.status).phrase)
        if answer.status >= 400:
            raise _error_of(answer.status, views[0].data)
        return views[0]

    async def fetch(self, path: str, query: Mapping[str, Any] | None = None) -> Any:
        """Read the contract's JSON answer; `query` is as in `read`.

        Raises:
            ContractError: refused or not found.
        """
        answer = await self._call("GET", path, query or {}, {"accept": "application/json"})
        data = json.loads(answer.body or b"null")
        if answer.status >= 400:
            raise _error_of(answer.status, data)
        return data

    async def names(
        self, collection: str, query: Mapping[str, Any] | None = None
    ) -> list[tuple[int, Any, str | None]]:
        """Read id, name and company of all records of a list, ordered by name.

        A name is a text, or texts by language. One statement reads them, with the filters of the
        list but without its paging and its other columns.

        Raises:
            InvalidInput: with every error of the query.
        """
        asked = Request(self._scope("GET", f"/{collection}", query or {}))
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
            ContractError: refused or not found.
        """
        answer = await self._call("GET", path, {})
        if answer.status >= 400:
            raise ContractError(answer.status, HTTPStatus(answer.status).phrase)
        return answer.body

    def pass_on(self, path: str, headers: Mapping[str, str] | None = None) -> Response:
        """Return a response that streams the contract's answer, with additional headers."""
        return PassedOn(self._routes, self._scope("GET", path, {}), headers or {})

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
        """Send a change and return the contract's answer; `key` is the Idempotency-Key.

        `is_new`: an existing record is not changed. `password` is the visitor's own, for changes
        that a session alone does not authorize; a wrong one is an error at `PASSWORD`.

        Raises:
            ContractError: refused; nothing has changed.
        """
        headers = {"accept": "application/json", "content-type": "application/json"}
        if key:
            headers[IDEMPOTENCY_KEY.lower()] = key
        if is_new:
            headers["if-none-match"] = "*"
        who = self.who if password is None else await self._with_password(password)
        content = b"" if body is None else json.dumps(body).encode()
        answer = await self._call(method, path, {}, headers, content, {"identity": who})
        data = json.loads(answer.body or b"null")
        if answer.status >= 400:
            raise _error_of(answer.status, data)
        return data

    async def _with_password(self, password: str) -> Identity:
        service: Service = self._request.app.state.service
        try:
            found = await to_thread.run_sync(
                check_password, service, self._request, self.who.actor.name, password,
                limiter=service.comparing_threads,
            )  # fmt: skip
        except (Unauthorized, TooManyRequests) as error:
            raise ContractError(400, "", [InputError(PASSWORD, str(error))]) from None
        return _in_console(found)

    async def _call(
        self,
        method: str,
        path: str,
        query: Mapping[str, Any],
        headers: Mapping[str, str] = {},
        content: bytes = b"",
        state: Mapping[str, Any] = {},
    ) -> _Answer:
        scope = self._scope(method, path, query, headers, state)
        limit = body_limit(scope["path"], self._request.app.state.service.settings)
        if len(content) > limit:
            raise ContractError(STATUS[TooLarge], str(TooLarge(limit)))
        sent: list[Message] = []

        body = iter([{"type": "http.request", "body": content, "more_body": False}])

        async def receive() -> Message:
            for message in body:
                return message
            await asyncio.Event().wait()  # no disconnect: streaming answers wait for one
            raise AssertionError

        async def send(message: Message) -> None:
            sent.append(message)

        await self._routes(scope, receive, send)
        (status,) = (part["status"] for part in sent if part["type"] == "http.response.start")
        return _Answer(status, b"".join(part.get("body", b"") for part in sent))

    def _scope(
        self,
        method: str,
        path: str,
        query: Mapping[str, Any],
        headers: Mapping[str, str] = {},
        state: Mapping[str, Any] = {},
    ) -> Scope:
        outer = self._request.scope
        given = self._request.headers
        passed_on = {name: given[name] for name in PASSED_ON if name in given}
        fields = {name: value for name, value in query.items() if value not in (None, "")}
        shared: Mapping[str, Any] = {
            "identity": self.who,
            "request_id": request_id_of(self._request),
            "door": DOOR,
        }
        # A request that follows an output gives up its slot, which is the visitor's.
        slot = {SLOT: outer["state"][SLOT]} if SLOT in outer["state"] else {}
        scope = {
            **{name: outer[name] for name in (*SHARED, *HANDLING) if name in outer},
            "type": "http",
            "http_version": "1.1",
            "method": method,
            "path": f"{CONTRACT}{path}",
            "raw_path": quote(f"{CONTRACT}{path}", safe="/%").encode(),
            "query_string": urlencode(fields).encode(),
            "root_path": "",
            "headers": [
                (name.encode(), text.encode("latin-1"))
                for name, text in {**passed_on, **headers}.items()
            ],
            "state": {**shared, **slot, **state},
        }
        return mapped(scope, OWN_ADDRESS)


def _in_console(who: Identity) -> Identity:
    return replace(who, actor=replace(who.actor, door=DOOR))


async def current_contract(request: Request, who: CurrentUser) -> Contract:
    """Return the contract for the visitor of this request."""
    return Contract(request, who)


class PassedOn(Response):
    """An answer of the contract that is streamed: files and logs may be long."""

    def __init__(self, routes: ASGIApp, call: Scope, more: Mapping[str, str]) -> None:
        super().__init__()
        self._routes, self._call, self._more = routes, call, more

    async def __call__(self, _scope: Scope, receive: Receive, send: Send) -> None:
        """Call the contract; the visitor's disconnect reaches it."""

        async def sending(message: Message) -> None:
            if message["type"] == "http.response.start" and message["status"] < 400:
                MutableHeaders(scope=message).update(self._more)
            await send(message)

        await self._routes(self._call, receive, sending)


CurrentContract = Annotated[Contract, Depends(current_contract)]


def _error_of(status: int, body: Any) -> ContractError:
    body = body if isinstance(body, Mapping) else {}
    details = body.get("details")
    errors = [
        InputError(str(error.get("pointer", "")), str(error.get("message", "")))
        for error in (details if isinstance(details, list) else ())
        if isinstance(error, Mapping)
    ]
    return ContractError(status, str(body.get("message", "")), errors)
