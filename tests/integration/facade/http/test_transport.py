"""Requests over real sockets: forged, malformed, from other sites; and over TLS."""

import base64
import http.client
import json
import logging
import re
import ssl
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest
import websockets
from starlette.responses import JSONResponse
from starlette.types import Receive, Scope, Send
from websockets.sync.client import connect

from jobauto_prefect.errors import InvalidInput
from jobauto_prefect.facade.middleware.transport import TransportMiddleware
from jobauto_prefect.facade.server_options import server_options, tls_options
from jobauto_prefect.settings import Settings
from tests.support.asgi_server import mirror, serving, spoken
from tests.support.certificates import self_made


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    return Settings(home=tmp_path)


@pytest.fixture
def port(settings: Settings) -> Iterator[int]:
    with serving(TransportMiddleware(mirror, settings), settings) as listening:
        yield listening


@pytest.fixture
def proxied(settings: Settings) -> Iterator[int]:
    """The port of a server whose peers on this machine are trusted proxies."""
    trusting = Settings(home=settings.home, trusted_proxies="127.0.0.0/8")  # type: ignore[arg-type]
    with serving(TransportMiddleware(mirror, trusting), trusting) as listening:
        yield listening


def _told(body: bytes) -> dict[str, str]:
    told: dict[str, str] = json.loads(body)
    return told


def test_a_request_of_this_machine_is_answered_with_the_headers_that_protect(port: int) -> None:
    status, headers, body = spoken(port, "GET /x HTTP/1.1", f"Host: localhost:{port}")
    assert (status, _told(body)["path"]) == (200, "/x")
    assert headers["x-content-type-options"] == "nosniff"
    assert headers["referrer-policy"] == "no-referrer"
    assert headers["x-frame-options"] == "DENY"
    assert headers["cache-control"] == "no-store"
    assert headers["x-request-id"] == _told(body)["request_id"]
    assert "server" not in headers


def test_a_file_for_everyone_may_be_kept_what_someone_signed_in_for_may_not(port: int) -> None:
    _, headers, _ = spoken(port, "GET /static HTTP/1.1", "Host: localhost")
    assert "cache-control" not in headers
    assert headers["x-frame-options"] == "SAMEORIGIN"
    _, headers, _ = spoken(port, "GET /static HTTP/1.1", "Host: localhost", "Authorization: x")
    assert headers["cache-control"] == "no-store"


@pytest.mark.spec("5.8")
@pytest.mark.parametrize(
    "forged",
    [
        ("Host: jobauto.example",),
        ("Host: localhost.evil.example",),
        ("Host: 127.0.0.1", "X-Forwarded-Proto: https"),
        ("Host: 127.0.0.1", "X-Forwarded-For: 127.0.0.1", "X-Forwarded-Proto: https"),
        ("Host: localhost", "x-real-ip: 127.0.0.1"),
        ("Host: localhost", "Forwarded: for=127.0.0.1;proto=https;host=localhost"),
        ("Host: localhost", "Via: 1.1 proxy"),
    ],
)
def test_forged_hosts_and_forwarding_headers_are_403_before_credentials_are_looked_at(
    port: int, forged: tuple[str, ...]
) -> None:
    status, headers, body = spoken(port, "GET /x HTTP/1.1", *forged, "Authorization: Bearer bad")
    assert status == 403
    assert "location" not in headers
    assert "www-authenticate" not in headers
    told = _told(body)
    assert set(told) == {"error", "message", "request_id"}
    assert told["error"] == "Forbidden"
    assert told["request_id"] == headers["x-request-id"]
    assert headers["cache-control"] == "no-store"


@pytest.mark.parametrize(
    "lines",
    [
        ("GET /x HTTP/1.1",),
        ("GET /x HTTP/1.0",),
        ("GET /x HTTP/1.1", "Host: localhost", "Host: evil.example"),
        ("GET /x HTTP/1.1", "Host: localhost", "Host: localhost"),
        ("GET http://user:secret@localhost/x HTTP/1.1", "Host: localhost"),
        ("GET http://evil.example/x HTTP/1.1", "Host: localhost"),
        ("OPTIONS * HTTP/1.1", "Host: localhost"),
        ("CONNECT localhost:80 HTTP/1.1", "Host: localhost"),
        ("GET x HTTP/1.1", "Host: localhost"),
        ("GET /x HTTP/11", "Host: localhost"),
        ("GET  /x  HTTP/1.1", "Host: localhost"),
        ("G\x00T /x HTTP/1.1", "Host: localhost"),
        ("GET /x HTTP/1.1", "Host: localhost", "Bad Header: 1"),
        ("GET /x HTTP/1.1", "Host: localhost", " folded"),
        ("GET /x HTTP/1.1", "Host: localhost", "X: a\x00b"),
        ("POST /x HTTP/1.1", "Host: localhost", "Content-Length: -1"),
        ("POST /x HTTP/1.1", "Host: localhost", "Content-Length: 1e3"),
        ("POST /x HTTP/1.1", "Host: localhost", "Content-Length: 1", "Content-Length: 2"),
        ("POST /x HTTP/1.1", "Host: localhost", "Transfer-Encoding: gzip"),
    ],
)
def test_malformed_requests_are_refused_and_the_next_one_is_answered(
    port: int, lines: tuple[str, ...]
) -> None:
    status, _, body = spoken(port, *lines)
    assert status in (400, 403, 501)
    assert b"secret" not in body
    assert b"Traceback" not in body
    assert spoken(port, "GET /x HTTP/1.1", "Host: localhost")[0] == 200


async def test_a_command_in_the_same_process_passes(settings: Settings) -> None:
    async def ask(peer: str, url: str) -> int:
        transport = httpx.ASGITransport(TransportMiddleware(mirror, settings), client=(peer, 1))
        async with httpx.AsyncClient(transport=transport, base_url=url) as client:
            return (await client.post("/x", json={})).status_code

    assert await ask("127.0.0.1", "http://localhost") == 200
    assert await ask("192.0.2.7", "http://localhost") == 403
    assert await ask("192.0.2.7", "https://jobauto.example") == 200


def test_a_trusted_proxy_speaks_for_its_client(proxied: int) -> None:
    lines = ("GET /x HTTP/1.1", "Host: jobauto.example", "X-Forwarded-For: 192.0.2.1, 192.0.2.99")
    status, _, body = spoken(proxied, *lines, "X-Forwarded-Proto: https")
    told = _told(body)
    assert (status, told["scheme"], told["client"]) == (200, "https", "192.0.2.99")
    assert spoken(proxied, *lines, "X-Forwarded-Proto: http")[0] == 403
    assert spoken(proxied, *lines)[0] == 403
    assert spoken(proxied, "GET /x HTTP/1.1", "Host: localhost")[0] == 200


@pytest.mark.parametrize("method", ["POST", "PUT", "PATCH", "DELETE", "STRANGE"])
@pytest.mark.parametrize(
    "line",
    [
        "Sec-Fetch-Site: cross-site",
        "Origin: http://evil.example",
        "Origin: null",
        "Origin: http://localhost:1",
    ],
)
def test_pages_of_other_sites_change_nothing(port: int, method: str, line: str) -> None:
    request = (f"{method} /x HTTP/1.1", f"Host: localhost:{port}")
    status, headers, _ = spoken(port, *request, line)
    assert status == 403
    assert not [name for name in headers if name.startswith("access-control-")]
    assert spoken(port, *request, f"Origin: http://localhost:{port}")[0] == 200


def test_pages_of_other_sites_may_lead_here_but_are_not_told_more(port: int) -> None:
    lines = ("Host: localhost", "Origin: http://evil.example", "Sec-Fetch-Site: cross-site")
    status, headers, _ = spoken(port, "GET /x HTTP/1.1", *lines)
    assert status == 200
    assert not [name for name in headers if name.startswith("access-control-")]


def test_a_refused_body_that_is_not_read_ends_the_connection(port: int) -> None:
    lines = ("POST /x HTTP/1.1", "Host: evil.example", "Content-Length: 1000000")
    status, headers, _ = spoken(port, *lines)
    assert (status, headers["connection"]) == (403, "close")


def test_a_failed_request_leaves_the_connection_to_the_next_one(settings: Settings) -> None:
    async def fail(scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http" and scope["path"] == "/fails":
            await JSONResponse({}, status_code=500)(scope, receive, send)
            raise RuntimeError("broken on purpose")  # as frameworks do, for the server's log
        await mirror(scope, receive, send)

    with serving(TransportMiddleware(fail, settings), settings) as port:
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
        statuses = []
        for path in ("/fails", "/x", "/fails", "/x"):
            connection.request("GET", path)
            answer = connection.getresponse()
            answer.read()
            statuses.append(answer.status)
        connection.close()
    assert statuses == [500, 200, 500, 200]


@pytest.mark.parametrize("given", ["abc-123", "a" * 128, "req_1.2:3"])
def test_a_sane_request_id_is_kept(port: int, given: str) -> None:
    _, headers, body = spoken(port, "GET /x HTTP/1.1", "Host: localhost", f"X-Request-ID: {given}")
    assert headers["x-request-id"] == _told(body)["request_id"] == given


@pytest.mark.parametrize("given", ["", "a" * 129, "a b", "<script>", "-a", "\xe9", "a,b"])
def test_another_request_id_is_replaced(port: int, given: str) -> None:
    _, headers, body = spoken(port, "GET /x HTTP/1.1", "Host: localhost", f"X-Request-ID: {given}")
    assert re.fullmatch("[0-9a-f]{32}", headers["x-request-id"])
    assert headers["x-request-id"] == _told(body)["request_id"]


def test_one_line_is_logged_per_request_and_never_a_query(
    port: int, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    host = "Host: localhost"
    spoken(port, "POST /login.json?password=s3cret HTTP/1.1", host, "X-Request-ID: id-1")
    spoken(port, "GET /a%0Ab%20%C3%A9%3Fpassword=s3cret HTTP/1.1", host, "X-Request-ID: id-2")
    spoken(port, "GET http://u:s3cret@localhost/ HTTP/1.1", host, "X-Request-ID: id-3")
    spoken(port, "GET /x?password=s3cret HTTP/1.1", "Host: evil", "X-Request-ID: id-4")
    spoken(port, "GET /broken?password=s3cret HTTP/1.1", host, "X-Request-ID: id-5")
    with connect(f"ws://localhost:{port}/s?password=s3cret") as socket:
        socket.recv()
    lines = [
        record.getMessage() for record in caplog.records if record.name == "jobauto_prefect.access"
    ]
    shapes = [re.sub(r"[\d.]+ ms", "# ms", line) for line in lines[:5]]
    assert shapes == [
        "POST /login.json 200 # ms id-1",
        "GET /a%0Ab%20%C3%A9 200 # ms id-2",
        "GET - 400 # ms id-3",
        "GET /x 403 # ms id-4",
        "GET /broken 500 # ms id-5",
    ]
    assert lines[5].startswith("WEBSOCKET /s 101 ")
    assert len(lines) == 6
    ours = [record for record in caplog.records if not record.name.startswith("websockets.client")]
    assert "s3cret" not in "".join(record.getMessage() for record in ours)


def test_a_socket_within_this_machine_is_opened(port: int) -> None:
    with connect(f"ws://localhost:{port}/s") as socket:
        told = json.loads(socket.recv())
    assert (told["scheme"], told["client"]) == ("ws", "127.0.0.1")
    with connect(f"ws://localhost:{port}/s", origin=f"http://localhost:{port}") as socket:  # type: ignore[arg-type]
        assert socket.recv()


@pytest.mark.parametrize(
    ("headers", "origin"),
    [
        ({"X-Forwarded-Proto": "https"}, None),
        ({"Sec-Fetch-Site": "cross-site"}, None),
        ({}, "http://evil.example"),
        ({}, "null"),
    ],
)
def test_a_socket_obeys_the_same_rules(
    port: int, headers: dict[str, str], origin: str | None
) -> None:
    with pytest.raises(websockets.InvalidStatus) as caught:
        connect(f"ws://localhost:{port}/s", additional_headers=headers, origin=origin)  # type: ignore[arg-type]
    answer = caught.value.response
    assert answer.status_code == 403
    assert json.loads(answer.body)["request_id"] == answer.headers["X-Request-ID"]


@pytest.fixture
def encrypted(settings: Settings) -> Settings:
    certificate, key = self_made(settings.home, "jobauto.example")
    return settings.model_copy(update={"tls_cert": certificate, "tls_key": key})


async def test_tls_is_served_directly_to_any_name(encrypted: Settings) -> None:
    context = ssl.create_default_context(cafile=str(encrypted.tls_cert))
    context.check_hostname = False  # it is not made for this machine's address
    with serving(TransportMiddleware(mirror, encrypted), encrypted) as port:
        async with httpx.AsyncClient(verify=context) as client:
            answer = await client.post(
                f"https://127.0.0.1:{port}/x",
                headers={"Host": "jobauto.example", "Origin": "https://jobauto.example"},
            )
            assert (answer.status_code, answer.json()["scheme"]) == (200, "https")
            with pytest.raises(httpx.TransportError):
                await client.get(f"http://127.0.0.1:{port}/x")
        # Not the client with a thread of its own: OpenSSL takes no reader beside a writer.
        async with websockets.connect(f"wss://127.0.0.1:{port}/s", ssl=context) as socket:
            assert json.loads(await socket.recv())["scheme"] == "wss"


def test_without_tls_settings_the_server_speaks_plain_http(settings: Settings) -> None:
    assert tls_options(settings) == {}
    assert server_options(settings)["proxy_headers"] is False


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"tls_key": None}, "JOBAUTO_TLS_KEY must be given"),
        ({"tls_cert": None}, "JOBAUTO_TLS_CERT must be given"),
        ({"tls_cert": Path("/nowhere/cert.pem")}, "/nowhere/cert.pem can't be read: No such file"),
        ({"tls_key": Path("/")}, "can't be read: Is a directory"),
    ],
)
def test_tls_files_that_are_not_there_are_named(
    encrypted: Settings, change: dict[str, Path | None], message: str
) -> None:
    with pytest.raises(InvalidInput, match=message):
        tls_options(encrypted.model_copy(update=change))


@pytest.mark.parametrize("wrong", ["other", "rubbish", "encrypted"])
def test_a_key_that_does_not_fit_is_told_and_never_shown(
    encrypted: Settings, tmp_path: Path, wrong: str
) -> None:
    other = tmp_path / "other"
    other.mkdir()
    _, key = self_made(other, "x", password=b"pw" if wrong == "encrypted" else None)
    if wrong == "rubbish":
        key.write_text("no key at all")
    with pytest.raises(InvalidInput, match="can't be used together") as caught:
        tls_options(encrypted.model_copy(update={"tls_key": key}))
    inside = base64.b64encode(key.read_bytes()).decode()
    assert inside[:40] not in str(caught.value)
