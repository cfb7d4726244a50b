"""The client of Prefect's API before a server that answers as told."""

import asyncio
import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Literal
from uuid import uuid4

import pytest

from jobauto_prefect.clock import utc_now
from jobauto_prefect.engine import api as api_module
from jobauto_prefect.engine.api import PrefectApi, authorization, environment_authorization
from jobauto_prefect.engine.worker.dispatcher import waiting_runs
from jobauto_prefect.engine.worker.log_shipper import LogShipper
from jobauto_prefect.errors import (
    Conflict,
    Forbidden,
    JobautoError,
    NotFound,
    PrefectFailed,
    PrefectUnavailable,
    Unauthorized,
)
from jobauto_prefect.runtime.protocol import OutputLines

Answer = tuple[int, object]
BROKEN: Answer = (0, None)


class Scripted(ThreadingHTTPServer):
    """Gives its answers one after the other, then {"ok": true}; keeps what it was asked."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.answers: list[Answer] = []
        self.asked: list[tuple[str, str | None]] = []
        self.bodies: list[bytes] = []

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}/api"


class Handler(BaseHTTPRequestHandler):
    server: Scripted

    def answer(self) -> None:
        self.server.bodies.append(self.rfile.read(int(self.headers.get("Content-Length") or 0)))
        token = self.headers.get("Prefect-Csrf-Token")
        self.server.asked.append((self.path.removeprefix("/api"), token))
        status, body = self.server.answers.pop(0) if self.server.answers else (200, {"ok": True})
        if status == 0:
            self.close_connection = True
            return
        content = body if isinstance(body, bytes) else json.dumps(body).encode()
        self.send_response(status)
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    do_GET = do_POST = do_PATCH = answer  # noqa: N815 - the names of http.server

    def log_message(self, *_: object) -> None:
        """Nothing."""


@pytest.fixture
def server() -> Iterator[Scripted]:
    server = Scripted()
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    yield server
    server.shutdown()
    server.server_close()


async def test_a_busy_prefect_is_asked_again_until_it_answers(server: Scripted) -> None:
    server.answers = [(503, {"exception_message": "Service Unavailable"})] * 6
    async with PrefectApi(server.url) as api:
        assert await api.post("/flow_runs/1/set_state", {}) == {"ok": True}
    assert len(server.asked) == 7


async def test_a_connection_that_breaks_is_made_again_once(server: Scripted) -> None:
    server.answers = [BROKEN]
    async with PrefectApi(server.url) as api:
        assert await api.get("/flows/1") == {"ok": True}
        server.answers = [BROKEN, BROKEN]
        with pytest.raises(PrefectUnavailable, match="does not answer"):
            await api.get("/flows/1")


async def test_a_server_that_wants_a_csrf_token_gets_one(server: Scripted) -> None:
    server.answers = [(403, {"detail": "Missing CSRF token."}), (200, {"token": "t0k3n"})]
    async with PrefectApi(server.url) as api:
        assert await api.post("/flows/", {}) == {"ok": True}
        await api.post("/flows/", {})
    assert [token for path, token in server.asked if path == "/flows/"] == [None, "t0k3n", "t0k3n"]


@pytest.mark.parametrize(
    ("status", "body", "error", "message"),
    [
        (401, {}, Unauthorized, "PREFECT_API_AUTH_STRING"),
        (403, {"detail": "not yours"}, Forbidden, "not yours"),
        (404, {}, NotFound, "/flows/1"),
        (409, {"detail": "no such schedule"}, Conflict, "no such schedule"),
        (500, {}, PrefectFailed, r"/flows/1 \(500\); see the log of its server"),
        (502, {"exception_message": "Prefect failed on this"}, PrefectFailed, "502"),
        (200, b"<html>", PrefectUnavailable, "did not answer with JSON"),
    ],
)
async def test_what_prefect_refuses_is_said_in_our_words(
    server: Scripted, status: int, body: object, error: type[JobautoError], message: str
) -> None:
    server.answers = [(status, body)]
    async with PrefectApi(server.url) as api:
        with pytest.raises(error, match=message):
            await api.get("/flows/1")


@pytest.mark.parametrize("ready", [(503, {"message": "Database is not available"}), (500, {})])
async def test_a_prefect_whose_database_is_gone_is_away(server: Scripted, ready: Answer) -> None:
    server.answers = [(500, {}), ready, (500, {}), (200, {})]
    async with PrefectApi(server.url) as api:
        with pytest.raises(PrefectUnavailable):
            await api.get("/flows/1")
        with pytest.raises(PrefectFailed):
            await api.get("/flows/1")
    assert [path for path, _ in server.asked] == ["/flows/1", "/ready"] * 2


async def test_what_prefects_database_refuses_for_long_is_no_outage(
    server: Scripted, monkeypatch: pytest.MonkeyPatch
) -> None:
    """On PostgreSQL Prefect answers 503 whatever is wrong with a row."""
    monkeypatch.setattr(api_module, "BUSY_SECONDS", 0.0)
    refused: Answer = (503, {"exception_message": "Service Unavailable"})
    server.answers = [refused, refused, (200, {}), refused, refused, (503, {})]
    async with PrefectApi(server.url) as api:
        with pytest.raises(PrefectFailed):
            await api.get("/flows/1")
        with pytest.raises(PrefectUnavailable):
            await api.get("/flows/1")


async def test_a_prefect_that_fails_on_all_leaves_out_none(server: Scripted) -> None:
    server.answers = [(500, {}), (200, {})] * 500
    async with PrefectApi(server.url) as api:
        with pytest.raises(PrefectFailed):
            await api.find("flows", map(str, range(200)))
        with pytest.raises(PrefectFailed):
            [page async for page in api.pages("/flows/filter", {})]
    assert len(server.asked) < 250


async def test_an_explanation_does_not_repeat_the_values_that_were_sent(server: Scripted) -> None:
    faults = [{"loc": ["body", "name"], "msg": "too short"}]
    refusal = {"exception_detail": faults, "request_body": {"parameters": {"KEY": "s3cret"}}}
    server.answers = [(422, refusal)]
    async with PrefectApi(server.url) as api:
        with pytest.raises(Conflict, match=r"body\.name: too short") as caught:
            await api.post("/deployments/", {"parameters": {"KEY": "s3cret"}})
    assert "s3cret" not in str(caught.value)


def test_the_header_follows_prefects_own_variables() -> None:
    assert authorization(None) is None
    assert environment_authorization({"PREFECT_API_KEY": "k"}) == "Bearer k"
    both = {"PREFECT_API_AUTH_STRING": "eva:kůň", "PREFECT_API_KEY": "k"}
    assert environment_authorization(both) == "Basic ZXZhOmvFr8WI"


async def test_lines_wait_for_a_prefect_that_is_away_and_keep_their_order(
    server: Scripted,
) -> None:
    flow_run = uuid4()
    async with PrefectApi(server.url) as api:
        logs = LogShipper(api)
        for seq, text in enumerate(["one", "", "a\0b"], start=1):
            stream: Literal["stdout", "stderr"] = "stderr" if seq == 1 else "stdout"
            logs.add(flow_run, OutputLines(seq=seq, stream=stream, texts=[text], at=utc_now()))
        server.answers = [BROKEN, BROKEN]
        with pytest.raises(PrefectUnavailable):
            await logs.flush()
        server.bodies.clear()
        await logs.flush()
        await logs.flush()
    (body,) = server.bodies
    sent = [(line["level"], line["message"]) for line in json.loads(body)]
    assert sent == [(30, "one"), (20, " "), (20, "a\ufffdb")]


async def test_lines_of_a_run_that_is_forbidden_keep_none_of_others_back(
    server: Scripted, caplog: pytest.LogCaptureFixture
) -> None:
    """The gateway refuses what a batch has of a run that was deleted, and so the whole batch."""
    gone, others = uuid4(), [uuid4(), uuid4()]
    async with PrefectApi(server.url) as api:
        logs = LogShipper(api)
        for seq, run in enumerate([others[0], gone, others[1], gone, others[0]], start=1):
            logs.add(run, OutputLines(seq=seq, stream="stdout", texts=[str(seq)], at=utc_now()))
        server.answers = [(403, {}), (201, None), (403, {}), (403, {})]
        await logs.flush()
    sent = [[line["message"] for line in json.loads(body)] for body in server.bodies]
    assert sent == [["1", "2", "3", "4", "5"], ["1", "5"], ["2", "3", "4"], ["2", "4"], ["3"]]
    assert f"2 lines of flow run {gone}" in caplog.text


async def test_a_line_that_prefect_refuses_keeps_no_other_back(
    server: Scripted, caplog: pytest.LogCaptureFixture
) -> None:
    run = uuid4()
    async with PrefectApi(server.url) as api:
        logs = LogShipper(api)
        logs.add(run, OutputLines(seq=1, stream="stdout", texts=["a", "b", "c"], at=utc_now()))
        server.answers = [(422, {}), (201, None), (422, {}), (422, {})]
        await logs.flush()
    sent = [[line["message"] for line in json.loads(body)] for body in server.bodies]
    assert sent == [["a", "b", "c"], ["a"], ["b", "c"], ["b"], ["c"]]
    assert f"1 lines of flow run {run}" in caplog.text


async def test_a_run_that_can_not_be_read_keeps_no_other_waiting(
    server: Scripted, caplog: pytest.LogCaptureFixture
) -> None:
    now = utc_now().isoformat()
    runs: list[dict[str, object]] = [
        {"id": str(uuid4()), "run_count": 0, "next_scheduled_start_time": start}
        for start in (None, now)
    ]
    server.answers = [(200, [{"flow_run": run} for run in runs])]
    async with PrefectApi(server.url) as api:
        (read,) = await waiting_runs(api, "pool", (), utc_now(), 9)
    assert str(read.id) == runs[1]["id"]
    assert f"flow run {runs[0]['id']} is put aside" in caplog.text


async def test_what_is_asked_alike_at_once_is_asked_once(server: Scripted) -> None:
    pool, changed, new = (200, {"name": "pool"}), (200, {}), (200, {"name": "new"})
    server.answers = [pool, changed, (404, {"detail": "gone"}), new]
    async with PrefectApi(server.url) as prefect:
        answers = await asyncio.gather(*(prefect.get_shared("/work_pools/x") for _ in range(5)))
        assert answers == [{"name": "pool"}] * 5
        assert await prefect.get_shared("/work_pools/x") == {"name": "pool"}  # for a moment
        await prefect.patch("/work_pools/x", {})
        gone = await asyncio.gather(
            *(prefect.get_shared("/work_pools/x") for _ in range(3)), return_exceptions=True
        )
        assert [type(error) for error in gone] == [NotFound] * 3
        given_up = asyncio.create_task(prefect.get_shared("/work_pools/x"))
        other = asyncio.create_task(prefect.get_shared("/work_pools/x"))
        await asyncio.sleep(0)
        given_up.cancel()
        assert await other == {"name": "new"}
    assert len(server.asked) == 4
