"""Clients that leave in the middle of a body are no error: nothing is done, nothing is answered."""

import logging
import socket
from urllib.parse import urlsplit

import httpx
import pytest

from tests.support.waits import eventually

ACCESS = "jobauto_prefect.access"


def hang_up(url: str, headers: dict[str, str], body: bytes) -> None:
    """Send the beginning of a POST whose body is said to be longer, and leave."""
    parts = urlsplit(url)
    lines = [f"POST {parts.path} HTTP/1.1", f"Host: {parts.netloc}"]
    lines += [f"{name}: {value}" for name, value in headers.items()]
    lines += ["Content-Type: application/json", f"Content-Length: {len(body) + 100}", "", ""]
    with socket.create_connection((str(parts.hostname), parts.port or 80), timeout=20) as peer:
        peer.sendall("\r\n".join(lines).encode() + body)


def test_who_hangs_up_leaves_one_debug_line_and_no_record(
    rest: httpx.Client, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG, ACCESS)
    url = str(rest.base_url).rstrip("/")
    token = {"Authorization": rest.headers["authorization"]}
    body = b'{"slug": "acme", "name": "Acme"}'
    for path in ("/company/", "/job/"):
        caplog.clear()
        hang_up(f"{url}{path}", token, body)
        eventually(lambda: [one for one in caplog.records if "hung up" in one.getMessage()])
        (line,) = [one for one in caplog.records if one.name in (ACCESS, "uvicorn.error")]
        assert line.levelno == logging.DEBUG
        assert line.exc_info is None
        assert not [one for one in caplog.records if one.levelno >= logging.WARNING]
    assert rest.get("/companies.json").json() == {}
