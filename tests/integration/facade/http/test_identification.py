"""Before sign-in nothing of a request is read or judged: at the facade and before Prefect."""

import re
import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from jobauto_prefect.console_addresses import CONTRACT
from jobauto_prefect.facade.app import ALIAS, create_app
from jobauto_prefect.facade.compat.translation import PREFIXES
from jobauto_prefect.facade.gateway.asgi import create_middleware
from jobauto_prefect.facade.gateway.routes import OPEN_PATHS, ROUTES
from jobauto_prefect.facade.middleware.transport import TransportMiddleware
from jobauto_prefect.facade.openapi import document
from jobauto_prefect.facade.worker_api import router as internal
from jobauto_prefect.ledger.store import Ledger
from jobauto_prefect.settings import Settings
from tests.support.asgi_server import spoken
from tests.support.servers import client, user_token, worker_token

ADDRESSES = (CONTRACT, ALIAS, *PREFIXES)
BROKEN = b'{"broken": [NaN, \xff'
QUERY = b"limit=-1&limit=x&id=%00"

Request = tuple[str, str]
"""Method and path."""


class Refused:
    """Sends a request to an application; nobody may read its body."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(
        self, method: str, path: str, *, query: bytes = QUERY, **headers: str
    ) -> tuple[int, dict[str, str]]:
        """Status and headers of the answer."""
        given = {"host": "localhost", "content-length": str(len(BROKEN)), **headers}
        scope: Scope = {
            "type": "http",
            "asgi": {"version": "3.0"},
            "http_version": "1.1",
            "method": method,
            "scheme": "http",
            "path": path,
            "raw_path": path.encode(),
            "query_string": query,
            "root_path": "",
            "headers": [(name.encode(), value.encode()) for name, value in given.items()],
            "client": ("127.0.0.1", 5),
            "server": ("localhost", 80),
        }
        started: list[Message] = []

        async def receive() -> Message:
            pytest.fail(f"{method} {path}: the body is read")

        async def send(message: Message) -> None:
            if message["type"] == "http.response.start":
                started.append(message)

        await self._app(scope, receive, send)
        headers = started[0]["headers"]
        return started[0]["status"], {
            name.decode().lower(): value.decode() for name, value in headers
        }


@pytest.fixture
def refused(facade_settings: Settings, ledger: Ledger) -> Refused:
    return Refused(create_app(facade_settings, ledger))


def _filled(path: str, **values: str) -> str:
    """A path of the document with a value for each of its parameters."""
    return re.sub(r"\{(\w+)\}", lambda match: values.get(match[1], values["other"]), path)


def _operations() -> Iterator[Request]:
    for path, methods in document()["paths"].items():
        if re.match(r"/(ping|login)\b", path) is None:
            for method in methods:
                yield method.upper(), _filled(path, suffix="json", other="1")
                yield method.upper(), _filled(path, suffix="nonsense", other="x%00")
            yield "HEAD", _filled(path, suffix="html", other="1")
            yield "OPTIONS", _filled(path, suffix="json", other="1")


@pytest.mark.spec("4.5", "5.9", "7.2")
async def test_every_operation_in_every_dialect_is_401_before_its_body_is_read(
    refused: Refused,
) -> None:
    operations = list(_operations())
    assert len(operations) > 250
    for address in ADDRESSES:
        for method, path in operations:
            status, headers = await refused(method, f"{address}{path}")
            assert status == 401, (method, address, path)
            assert headers["connection"] == "close"
            assert "www-authenticate" in headers


async def test_workers_routes_and_pages_are_401_before_their_body_is_read(refused: Refused) -> None:
    paths = {_filled(getattr(route, "path", ""), other="1") for route in internal.routes}
    assert "/internal/v1/jobs/1/artifacts" in paths
    for path in (*paths, "/internal/v1/nothing", "/internal/", "/docs", "/", "/nothing", "/api"):
        for method in ("GET", "HEAD", "OPTIONS", "POST", "PUT", "DELETE", "STRANGE"):
            status, headers = await refused(method, path)
            assert (status, headers["connection"]) == (401, "close"), (method, path)


@pytest.mark.parametrize(
    "headers",
    [
        {"authorization": "Bearer nonsense"},
        {"authorization": "Basic bm9ib2R5Ong="},
        {"content-length": "999999999999999999999"},
        {"content-length": "many"},
        {"transfer-encoding": "chunked"},
    ],
    ids=["bad token", "bad password", "too large", "no number", "chunked"],
)
async def test_neither_bad_credentials_nor_a_bad_length_have_more_looked_at(
    refused: Refused, headers: dict[str, str]
) -> None:
    for path in (f"{CONTRACT}/app/", "/internal/v1/claims", "/nothing"):
        status, answered = await refused("POST", path, **headers)
        assert (status, answered["connection"]) == (401, "close")


def test_who_signed_in_is_told_what_is_wrong(facade_url: str, ledger: Ledger) -> None:
    port = int(facade_url.rpartition(":")[2])
    bearer = f"Authorization: Bearer {user_token(ledger)}"

    def asked(line: str, *more: str, body: bytes = b"") -> int:
        return spoken(port, f"{line} HTTP/1.1", "Host: localhost", bearer, *more, body=body)[0]

    length = f"Content-Length: {len(BROKEN)}"
    for address in ADDRESSES:
        assert asked(f"POST {address}/app/", length, body=BROKEN) == 400
        assert asked(f"GET {address}/nothing.json") == 404
        assert asked(f"POST {address}/apps.json") == 405
        assert asked(f"OPTIONS {address}/apps.json") == 405
        assert asked(f"HEAD {address}/apps.json") == 200
        assert asked(f"POST {address}/app/", "Content-Length: 99999999999") == 413
    assert asked("GET /nothing") == 404
    assert asked("POST /internal/v1/claims", "Content-Length: 99999999999") == 413


def test_ping_and_login_are_as_they_are(facade_url: str) -> None:
    for address in ADDRESSES:
        here = f"{facade_url}{address}"
        assert httpx.get(f"{here}/ping.json").json() == {"ping": "pong"}
        assert httpx.head(f"{here}/ping").status_code == 200
        assert httpx.delete(f"{here}/ping.json").status_code == 405
        assert httpx.get(f"{here}/ping.nonsense").status_code == 406
        assert httpx.post(f"{here}/login.json", content=BROKEN).status_code == 400
        assert httpx.post(f"{here}/login", json={}).status_code == 400
        large = b" " * (4 * 2**20 + 1)
        assert httpx.post(f"{here}/login", content=large).status_code == 413
        for beside in ("ping.json/x", "login/1.json", "pings.json", "ping.", "/ping.json"):
            assert httpx.get(f"{here}/{beside}").status_code == 401, beside


@pytest.mark.parametrize("expect", [("Expect: 100-continue",), ()])
def test_an_upload_of_nobody_is_answered_before_it_comes(
    facade_url: str, expect: tuple[str, ...]
) -> None:
    """None of the 33 MB are sent: an answer proves that nobody waits for them."""
    port = int(facade_url.rpartition(":")[2])
    for path in ("/internal/v1/jobs/1/artifacts", "/api/v1/app/"):
        lines = (f"PUT {path} HTTP/1.1", "Host: localhost", "Content-Length: 33000000", *expect)
        status, headers, _ = spoken(port, *lines)
        assert (status, headers["connection"]) == (401, "close")


def test_an_upload_of_nobody_that_comes_all_the_same_is_cut_off(facade_url: str) -> None:
    port = int(facade_url.rpartition(":")[2])
    head = "PUT /internal/v1/jobs/1/artifacts HTTP/1.1\r\nHost: localhost\r\n"
    sent, size = 0, 200 * 2**20
    with socket.create_connection(("127.0.0.1", port), timeout=20) as connection:
        connection.sendall(f"{head}Content-Length: {size}\r\n\r\n".encode())
        with pytest.raises(ConnectionError):
            while sent < size:
                sent += connection.send(b"x" * 65536)
    assert sent < size / 4  # what the buffers of two sockets take


def test_a_connection_is_kept_where_there_is_no_body_to_leave_unread(
    facade_url: str, ledger: Ledger
) -> None:
    assert "connection" not in httpx.get(f"{facade_url}/api/v1/apps.json").headers
    with client(f"{facade_url}/api/v1", user_token(ledger)) as http:
        refused = http.post("/company/", content=BROKEN)  # it was read
        assert (refused.status_code, "connection" in refused.headers) == (400, False)


def test_a_workers_token_is_known_before_its_body_is_read_and_opens_what_it_did(
    facade_url: str, ledger: Ledger
) -> None:
    with client(facade_url, worker_token(ledger, "jobauto")) as worker:
        assert worker.post("/internal/v1/claims", content=BROKEN).status_code == 400
        assert worker.get("/api/v1/apps.json").status_code == 403


async def test_nothing_is_read_of_who_may_open_no_such_route(
    refused: Refused, ledger: Ledger
) -> None:
    """A worker at a user's route, a user at a worker's, and a user without a role anywhere."""
    claims = {"/internal/v1/claims", "/internal/v1/jobs/1/artifacts", "/internal/v1/nothing"}
    contract = {f"{address}{path}" for address in ADDRESSES for _, path in _operations()}
    root, nobody = user_token(ledger), user_token(ledger, "nobody", ())
    worker = worker_token(ledger, "jobauto")
    for paths, token in ((contract, worker), (claims, root), (contract | claims, nobody)):
        for path in paths:
            status, _ = await refused("POST", path, authorization=f"Bearer {token}")
            assert status == 403, path


async def test_nobody_reads_a_definition_of_who_may_write_none(
    refused: Refused, ledger: Ledger
) -> None:
    """To judge one takes a second of work."""
    token = f"Bearer {user_token(ledger, 'eva', ['viewer', 'user'])}"
    for address in ADDRESSES:
        for path in ("/app/", "/app", "/app/1.json"):
            asked = refused("POST", f"{address}{path}", query=b"", authorization=token)
            assert (await asked)[0] == 403, path


class Unreached:
    """Stands where Prefect would: nothing may come here."""

    async def __call__(self, scope: Scope, _receive: Receive, _send: Send) -> None:
        pytest.fail(f"{scope['method']} {scope['path']} reaches Prefect")


@pytest.fixture
def refused_at_the_door(tmp_path: Path, facade_settings: Settings, ledger: Ledger) -> Refused:
    inner = create_middleware(facade_settings, ledger, Unreached(), "door:secret")
    return Refused(TransportMiddleware(inner, facade_settings))


async def test_every_route_of_prefect_is_401_before_its_body_is_read(
    refused_at_the_door: Refused,
) -> None:
    requests = {(route.method, f"/api{_filled(route.path, other='x')}") for route in ROUTES}
    requests -= {("GET", f"/api{path}") for path in OPEN_PATHS}
    requests |= {("POST", "/api/nothing"), ("POST", "/api"), ("OPTIONS", "/api/flows/filter")}
    requests |= {("POST", "/"), ("DELETE", "/runs"), ("OPTIONS", "/runs"), ("PUT", "/docs")}
    requests |= {("GET", "/docs"), ("HEAD", "/openapi.json"), ("POST", "/ui-settings")}
    assert len(requests) > 150
    for method, path in requests:
        for headers in ({}, {"content-length": "9" * 19}, {"authorization": "Bearer nonsense"}):
            status, answered = await refused_at_the_door(method, path, **headers)
            assert (status, answered["connection"]) == (401, "close"), (method, path, headers)


async def test_at_the_door_who_signed_in_is_told_what_is_wrong(
    refused_at_the_door: Refused, ledger: Ledger
) -> None:
    bearer: Any = {"authorization": f"Bearer {user_token(ledger)}"}
    assert (await refused_at_the_door("POST", "/runs", **bearer))[0] == 403
    assert (await refused_at_the_door("POST", "/api/nothing", **bearer))[0] == 403
    large = {**bearer, "content-length": "9" * 19}
    assert (await refused_at_the_door("POST", "/api/flows/filter", **large))[0] == 413
