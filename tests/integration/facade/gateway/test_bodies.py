"""Bodies that are no JSON, that never end, or that have more in them than any honest request."""

import sqlite3
from collections.abc import Callable
from contextlib import closing

import httpx
import pytest

from jobauto_prefect.engine.prefect_server.app import LONGEST_STATE_TEXT
from jobauto_prefect.facade.gateway.middleware import MAX_MEMBERS_BYTES
from tests.support.breakable import hang_up
from tests.support.gateway import OURS, PASSWORD, Gateway, basic
from tests.support.servers import prefect_client


@pytest.mark.parametrize("number", ["NaN", "Infinity", "-Infinity", "1e999"])
def test_a_number_that_json_does_not_have_is_a_bad_request(gate: Gateway, number: str) -> None:
    body = f'{{"limit": {number}}}'
    for login in ("viewer", "root"):
        with gate.as_(login) as client:
            answer = client.post("/flow_runs/filter", content=body)
            assert answer.status_code == 400, answer.text
            assert answer.json()["details"][0]["rule"] == "number"
    worker = basic(f"worker:{gate.worker_token}")
    answer = httpx.post(f"{gate.url}/flow_runs/filter", content=body, headers=worker)
    assert answer.status_code == 400, answer.text


def test_who_hangs_up_leaves_no_run_and_no_traceback(gate: Gateway) -> None:
    log = gate.settings.home / "prefect.log"
    before = log.stat().st_size
    path = f"/deployments/{gate.deployment(OURS)}/create_flow_run"
    headers = basic(f"manager:{PASSWORD}") | {"X-Request-ID": "hung-up"}
    hang_up(f"{gate.url}{path}", headers, b"{}")
    with gate.as_("manager") as manager:
        for _ in range(10):  # its turn has come
            assert manager.get(f"/deployments/{gate.deployment(OURS)}").status_code == 200
    assert gate.trail(request_id="hung-up") == []
    tracebacks = log.read_bytes()[before:].decode().split("Traceback")[1:]
    assert [each for each in tracebacks if "jobauto_prefect/facade/" in each] == []


def test_neither_prefects_document_nor_a_large_body_stops_its_event_loop(
    gate: Gateway, slow_callbacks: Callable[[], list[str]]
) -> None:
    limit = MAX_MEMBERS_BYTES
    many = b'{"parameters": {"a": [' + b"[]," * (limit // 3 - 20) + b"0]}}"
    texts = b'{"parameters": {"a": [' + b'"x",' * 90_000 + b"0]}}"
    run = f"/deployments/{gate.deployment(OURS)}/create_flow_run"
    with gate.as_("viewer") as viewer, gate.as_("root") as root:
        documents = [viewer.get(f"{gate.pages}/openapi.json").content for _ in range(2)]
        assert documents[0] == documents[1]
        assert b'"/flow_runs/filter"' in documents[0]
        assert viewer.post("/flow_runs/filter", content=b" " * (limit + 1)).status_code == 413
        assert viewer.post("/flow_runs/", content=many).status_code == 403
        for body, status, rule in ((many, 400, "size"), (texts, 400, "items")):
            answer = root.post(run, content=body)
            assert answer.status_code == status, answer.text
            assert answer.json()["details"][0]["rule"] == rule
    assert slow_callbacks() == []


def test_states_that_were_long_before_they_were_bounded_are_read_in_part(gate: Gateway) -> None:
    run = gate.run(OURS)
    path = gate.settings.home / "prefect" / "prefect.db"
    with closing(sqlite3.connect(path, timeout=30)) as connection, connection:
        planted = connection.execute(
            "UPDATE flow_run_state SET message = 'long ' || hex(zeroblob(2000000)),"
            " data = json_quote(hex(zeroblob(2000000)))"
            " WHERE flow_run_id IN (?, ?)",
            (run, run.replace("-", "")),
        )
        assert planted.rowcount == 1
    filtered = {"flow_runs": {"id": {"any_": [run]}}}
    with gate.as_("manager") as manager:
        (listed,) = manager.post("/flow_runs/filter", json=filtered).raise_for_status().json()
        (state,) = manager.get("/flow_run_states/", params={"flow_run_id": run}).json()
        alone = manager.get(f"/flow_runs/{run}").json()["state"]
        assert manager.delete(f"/flow_runs/{run}").status_code in (204, 403)
    for each in (listed["state"], state, alone):
        assert (len(each["message"]), each["message"][:6]) == (LONGEST_STATE_TEXT, "long 0")
        assert each["data"] is None


def test_a_body_that_prefect_does_not_take_is_not_repeated_in_its_event_loop(
    gate: Gateway, slow_callbacks: Callable[[], list[str]]
) -> None:
    worker, run = basic(f"worker:{gate.worker_token}"), gate.run(OURS)
    values = b"[" + b"[]," * 1_000_000 + b"0]"
    artifact = b'{"flow_run_id": "' + run.encode() + b'", "data": ' + values + b"}"
    with prefect_client(gate.url, headers=worker) as own, gate.as_("manager") as manager:
        for path, body in (("/logs/", b'{"a": []}'), ("/logs/", values), ("/artifacts/", artifact)):
            assert own.post(path, content=body).status_code == 400, path
        for body in ({"tags": ["x" * 200] * 900}, {"labels": {"a": "x" * 100_000}}):
            refused = own.patch(f"/flow_runs/{run}", json=body)
            assert refused.status_code == 400, refused.text
        described = {"description": "x" * 20_000}
        assert manager.patch(
            f"/deployments/{gate.deployment(OURS)}", json=described
        ).is_client_error
        wrong = {"tags": {str(number): [[]] * 20 for number in range(300)}}
        answer = manager.patch(f"/flow_runs/{run}", json=wrong)
    assert answer.status_code == 422
    assert answer.json()["exception_detail"][0]["loc"] == ["body", "tags"]
    assert "[[]" not in answer.text
    assert slow_callbacks() == []
