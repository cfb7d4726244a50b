"""Bodies that are no JSON, that never end, or that have more in them than any honest request."""

import sqlite3
from collections.abc import Callable
from contextlib import closing
from typing import Any
from uuid import uuid4

import httpx
import pytest

from jobauto_prefect.engine.prefect_server.app import LONGEST_STATE_TEXT
from jobauto_prefect.facade.gateway.forwarding import ITEMS_AT_ONCE
from jobauto_prefect.facade.gateway.middleware import MAX_MEMBERS_BYTES
from jobauto_prefect.facade.gateway.policy.body_rules import MAX_ITEMS, MAX_NUMBER, MAX_TAGS
from tests.support.breakable import hang_up
from tests.support.gateway import OURS, PASSWORD, THEIRS, Gateway, basic
from tests.support.records import ok
from tests.support.servers import prefect_client
from tests.support.waits import eventually


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
            assert ok(root.post(run, content=body), status)["details"][0]["rule"] == rule
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
        wrong = {"tags": {str(number): [[]] * 200 for number in range(MAX_TAGS)}}
        answer = manager.patch(f"/flow_runs/{run}", json=wrong)
    assert answer.status_code == 422
    assert answer.json()["exception_detail"][0]["loc"] == ["body", "tags"]
    assert "[[]" not in answer.text
    assert slow_callbacks() == []


def lines_of(run: str, count: int) -> list[dict[str, Any]]:
    at = {"level": 20, "timestamp": "2026-01-01T00:00:00Z"}
    return [{"flow_run_id": run, "name": "x", "message": f"{n}", **at} for n in range(count)]


def kept_lines(gate: Gateway, run: str) -> list[str]:
    listed = {"logs": {"flow_run_id": {"any_": [run]}}, "limit": 200}
    kept: list[str] = []
    with gate.as_("root") as root:
        while page := root.post("/logs/filter", json=listed | {"offset": len(kept)}).json():
            kept += [line["message"] for line in page]
    return kept


def test_log_lines_are_passed_on_in_parts_however_many_come(gate: Gateway) -> None:
    """Prefect's own client sends as many as 3 MB hold; Prefect's event loop stands still for each
    statement."""
    run, worker = gate.run(OURS), basic(f"worker:{gate.worker_token}")
    with prefect_client(gate.url, headers=worker) as own:
        own.post("/logs/", json=lines_of(run, 1_234)).raise_for_status()
        assert sorted(map(int, kept_lines(gate, run))) == [*range(1_234)]
        wrong = [*lines_of(run, 150), {"flow_run_id": run}, *lines_of(run, 150)]
        assert own.post("/logs/", json=wrong).status_code == 422
    assert len(kept_lines(gate, run)) == 1_234 + ITEMS_AT_ONCE["/logs/"]


def test_events_are_passed_on_in_parts_and_all_kept(gate: Gateway) -> None:
    about = {"prefect.resource.id": f"of.{uuid4()}"}
    at = {"event": "many", "occurred": gate.ledger.clock().isoformat(), "resource": about}
    wrong = {"id": str(uuid4()), "event": "none"}
    sent = [{"id": str(uuid4()), **at} for _ in range(120)]
    with gate.as_("root") as root:
        assert root.post("/events", json=[*sent, wrong]).status_code == 422

        def count() -> int:
            search = {"filter": {"resource": {"id": list(about.values())}}}
            return int(root.post("/events/filter", json=search).json()["total"])

        eventually(lambda: count() == 2 * ITEMS_AT_ONCE["/events"])


TAGS = [f"tag{number}" for number in range(999)]


def test_nobody_writes_or_looks_for_more_tags_than_prefect_bears(gate: Gateway) -> None:
    """More of them made Prefect fail: 500, and a run that no worker could start."""
    deployment, run = f"/deployments/{gate.deployment(OURS)}", f"/flow_runs/{gate.run(OURS)}"
    worker = basic(f"worker:{gate.worker_token}")
    tagged, found = {"tags": TAGS}, {"flow_runs": {"tags": {"all_": TAGS}}}
    with (
        gate.as_("manager") as manager,
        gate.as_("root") as root,
        prefect_client(gate.url, headers=worker) as own,
    ):
        flow = root.get(deployment).json()["flow_id"]
        refused = [
            *(
                client.post(f"{deployment}/create_flow_run", json=tagged)
                for client in (manager, root)
            ),
            manager.post(f"{deployment}/create_flow_run/bulk", json=[tagged]),
            manager.patch(deployment, json=tagged),
            *(client.patch(run, json=tagged) for client in (manager, root, own)),
            root.post("/flow_runs/", json={"flow_id": flow, **tagged}),
            root.post("/flows/", json={"name": "tagged", **tagged}),
            root.post("/deployments/", json={"name": "tagged", "flow_id": flow, **tagged}),
            root.post("/variables/", json={"name": "tagged", "value": "x", **tagged}),
            *(client.post("/flow_runs/filter", json=found) for client in (manager, root, own)),
            root.post("/variables/filter", json={"variables": found["flow_runs"]}),
        ]
        few = {"tags": TAGS[:MAX_TAGS]}
        assert manager.patch(deployment, json=few).is_success
        made = manager.post(f"{deployment}/create_flow_run", json={"tags": TAGS[-MAX_TAGS:]})
        assert made.status_code == 201, made.text
        state = {"state": {"type": "CANCELLED"}}
        assert manager.post(f"/flow_runs/{made.json()['id']}/set_state", json=state).is_success
        assert root.post("/flow_runs/filter", json={"flow_runs": {"tags": {"all_": few["tags"]}}})
        manager.patch(deployment, json={"tags": []}).raise_for_status()
    for answer in refused:
        assert answer.status_code == 400, (answer.request.url, answer.text)
        assert {fault["rule"] for fault in answer.json()["details"]} == {"items"}


def test_what_is_looked_for_is_bounded_as_a_whole(gate: Gateway) -> None:
    """Prefect failed on such numbers, and took seconds to write such a statement."""
    some = [str(uuid4()) for _ in range(MAX_ITEMS // 2)]
    many = {"id": {"any_": some}, "deployment_id": {"any_": some}, "name": {"any_": ["one more"]}}
    with gate.as_("manager") as manager:
        for path, body in (
            ("/flow_runs/filter", {"offset": 2**70}),
            ("/flow_runs/paginate", {"page": 10**18, "limit": 200}),
            ("/flow_runs/filter", {"flow_runs": many}),
        ):
            assert manager.post(path, json=body).status_code == 400, (path, body)
        for body in ({"offset": MAX_NUMBER}, {"flow_runs": many | {"name": None}}):
            assert manager.post("/flow_runs/filter", json=body).status_code == 200


def test_other_lists_that_cost_prefect_something_for_each_are_short(gate: Gateway) -> None:
    pool, worker = gate.settings.pool, basic(f"worker:{gate.worker_token}")
    names = {name: name for name in TAGS}
    runs = {"flow_runs": {"id": {"any_": [str(uuid4()) for _ in range(20_000)]}}}
    template = {"variables": {"properties": {name: {} for name in TAGS}}, "job_configuration": {}}
    schedules = [{"schedule": {"cron": "0 0 1 1 *"}}] * 500
    compound = {"type": "compound", "require": "any", "within": 1, "triggers": [{}] * 900}
    of_admin = [
        ("/deployments/", {"name": "x", "flow_id": str(uuid4()), "schedules": schedules}),
        ("/v2/concurrency_limits/increment", {"names": TAGS, "slots": 1}),
        ("/concurrency_limits/increment", {"names": TAGS, "task_run_id": str(uuid4())}),
        ("/work_pools/", {"name": "x", "type": "x", "base_job_template": template}),
        ("/automations/", {"name": "x", "trigger": compound, "actions": []}),
        ("/automations/", {"name": "x", "trigger": {}, "actions": [{"type": "do-nothing"}] * 900}),
        ("/events/filter", {"filter": {"event": {"name": TAGS, "prefix": TAGS}}}),
        ("/events/filter", {"filter": {"related": {"labels": names}}}),
        ("/events/count-by/day", {"filter": {"any_resource": [{"id": TAGS}]}}),
    ]
    of_worker = [
        ("/flow_runs/filter", runs),
        (f"/work_pools/{pool}/get_scheduled_flow_runs", {"work_queue_names": TAGS}),
        ("/work_pools/filter", {"work_pools": {"name": {"any_": TAGS * 2}}}),
        ("/work_pools/", {"name": pool, "type": "x", "base_job_template": template}),
        ("/artifacts/", {"flow_run_id": gate.run(OURS), "data": [[]] * 30_000}),
    ]
    with gate.as_("root") as root, prefect_client(gate.url, headers=worker) as own:
        for client, asked in ((root, of_admin), (own, of_worker)):
            for path, body in asked:
                answer = client.post(path, json=body)
                assert answer.status_code == 400, (path, answer.text)
                assert answer.json()["details"][0]["rule"] in ("items", "size"), answer.text


def test_a_worker_writes_at_no_task_run_of_another_flow_run(gate: Gateway) -> None:
    """Prefect shows log lines and artifacts of a task run there, whatever flow run they name."""
    ours, theirs = gate.run(OURS), gate.run(THEIRS)
    with gate.as_("root") as root:
        named = [
            root.post("/task_runs/", json={"flow_run_id": run, "task_key": "t", "dynamic_key": "1"})
            for run in (ours, theirs)
        ]
        own_task, foreign = (answer.raise_for_status().json()["id"] for answer in named)
    (line,) = lines_of(ours, 1)
    artifact = {"flow_run_id": ours, "key": "k", "data": "x"}
    with prefect_client(gate.url, headers=basic(f"worker:{gate.worker_token}")) as worker:
        for task_run in (foreign, foreign.upper(), foreign.replace("-", ""), f"{{{foreign}}}", 7):
            at = {"task_run_id": task_run}
            refused = [
                worker.post("/logs/", json=[line, line | at]),
                worker.post("/artifacts/", json=artifact | at),
            ]
            assert [answer.status_code for answer in refused] == [403, 403], task_run
        for task_run in (own_task, str(uuid4()), None):
            at = {"task_run_id": task_run}
            worker.post("/logs/", json=[line | at]).raise_for_status()
            worker.post("/artifacts/", json=artifact | at).raise_for_status()
    assert len(kept_lines(gate, ours)) == 3
