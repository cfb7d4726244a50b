"""Clients that leave in the middle of a body are no error: nothing is done, nothing is answered."""

import logging

import httpx
import pytest

from tests.support.breakable import hang_up
from tests.support.waits import eventually

ACCESS = "jobauto_prefect.access"


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
