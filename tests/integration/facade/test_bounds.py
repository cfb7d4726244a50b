"""What one request, and one person, may take: tried on each route, and what others notice of it."""

import contextlib
import json
import re
import socket
import sys
import threading
from collections.abc import Callable
from datetime import timedelta
from typing import Any
from urllib.parse import urlsplit
from uuid import uuid4

import httpx
import pytest
from sqlalchemy import insert
from starlette.responses import JSONResponse
from starlette.types import Receive, Scope, Send

from jobauto_prefect.definitions.storable import MAX_VALUES
from jobauto_prefect.facade.app import create_app
from jobauto_prefect.facade.auth import passwords
from jobauto_prefect.facade.bounds import facade_bounds, gateway_bounds, table
from jobauto_prefect.facade.concurrency import (
    LONG_THREADS,
    MAX_CONCURRENT,
    MAX_WAITING,
    STRANGERS_CONCURRENT,
    SWITCH_SECONDS,
    WORKERS_CONCURRENT,
)
from jobauto_prefect.facade.console.records import forms
from jobauto_prefect.facade.console.records.forms import MAX_FIELDS
from jobauto_prefect.facade.gateway.asgi import create_middleware
from jobauto_prefect.facade.gateway.middleware import MAX_MEMBERS_BYTES
from jobauto_prefect.facade.http import responses
from jobauto_prefect.facade.http.body_sizes import INTERNAL_BYTES, SIGN_IN_BYTES
from jobauto_prefect.facade.http.requests import MAX_MEMBERS
from jobauto_prefect.facade.middleware.transport import MAX_QUERY_FIELDS, TransportMiddleware
from jobauto_prefect.facade.resources import job_output
from jobauto_prefect.facade.resources.forecasts import MAX_NAMED
from jobauto_prefect.facade.service import MAX_FOLLOWED, OUTPUT_THREADS
from jobauto_prefect.ledger.audit.trail import SERVICE
from jobauto_prefect.ledger.records import AuditEntry, OutputLine
from jobauto_prefect.ledger.store import Ledger
from jobauto_prefect.runtime.protocol import MESSAGE_LENGTH
from jobauto_prefect.settings import Settings
from tests.support.asgi_server import serving
from tests.support.claims import granted, own_run_of, report
from tests.support.console import PASSWORD, add_user
from tests.support.databases import on_sqlite
from tests.support.gateway import basic
from tests.support.job_records import JobRecords, make_job_template
from tests.support.ledger_rows import fetch_all
from tests.support.records import post
from tests.support.servers import client, status_of_endless, user_token, worker_token
from tests.support.waits import eventually

pytestmark = on_sqlite


@pytest.fixture
def facade_settings(facade_settings: Settings) -> Settings:
    """The bounds that are settings are small, so that all routes are tried soon."""
    small = {"body_limit_bytes": 200_000, "apply_limit_bytes": 100_000}
    return facade_settings.model_copy(update=small | {"artifact_limit_bytes": 80_000})


FACADE = ("workers", "contract", "console")


def sign_in(ledger: Ledger) -> Callable[[str], dict[str, str]]:
    """What signs in at a path: a worker's token, or a super_admin's password."""
    add_user(ledger, "root", "super_admin")
    worker = {"Authorization": f"Bearer {worker_token(ledger, 'jobauto')}"}
    person = basic(f"root:{PASSWORD}")
    return lambda path: worker if path.startswith("/internal/") else person


def test_every_route_that_is_served_is_in_the_table(
    facade_settings: Settings, ledger: Ledger
) -> None:
    app = create_app(facade_settings, ledger)
    served = {(row.method, row.path) for row in facade_bounds(app.routes, facade_settings)}
    listed = {(row.method, row.path) for row in table(facade_settings) if row.door in FACADE}
    assert served == listed
    assert len(served) > 250


def test_no_route_takes_more_than_its_bound_and_each_takes_that(
    facade_url: str, facade_settings: Settings, ledger: Ledger
) -> None:
    rows = [row for row in table(facade_settings) if row.door in FACADE]
    signed = sign_in(ledger)
    with httpx.Client(timeout=60) as http:
        for row in rows:
            path = re.sub(r"\{suffix\}", "json", re.sub(r"\{(?!suffix)[^}]*\}", "1", row.path))
            headers = signed(path)
            status = status_of_endless(facade_url, row.method, path, headers, row.body)
            assert status < 500 or status == 503, (row, status)  # Prefect is away
            if row.method == "GET" or row.path.endswith("/output"):
                continue
            start, end = '{"x": "', '"}'
            body = start + "y" * (row.body - len(start) - len(end)) + end
            full = http.request(row.method, f"{facade_url}{path}", content=body, headers=headers)
            assert full.status_code != 413, row
            assert full.status_code < 500 or full.status_code == 503, (row, full.text)


async def empty(scope: Scope, receive: Receive, send: Send) -> None:
    """Stands where Prefect would, and has nothing of what it is asked for."""
    if scope["type"] == "http":
        while (await receive()).get("more_body"):
            pass
        await JSONResponse({"detail": "nothing is here"}, 404)(scope, receive, send)


def test_no_route_of_prefect_takes_more_than_its_bound_and_each_takes_that(
    facade_settings: Settings, ledger: Ledger
) -> None:
    settings = facade_settings.model_copy(update={"body_limit_bytes": MAX_MEMBERS_BYTES + 50_000})
    rows = [row for row in gateway_bounds(settings) if row.method != "socket"]
    assert {row.body for row in rows} == {MAX_MEMBERS_BYTES, settings.body_limit_bytes}
    add_user(ledger, "root", "super_admin")
    person = basic(f"root:{PASSWORD}")
    worker = basic(f"worker:{worker_token(ledger, 'jobauto')}")
    middleware = create_middleware(settings, ledger, empty, "door:secret")
    gateway = TransportMiddleware(middleware, settings)
    with serving(gateway, settings) as port, httpx.Client(timeout=60) as http:
        url = f"http://127.0.0.1:{port}"
        for row in rows:
            headers = worker if row.door.endswith("workers") else person
            path = "/api" + re.sub(r"\{(id|schedule_id)\}", str(uuid4()), row.path)
            path = re.sub(r"\{[^}]*\}", "1", path)
            endless = status_of_endless(url, row.method, path, headers, row.body)
            assert 400 <= endless < 500, (row, endless)
            start, end = b'{"x": "', b'"}'
            body = start + b"y" * (row.body - len(start) - len(end)) + end
            full = http.request(row.method, f"{url}{path}", content=body, headers=headers)
            assert (full.status_code != 413, full.status_code < 500) == (True, True), row


@pytest.mark.parametrize(
    ("path", "most"),
    [
        ("/api/v1/login.json", SIGN_IN_BYTES),
        ("/internal/v1/claims", INTERNAL_BYTES),
        ("/internal/v1/jobs/1/output", INTERNAL_BYTES),
        ("/api/v1/app/", 200_000),
        ("/api/v1/apply.json", 100_000),
    ],
)
def test_a_body_that_is_too_large_is_413_without_a_length_too(
    facade_url: str, ledger: Ledger, path: str, most: int
) -> None:
    headers = sign_in(ledger)(path)
    assert status_of_endless(facade_url, "POST", path, headers, most) == 413


@pytest.mark.parametrize("path", ["/internal/v1/renewals", "/api/v1/company/", "/api/v1/job/"])
def test_what_a_body_has_is_counted_before_it_is_judged(
    facade_url: str, ledger: Ledger, path: str
) -> None:
    headers, many = sign_in(ledger)(path), dict.fromkeys(map(str, range(MAX_MEMBERS + 1)))
    for body in (many, {"env": many}):
        refused = httpx.post(f"{facade_url}{path}", json=body, headers=headers)
        assert refused.status_code == 400
        assert [fault["rule"] for fault in refused.json()["details"]] == ["size"]


def test_a_worker_sends_so_many_values_at_once(claims: httpx.Client) -> None:
    for body in (b'{"jobs":[' + b"1," * MAX_VALUES + b"1]}", b"[" + b"[]," * MAX_VALUES + b"[]]"):
        refused = claims.post("/renewals", content=body)
        assert (refused.status_code, refused.json()["details"][0]["rule"]) == (400, "size")


def slow_requests(
    url: str, headers: dict[str, str], count: int, asked: str = "POST /api/v1/company/"
) -> contextlib.ExitStack:
    """So many requests whose bodies do not come."""
    parts, stack = urlsplit(url), contextlib.ExitStack()
    lines = [f"{asked} HTTP/1.1", f"Host: {parts.netloc}", "Content-Length: 2"]
    lines += [f"{name}: {text}" for name, text in headers.items()]
    for _ in range(count):
        peer = socket.create_connection((str(parts.hostname), parts.port or 80), timeout=60)
        stack.enter_context(peer)
        peer.sendall("\r\n".join([*lines, "", ""]).encode())
    return stack


def test_one_users_requests_wait_for_each_other_and_nobody_elses(
    facade_url: str, ledger: Ledger
) -> None:
    mine = {"Authorization": f"Bearer {user_token(ledger, 'ann')}"}
    other = {"Authorization": f"Bearer {user_token(ledger, 'ben')}"}
    worker = {"Authorization": f"Bearer {worker_token(ledger, 'jobauto')}"}
    listed = f"{facade_url}/api/v1/companies.json"

    def refused() -> bool:
        try:
            return httpx.get(listed, headers=mine, timeout=2).status_code == 429
        except httpx.ReadTimeout:  # it waits, before some of those
            return False

    with slow_requests(facade_url, mine, MAX_CONCURRENT + MAX_WAITING):
        eventually(refused, 60)
        answer = httpx.get(listed, headers=mine)
        assert (answer.headers["retry-after"], "at once" in answer.json()["message"]) == ("1", True)
        assert httpx.get(listed, headers=other).status_code == 200
        asked = httpx.get(f"{facade_url}/internal/v1/applications/1", headers=worker)
        assert asked.status_code == 404
    eventually(lambda: httpx.get(listed, headers=mine).status_code == 200)


@pytest.mark.parametrize("path", ["/api/v1/login.json", "/login.html"])
def test_strangers_who_never_send_their_password_keep_nobody_out(
    facade_url: str, ledger: Ledger, path: str
) -> None:
    add_user(ledger, "anna")
    mine = {"login": "anna", "password": PASSWORD}
    with slow_requests(facade_url, {}, STRANGERS_CONCURRENT + MAX_WAITING, f"POST {path}"):
        answer = httpx.post(f"{facade_url}{path}", data=mine, timeout=30)
    assert answer.status_code in (200, 303), answer.text


def test_passwords_that_are_compared_keep_no_token_waiting(
    facade_url: str, ledger: Ledger, monkeypatch: pytest.MonkeyPatch
) -> None:
    compared = threading.Semaphore(0)  # as if each took long
    monkeypatch.setattr(passwords, "_concurrent", compared)
    listed = f"{facade_url}/api/v1/companies.json"

    def guess(number: int) -> None:
        httpx.get(listed, auth=(f"stranger {number}", "a wrong one"), timeout=60)

    guesses = [threading.Thread(target=guess, args=[number]) for number in range(45)]
    for each in guesses:
        each.start()
    try:
        with client(facade_url, user_token(ledger, "ann")) as ann:
            for _ in range(50):
                assert ann.get("/api/v1/companies.json").status_code == 200
    finally:
        compared.release(len(guesses))
        for each in guesses:
            each.join()


def test_artifacts_of_a_worker_keep_its_signs_of_life_waiting_for_none(
    facade_url: str, ledger: Ledger
) -> None:
    worker = {"Authorization": f"Bearer {worker_token(ledger, 'jobauto')}"}
    asked = f"PUT /internal/v1/jobs/1/artifacts?claim_id={uuid4()}&path=a"
    with slow_requests(facade_url, worker, 2 * WORKERS_CONCURRENT, asked):
        answer = httpx.get(f"{facade_url}/internal/v1/applications/1", headers=worker, timeout=20)
    assert answer.status_code == 404


def test_a_query_has_so_many_fields(facade_url: str) -> None:
    refused = []
    for number in (MAX_QUERY_FIELDS, MAX_QUERY_FIELDS + 1):
        answer = httpx.get(f"{facade_url}/api/v1/ping.json?{'&'.join(['a=1'] * number)}")
        refused.append("send fewer" in answer.text)
    assert refused == [False, True]


@pytest.mark.parametrize("form", ["a&" * MAX_FIELDS + "a", "a=" + "%41" * 1001])
def test_a_form_that_is_costly_to_read_is_refused(
    facade_url: str, ledger: Ledger, form: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(forms, "MAX_ESCAPES", 1000)
    token = {"Authorization": f"Bearer {user_token(ledger, 'ann')}"}
    typed = {"Content-Type": "application/x-www-form-urlencoded"}
    for path, headers in (("/login.html", typed), ("/console/topics/new", typed | token)):
        answer = httpx.post(f"{facade_url}{path}", content=form, headers=headers)
        assert answer.status_code == 400


def test_a_page_that_asks_the_contract_takes_one_place(facade_url: str, ledger: Ledger) -> None:
    """Else eight pages at once would wait for each other for ever."""
    headers = {"Authorization": f"Bearer {user_token(ledger)}"}
    statuses: list[int] = []

    def visit() -> None:
        answer = httpx.get(f"{facade_url}/console/jobs", headers=headers, timeout=30)
        statuses.append(answer.status_code)

    visitors = [threading.Thread(target=visit) for _ in range(3 * MAX_CONCURRENT)]
    for each in visitors:
        each.start()
    for each in visitors:
        each.join()
    assert statuses == [200] * len(visitors)


def test_who_follows_many_outputs_is_refused_more_and_does_all_else(
    rest: httpx.Client, facade_url: str, ledger: Ledger, monkeypatch: pytest.MonkeyPatch
) -> None:
    job = JobRecords(ledger, *make_job_template(rest)).job(state="running")
    path = f"/job/{job}/output.json?follow=true"
    with contextlib.ExitStack() as stack:
        for _ in range(MAX_FOLLOWED):
            followed = stack.enter_context(rest.stream("GET", path))
            assert followed.status_code == 200
        with monkeypatch.context() as patched:
            patched.setattr(job_output, "run_in_threadpool", None)  # nothing is read
            refused = rest.get(path)
        assert (refused.status_code, refused.headers["retry-after"]) == (429, "1")
        assert rest.get(f"/job/{job}/output.json").status_code == 200
        with client(f"{facade_url}/api/v1", user_token(ledger, "ben")) as ben:
            assert stack.enter_context(ben.stream("GET", path)).status_code == 200
    eventually(lambda: _is_free(rest, path))


def _is_free(rest: httpx.Client, path: str) -> bool:
    with rest.stream("GET", path) as followed:
        return followed.status_code == 200


def test_long_output_comes_whole_in_both_forms(rest: httpx.Client, ledger: Ledger) -> None:
    job, count = JobRecords(ledger, *make_job_template(rest)).job(), 12_001
    at = ledger.clock() - timedelta(minutes=2)
    line = {"job_id": job, "stream": "stdout", "at": at}
    with ledger.writing(SERVICE) as session:
        rows = [{**line, "seq": seq, "text": f"line {seq}"} for seq in range(1, count + 1)]
        session.execute(insert(OutputLine), rows)
    whole = rest.get(f"/job/{job}/output.json").json()
    assert [each["seq"] for each in whole["lines"]] == [*range(1, count + 1)]
    assert (whole["last"], whole["state"]) == (count, "failed")
    assert rest.get(f"/job/{job}/output.txt").text.splitlines()[-1] == f"line {count}"


def test_long_outputs_are_read_by_few_threads(
    rest: httpx.Client, facade_url: str, ledger: Ledger, monkeypatch: pytest.MonkeyPatch
) -> None:
    job = JobRecords(ledger, *make_job_template(rest)).job()
    line = {"job_id": job, "stream": "stdout", "at": ledger.clock(), "text": "x"}
    with ledger.writing(SERVICE) as session:
        session.execute(insert(OutputLine), [{**line, "seq": seq} for seq in range(1, 100)])
    monkeypatch.setattr(job_output, "BATCH_LINES", 1)
    read, busy, most, lock = job_output._read_batch, [0], [0], threading.Lock()

    def counted(*asked: Any) -> Any:
        is_rest = asked[3].after > 0
        with lock:
            busy[0] += is_rest
            most[0] = max(most[0], busy[0])
        try:
            return read(*asked)
        finally:
            with lock:
                busy[0] -= is_rest

    monkeypatch.setattr(job_output, "_read_batch", counted)
    with client(facade_url, user_token(ledger, "ann")) as ann:
        path = f"/api/v1/job/{job}/output.json"
        readers = [threading.Thread(target=ann.get, args=[path]) for _ in range(MAX_CONCURRENT)]
        for reader in readers:
            reader.start()
        for reader in readers:
            reader.join()
    assert 0 < most[0] <= OUTPUT_THREADS


@pytest.mark.parametrize("suffix", ["json", "yaml", "xml", "html", "csv"])
def test_long_lists_are_written_by_few_threads_that_give_way(
    rest: httpx.Client,
    facade_url: str,
    ledger: Ledger,
    monkeypatch: pytest.MonkeyPatch,
    suffix: str,
) -> None:
    JobRecords(ledger, *make_job_template(rest)).job()
    write, busy, most, lock = responses._render, [0], [0], threading.Lock()
    usual, intervals = sys.getswitchinterval(), set[float]()

    def counted(*asked: Any) -> Any:
        with lock:
            busy[0] += 1
            most[0] = max(most[0], busy[0])
            intervals.add(sys.getswitchinterval())
        try:
            return write(*asked)
        finally:
            with lock:
                busy[0] -= 1

    monkeypatch.setattr(responses, "_render", counted)
    with client(facade_url, user_token(ledger, "ann")) as ann:
        path = f"/api/v1/jobs.{suffix}?limit=1000"
        readers = [threading.Thread(target=ann.get, args=[path]) for _ in range(MAX_CONCURRENT)]
        for reader in readers:
            reader.start()
        for reader in readers:
            reader.join()
    assert 0 < most[0] <= LONG_THREADS
    assert [round(seconds, 6) for seconds in intervals] == [SWITCH_SECONDS]
    assert sys.getswitchinterval() == usual


def test_a_forecast_names_so_many_run_templates(rest: httpx.Client) -> None:
    names = ",".join(f"acme/{number}" for number in range(MAX_NAMED + 1))
    refused = rest.get("/forecast.json", params={"runtemplate_id": names})
    assert (refused.status_code, refused.json()["details"][0]["pointer"]) == (
        400,
        "/runtemplate_id",
    )
    fewer = rest.get("/forecast.json", params={"runtemplate_id": names.rpartition(",")[0]})
    assert fewer.json()["windows"] == []


def entries_of(ledger: Ledger) -> list[AuditEntry]:
    return fetch_all(ledger, AuditEntry)


def test_what_the_trail_keeps_of_one_change_is_bounded(rest: httpx.Client, ledger: Ledger) -> None:
    """Nobody can delete it again."""
    records = JobRecords(ledger, *make_job_template(rest))
    agent = {"User-Agent": "x" * 50_000}
    for note in ("a" * 10_000, "b" * 10_000):
        rest.post(f"/runtemplate/{records.template}.json", json={"note": note}).raise_for_status()
    logo = "data:image/png;base64," + "A" * 30_000
    rest.post(
        f"/company/{records.company}.json", json={"logo": logo}, headers=agent
    ).raise_for_status()
    refused = rest.post(f"/runtemplate/{records.template}.json", json={"note": "c" * 10_001})
    *_, noted, drawn = entries_of(ledger)
    assert refused.json()["details"][0]["pointer"] == "/note"
    assert noted.changes["note"] == ["a" * 10_000, "b" * 10_000]
    assert drawn.changes["logo"][1].startswith(logo[:4_000])
    assert f"({len(logo)} characters, SHA-256 " in drawn.changes["logo"][1]
    assert len(json.dumps(drawn.changes)) < 5_000
    assert drawn.user_agent == "x" * 500
    assert rest.get(f"/company/{records.company}.json").json()["logo"] == logo


def test_what_a_worker_says_of_a_job_is_bounded(
    rest: httpx.Client, claims: httpx.Client, template: dict[str, Any], ledger: Ledger
) -> None:
    job = post(rest, "/job/", runtemplate_id=template["id"])
    launch = granted(claims, own_run_of(ledger, job["id"]))
    report(claims, launch, ending="not_started", exit_code=None, message="x" * 500_000)
    ended = rest.get(f"/job/{launch['job_id']}.json").json()
    assert len(ended["message"]) <= MESSAGE_LENGTH
