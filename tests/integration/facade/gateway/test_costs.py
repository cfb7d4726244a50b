"""What one user asks for never stops Prefect for the others: it is refused before."""

import contextlib
import json
import socket
from typing import Any
from urllib.parse import urlsplit
from uuid import uuid4

import httpx
import pytest

from jobauto_prefect.engine.api import service_authorization
from jobauto_prefect.facade.concurrency import MAX_CONCURRENT, MAX_WAITING
from tests.support.gateway import OURS, PASSWORD, THEIRS, Gateway, basic
from tests.support.records import pointers
from tests.support.servers import prefect_client, status_of_endless
from tests.support.waits import eventually

EXPONENTIAL = {"properties": {"x": {"type": "string", "pattern": "^(a+)+$"}}}
UNIQUE = {"properties": {"x": {"type": "array", "uniqueItems": True}}}


def schema_of(gate: Gateway, company: str) -> Any:
    with gate.as_("root") as root:
        path = f"/deployments/{gate.deployment(company)}"
        return root.get(path).raise_for_status().json()["parameter_openapi_schema"]


@pytest.mark.parametrize("schema", [EXPONENTIAL, UNIQUE, {}, None], ids=str)
def test_members_have_values_checked_by_a_deployments_schema_alone(
    gate: Gateway, schema: Any
) -> None:
    with gate.as_("viewer") as viewer:
        body = {"schema": schema, "values": {"x": "a" * 40 + "!"}}
        answer = viewer.post("/ui/schemas/validate", json=body)
    assert answer.status_code == 403
    assert "deployment" in answer.json()["message"]


def test_the_schema_of_a_deployment_is_taken_with_values_of_64_kb(gate: Gateway) -> None:
    body = {"schema": schema_of(gate, OURS), "values": {"COMPANY_NAME": "x"}}
    with gate.as_("viewer") as viewer:
        answer = viewer.post("/ui/schemas/validate", json=body)
        assert answer.status_code == 200
        assert answer.json()["valid"] is True
        reordered = dict(reversed(body["schema"].items()))
        assert viewer.post("/ui/schemas/validate", json=body | {"schema": reordered}).is_success
        noun = body["schema"]["properties"]["COMPANY_NAME"]
        alone = {"definitions": {}, "properties": {"noun": noun}}  # as the older pages ask
        assert viewer.post("/ui/schemas/validate", json=body | {"schema": alone}).is_success
        alone["properties"]["noun"] |= EXPONENTIAL["properties"]["x"]
        refused = viewer.post("/ui/schemas/validate", json=body | {"schema": alone})
        assert refused.status_code == 403
        large = body | {"values": {"COMPANY_NAME": "x" * 65 * 1024}}
        answer = viewer.post("/ui/schemas/validate", json=large)
        assert (answer.status_code, answer.json()["details"][0]["pointer"]) == (400, "/values")
    with gate.as_("outsider") as outsider:
        assert outsider.post("/ui/schemas/validate", json=body).status_code == 403
    with gate.as_("root") as root:
        body = {"schema": UNIQUE, "values": {"x": [1, 2]}}
        assert root.post("/ui/schemas/validate", json=body).is_success


@pytest.mark.parametrize("login", ["manager", "root"])
@pytest.mark.parametrize(
    "schedule",
    [
        {"cron": "0 0 30 2 *", "timezone": "UTC"},
        {"interval": 0.001},
        {"rrule": "FREQ=YEARLY;BYMONTH=2;BYMONTHDAY=30"},
    ],
    ids=str,
)
def test_a_schedule_that_never_ends_to_be_computed_is_refused(
    gate: Gateway, login: str, schedule: Any
) -> None:
    path = f"/deployments/{gate.deployment(OURS)}"
    entry = {"active": True, "schedule": schedule}
    with gate.as_(login) as client:
        answers = [
            client.post(f"{path}/schedules", json=[entry]),
            client.patch(path, json={"schedules": [entry]}),
            client.patch(f"{path}/schedules/{uuid4()}", json=entry),
        ]
        assert client.get(f"{path}/schedules").json() == []
    assert [answer.status_code for answer in answers] == [400] * 3
    assert answers[0].json()["details"][0]["pointer"].startswith("/0/schedule/")


def test_a_manager_gives_one_schedule_that_a_run_template_can_have(gate: Gateway) -> None:
    path = f"/deployments/{gate.deployment(OURS)}/schedules"
    entry = {"active": False, "schedule": {"cron": "0 6 * * *", "timezone": "Europe/Prague"}}
    with gate.as_("manager") as manager:
        made = manager.post(path, json=[entry])
        assert made.is_success, made.text
        (schedule,) = made.json()
        one = f"{path}/{schedule['id']}"
        headers = {"X-Request-ID": "changed-schedule"}
        changed = manager.patch(one, json={"active": True}, headers=headers)
        assert changed.is_success, changed.text
        refused = manager.patch(one, json={"schedule": {"interval": 1}})
        assert refused.status_code == 400
        again = manager.post(path, json=[entry])
        assert again.status_code == 400
        assert "one schedule" in again.json()["message"]
        assert manager.delete(one).is_success
    first = gate.trail(request_id="changed-schedule")[-1]
    assert first["changes"]["active"] == [False, True]


def test_runs_of_a_schedule_are_made_ahead_by_administrators_alone(gate: Gateway) -> None:
    path = f"/deployments/{gate.deployment(OURS)}/schedule"
    with gate.as_("manager") as manager:
        answer = manager.post(path, json={"min_runs": 3000, "max_runs": 3000})
    assert answer.status_code == 403
    with gate.as_("root") as root:
        assert root.post(path, json={"max_runs": 1}).is_success


@pytest.mark.parametrize("login", ["viewer", "root"])
def test_a_list_of_more_than_a_thousand_is_refused(gate: Gateway, login: str) -> None:
    ids = [str(uuid4())] * 10_000
    with gate.as_(login) as client:
        for body in ({"flow_runs": {"id": {"any_": ids}}}, {"flow_runs": {"tags": {"all_": ids}}}):
            answer = client.post("/flow_runs/filter", json=body)
            assert answer.status_code == 400
            assert answer.json()["details"][0]["rule"] == "items"
        answer = client.post("/flow_runs/count", json={"flow_runs": {"id": {"any_": ids[:1000]}}})
        assert answer.status_code == 200


def test_a_members_run_begins_as_scheduled(gate: Gateway) -> None:
    path = f"/deployments/{gate.deployment(OURS)}/create_flow_run"
    with gate.as_("manager") as manager:
        for state in ("RUNNING", "PENDING", "running"):
            answer = manager.post(path, json={"state": {"type": state}})
            assert answer.status_code == 403
            bulk = manager.post(f"{path}/bulk", json=[{}, {"state": {"type": state}}])
            assert bulk.status_code == 403
            run = gate.run(OURS)
            set_ = {"state": {"type": state}}
            assert manager.post(f"/flow_runs/{run}/set_state", json=set_).status_code == 403
        later = {"type": "SCHEDULED", "state_details": {"scheduled_time": "2030-01-01T00:00:00Z"}}
        assert manager.post(path, json={"state": later}).status_code == 201
    with gate.as_("root") as root:
        made = root.post(path, json={"state": {"type": "RUNNING"}})
        assert made.json()["state_type"] == "RUNNING"


def test_force_is_administrators_alone(gate: Gateway) -> None:
    run = gate.run(OURS)
    forced = {"state": {"type": "COMPLETED"}, "force": True}
    path = f"/flow_runs/{run}/set_state"
    with gate.as_("root") as root, gate.as_("manager") as manager:
        for kind in ("RUNNING", "CANCELLING"):
            state = {"state": {"type": kind}, "force": True}
            assert root.post(path, json=state).json()["status"] == "ACCEPT"
        assert manager.post(path, json=forced).json()["status"] != "ACCEPT"
        assert root.post(path, json=forced).json()["status"] == "ACCEPT"


def test_a_member_has_no_run_tried_again_by_prefect(gate: Gateway) -> None:
    create = f"/deployments/{gate.deployment(OURS)}/create_flow_run"
    plain = {"retries": 0, "retry_delay": None}
    with gate.as_("manager") as manager:
        for policy in (
            {"retries": 1},
            {"max_retries": 2},
            {"pause_keys": ["x"]},
            {"resuming": True},
        ):
            body = {"empirical_policy": policy}
            for answer in (
                manager.post(create, json=body),
                manager.patch(f"/flow_runs/{gate.run(OURS)}", json=body),
            ):
                assert (answer.status_code, "run template" in answer.text) == (403, True), policy
        made = manager.post(create, json={"empirical_policy": plain}).raise_for_status().json()
        changed = manager.patch(f"/flow_runs/{made['id']}", json={"empirical_policy": plain})
        assert changed.status_code == 204


def test_a_paused_run_of_a_member_waits_for_no_input(gate: Gateway) -> None:
    """Prefect would check it by a schema that the member wrote."""
    path = f"/flow_runs/{gate.run(OURS)}"
    details = {"run_input_keyset": {"schema": "x", "response": "y"}}
    with gate.as_("manager") as manager:
        state = {"type": "PAUSED", "state_details": details}
        assert manager.post(f"{path}/set_state", json={"state": state}).status_code == 403
        answer = manager.post(f"{path}/resume", json={"run_input": {"x": "a" * 40 + "!"}})
        assert answer.status_code == 403


def test_the_same_key_for_two_companies_makes_two_runs(gate: Gateway) -> None:
    key = {"idempotency_key": "nightly"}
    runs = []
    for login, company in (("manager", OURS), ("manager", OURS), ("foreigner", THEIRS)):
        path = f"/deployments/{gate.deployment(company)}/create_flow_run"
        with gate.as_(login) as member:
            runs.append(member.post(path, json=key).raise_for_status().json())
    assert runs[0]["id"] == runs[1]["id"] != runs[2]["id"]
    assert runs[2]["deployment_id"] == gate.deployment(THEIRS)


def test_the_services_own_keys_are_its_own(gate: Gateway) -> None:
    """Whoever used one first would have the service take their run for its job's."""
    path = f"/deployments/{gate.deployment(OURS)}/create_flow_run"
    key = {"idempotency_key": "jobauto-job-4711"}
    service = {"Authorization": service_authorization(gate.ledger.box)}
    with gate.as_("manager") as manager:
        guessed = manager.post(path, json=key).raise_for_status().json()
        bulk = manager.post(f"{path}/bulk", json=[key]).raise_for_status().json()
    with gate.as_("root") as root:
        assert root.post(path, json=key).json()["id"] == guessed["id"]
    with prefect_client(gate.url, headers=service) as client:
        own = client.post(path, json=key).raise_for_status().json()
        assert client.post(path, json=key).json()["id"] == own["id"]
    assert own["idempotency_key"] == key["idempotency_key"]
    assert own["id"] != guessed["id"]
    assert own["id"] not in str(bulk)


def test_one_users_requests_wait_for_each_other_and_nobody_else_does(gate: Gateway) -> None:
    parts = urlsplit(gate.url)
    head = [f"POST {parts.path}/flow_runs/filter HTTP/1.1", f"Host: {parts.netloc}"]
    signed = basic(f"manager:{PASSWORD}")["Authorization"]
    head += [f"Authorization: {signed}", "Content-Length: 2", "", ""]
    version = "/version"
    with gate.as_("manager") as manager, contextlib.ExitStack() as stack:
        assert manager.get(version).status_code == 200
        for _ in range(MAX_CONCURRENT + MAX_WAITING):
            peer = socket.create_connection((str(parts.hostname), parts.port or 80), timeout=60)
            stack.enter_context(peer)
            peer.sendall("\r\n".join(head).encode())

        def is_refused() -> bool:
            try:
                return manager.get(version, timeout=2).status_code == 429
            except httpx.ReadTimeout:  # it waits, before some of those
                return False

        eventually(is_refused, 60)
        refused = manager.get(version)
        assert refused.headers["retry-after"] == "1"
        assert "at once" in refused.json()["message"]
        with gate.as_("viewer") as viewer:
            assert viewer.get(version).status_code == 200
        worker = basic(f"worker:{gate.worker_token}")
        assert httpx.get(f"{gate.url}{version}", headers=worker, timeout=30).status_code == 200
    with gate.as_("manager") as manager:
        eventually(lambda: manager.get(version).status_code == 200)


def test_a_state_that_lists_repeat_is_short(gate: Gateway) -> None:
    run, long = gate.run(OURS), {"type": "CANCELLED", "message": "x" * 400_000}
    with gate.as_("runner") as user, gate.as_("manager") as manager:
        for body in (long, {"type": "CANCELLED", "data": ["x" * 20_000]}):
            refused = user.post(f"/flow_runs/{run}/set_state", json={"state": body})
            assert pointers(refused)[0] == "/state"
        new = f"/deployments/{gate.deployment(OURS)}/create_flow_run"
        scheduled = {"state": {"type": "SCHEDULED", "message": "x" * 20_000}}
        assert user.post(new, json=scheduled).status_code == 400
        chosen = {"flow_runs": {"id": {"any_": [run]}}, "state": long}
        assert manager.post("/flow_runs/bulk_set_state", json=chosen).status_code == 400
        worker = basic(f"worker:{gate.worker_token}")
        details = {"pause_key": "z" * 100_000}
        told = {"state": {"type": "FAILED", "message": "y" * 100_000, "state_details": details}}
        with prefect_client(gate.url, headers=worker) as own:
            own.post(f"/flow_runs/{run}/set_state", json=told).raise_for_status()
        shown = manager.get(f"/flow_runs/{run}").json()["state"]
    assert shown["type"] == "FAILED"
    assert shown["message"].startswith("yyy")
    assert len(json.dumps(shown)) < 10_000


def test_a_body_without_an_end_is_counted_at_no_route_and_of_the_service_too(
    gate: Gateway,
) -> None:
    """Those of the routes are tried by `test_bounds.py`."""
    service = {"Authorization": service_authorization(gate.ledger.box)}
    most = gate.settings.body_limit_bytes
    for headers in (service, basic(f"manager:{PASSWORD}")):
        for path in ("/api/nothing", "/docs"):
            url = gate.url.removesuffix("/api")
            assert 400 <= status_of_endless(url, "POST", path, headers, most) < 500, path
