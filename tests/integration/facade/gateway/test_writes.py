"""Who may change what in Prefect, and what the audit trail says of it."""

import asyncio
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import Any
from uuid import UUID, uuid4

import httpx
import pytest
from sqlalchemy import select

from jobauto_prefect.engine.api import PrefectApi, service_authorization
from jobauto_prefect.engine.flow_runs import propose
from jobauto_prefect.ledger.records import AuditEntry
from tests.support.gateway import OURS, PASSWORD, THEIRS, Gateway
from tests.support.ledger_rows import fetch_all
from tests.support.records import ok
from tests.support.secrets import secret
from tests.support.waits import eventually


def test_a_viewers_run_is_refused_and_written_down(gate: Gateway) -> None:
    path = f"/deployments/{gate.deployment(OURS)}/create_flow_run"
    with gate.as_("viewer") as viewer:
        answer = viewer.post(path, json={}, headers={"X-Request-ID": "run-of-a-viewer"})
    assert answer.status_code == 403
    assert "jobs.create" in answer.json()["detail"]
    (entry,) = gate.trail(request_id="run-of-a-viewer")
    assert entry["action"] == "refuse"
    assert entry["actor"] == "viewer"
    assert entry["door"] == "prefect-api"
    assert entry["entity_type"] == "Prefect deployment"
    assert entry["changes"]["object"] == [None, gate.deployment(OURS)]


@pytest.mark.spec("1.10")
def test_a_managers_run_is_made_and_written_down_before_and_after(gate: Gateway) -> None:
    path = f"/deployments/{gate.deployment(OURS)}/create_flow_run"
    body = {"parameters": {"COMPANY_NAME": "Other"}, "job_variables": {}, "name": None}
    headers = {"X-PREFECT-UI": "true", "X-Request-ID": "run-of-a-manager"}
    with gate.as_("manager") as manager:
        run = manager.post(path, json=body, headers=headers)
        assert run.status_code == 201, run.text
        assert manager.get(f"/flow_runs/{run.json()['id']}").status_code == 200
    after, before = gate.settled_trail("run-of-a-manager")
    assert (before["action"], after["action"]) == ("intend", "create")
    assert before["door"] == after["door"] == "ui"
    assert before["changes"]["parameters"][1] == {"COMPANY_NAME": "Other"}
    assert after["changes"]["id"] == [None, run.json()["id"]]
    assert after["entity_id"] == gate.templates[OURS]["id"]
    assert after["company_id"] == gate.templates[OURS]["company_id"]


def test_a_user_operates_a_deployment_and_does_not_configure_it(gate: Gateway) -> None:
    path = f"/deployments/{gate.deployment(OURS)}"
    hourly = {"schedule": {"cron": "0 * * * *", "timezone": "UTC"}, "active": False}
    configuring = [
        ("PATCH", path, {"tags": ["x"]}),
        ("PATCH", path, {"paused": True, "parameters": {"COMPANY_NAME": "Other"}}),
        ("PATCH", path, {"schedules": [hourly]}),
        ("PATCH", path, {"description": "mine"}),
        ("POST", f"{path}/schedules", [hourly]),
        ("DELETE", f"{path}/schedules/{uuid4()}", None),
        ("PATCH", f"{path}/schedules/{uuid4()}", hourly),
    ]
    with gate.as_("runner") as runner:
        for method, where, body in configuring:
            refused = runner.request(method, where, json=body)
            assert refused.status_code == 403, (method, where, body, refused.text)
            assert "companies.update" in refused.json()["message"]
        for paused in (True, False):
            assert runner.patch(path, json={"paused": paused}).is_success
        assert runner.post(f"{path}/pause_deployment").is_success
        assert runner.post(f"{path}/resume_deployment").is_success
        toggled = runner.patch(f"{path}/schedules/{uuid4()}", json={"active": False})
        assert toggled.status_code == 404  # Prefect was asked
        assert runner.post(f"{path}/create_flow_run", json={}).is_success
    with gate.as_("manager") as manager:
        assert manager.patch(path, json={"description": "ours"}).is_success


@pytest.mark.parametrize("login", ["runner", "manager", "root"])
def test_parameters_that_the_application_does_not_declare_are_refused(
    gate: Gateway, login: str
) -> None:
    path = f"/deployments/{gate.deployment(OURS)}"
    named = {"COMPANY_NAM": "Other"}
    with gate.as_(login) as person:
        answer = person.post(f"{path}/create_flow_run", json={"parameters": named})
        assert answer.status_code == 400, answer.text
        (fault,) = answer.json()["details"]
        assert fault["pointer"] == "/parameters/COMPANY_NAM"
        assert "did you mean 'COMPANY_NAME'?" in fault["message"]
        bulk = [{}, {"parameters": {"BASH_ENV": "$(id)"}}]
        answer = person.post(f"{path}/create_flow_run/bulk", json=bulk)
        (fault,) = answer.json()["details"]
        assert fault["pointer"] == "/1/parameters/BASH_ENV"
    if login == "runner":
        return
    with gate.as_(login) as person:
        assert person.patch(path, json={"parameters": named}).status_code == 400
        of_schedule = [{"schedule": {"cron": "0 * * * *"}, "parameters": named}]
        assert person.post(f"{path}/schedules", json=of_schedule).status_code == 400


def test_another_companys_deployment_is_not_there(gate: Gateway) -> None:
    path = f"/deployments/{gate.deployment(THEIRS)}"
    with gate.as_("manager") as manager:
        assert manager.post(f"{path}/create_flow_run", json={}).status_code == 404
        assert manager.patch(path, json={"paused": True}).status_code == 404
        assert manager.delete(path).status_code == 404
        run = gate.run(THEIRS)
        state = {"state": {"type": "CANCELLED"}}
        assert manager.post(f"/flow_runs/{run}/set_state", json=state).status_code == 404
        listed = {"flow_runs": {"id": {"any_": [run]}}}
        bulk = manager.post("/flow_runs/bulk_set_state", json=listed | state)
        assert bulk.json().get("results", []) == []
    with gate.as_("root") as root:
        assert root.get(f"/flow_runs/{run}").json()["state_type"] == "SCHEDULED"


@pytest.mark.parametrize(
    ("path", "body", "member"),
    [
        ("/create_flow_run", {"job_variables": {"command": "id"}}, "job_variables"),
        ("/create_flow_run", {"work_queue_name": "other"}, "work_queue_name"),
        ("/create_flow_run", {"parent_task_run_id": "x"}, "parent_task_run_id"),
        ("", {"entrypoint": "evil.py:flow"}, "entrypoint"),
        ("", {"pull_steps": [{"x": {}}]}, "pull_steps"),
        ("", {"path": "/tmp"}, "path"),
        ("", {"work_pool_name": "other"}, "work_pool_name"),
        ("", {"work_pool_name": None}, "work_pool_name"),
        ("", {"entrypoint": ""}, "entrypoint"),
        ("", {"job_variables": {"env": {}}}, "job_variables"),
        ("/create_flow_run/bulk", [{}, {"job_variables": {"command": "id"}}], "job_variables"),
    ],
)
def test_where_and_what_prefect_runs_is_said_by_administrators(
    gate: Gateway, path: str, body: Any, member: str
) -> None:
    with gate.as_("manager") as manager:
        method = "POST" if path else "PATCH"
        answer = manager.request(method, f"/deployments/{gate.deployment(OURS)}{path}", json=body)
    assert answer.status_code == 403
    assert member in answer.json()["message"]


def test_values_are_not_taken_from_prefects_variables(gate: Gateway) -> None:
    inner = {"__prefect_kind": "workspace_variable", "variable_name": "x"}
    path = f"/deployments/{gate.deployment(OURS)}"
    with gate.as_("manager") as manager:
        for value in (inner, [inner], {"__prefect_kind": "json", "value": inner}):
            body = {"parameters": {"COMPANY_NAME": value}}
            assert manager.post(f"{path}/create_flow_run", json=body).status_code == 403
            assert manager.patch(path, json=body).status_code == 403
            checked = {"schema": {}, "values": body["parameters"]}
            assert manager.post("/ui/schemas/validate", json=checked).status_code == 403
        plain = {"__prefect_kind": "json", "value": '"x"'}
        schema = manager.get(path).json()["parameter_openapi_schema"]
        body = {"schema": schema, "values": {"COMPANY_NAME": plain}}
        assert manager.post("/ui/schemas/validate", json=body).status_code == 200


def test_a_manager_pauses_cancels_and_deletes_no_more_than_the_role_allows(gate: Gateway) -> None:
    deployment, run = gate.deployment(OURS), gate.run(OURS)
    with gate.as_("manager") as manager:
        paused = manager.post(f"/deployments/{deployment}/pause_deployment")
        assert paused.is_success
        manager.post(f"/deployments/{deployment}/resume_deployment")
        state = {"state": {"type": "CANCELLED"}, "force": True}
        set_ = manager.post(f"/flow_runs/{run}/set_state", json=state)
        assert set_.json()["status"] == "ACCEPT"
        refused = manager.delete(f"/flow_runs/{run}")
        assert refused.status_code == 403
        assert "jobs.delete" in refused.json()["message"]
    with gate.as_("viewer") as viewer:
        assert viewer.post(f"/flow_runs/{run}/set_state", json=state).status_code == 403
    wanted = {"action": "update", "actor": "manager", "entity_type": "Prefect flow run"}
    eventually(lambda: gate.trail(**wanted))


@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("/work_pools/", {"name": "x", "type": "process"}),
        ("/variables/", {"name": "x", "value": "y"}),
        ("/automations/", {}),
        ("/block_types/", {"name": "x", "slug": "x"}),
        ("/block_documents/", {}),
        ("/flows/", {"name": "x"}),
        ("/deployments/", {}),
        ("/flow_runs/", {}),
        ("/logs/", []),
    ],
)
def test_managers_make_nothing_that_is_everybodys(gate: Gateway, path: str, body: Any) -> None:
    with gate.as_("manager") as manager:
        answer = manager.post(path, json=body)
    assert answer.status_code == 403
    assert "administrators" in answer.json()["message"]


def test_an_administrator_changes_everything_and_secrets_are_masked_in_the_trail(
    gate: Gateway,
) -> None:
    with gate.as_("root") as root:
        headers = {"X-Request-ID": "variable"}
        body = {"name": "gate_variable", "value": "s3cret-of-a-variable"}
        made = ok(root.post("/variables/", json=body, headers=headers), 201)
        path = f"/variables/{made['id']}"
        headers = {"X-Request-ID": "variable-2"}
        changed = root.patch(path, json=body | {"tags": ["a"]}, headers=headers)
        assert changed.is_success, changed.text
        assert root.delete(path).is_success
        path = f"/deployments/{gate.deployment(OURS)}/create_flow_run"
        body = {"job_variables": {"env": {"PASSWORD": "s3cret-of-a-run"}}}
        assert root.post(path, json=body).is_success
    after, *_, before = gate.settled_trail("variable")
    assert before["changes"]["name"] == [None, "gate_variable"]
    assert after["action"] == "create"
    after, *_, before = gate.settled_trail("variable-2")
    assert before["changes"]["tags"] == [[], ["a"]]
    assert "s3cret" not in str(gate.rest.get("/auditlog.json").json())


def test_what_prefect_refuses_is_written_down_as_failed(gate: Gateway) -> None:
    with gate.as_("root") as root:
        headers = {"X-Request-ID": "bad-variable"}
        assert root.post("/variables/", json={"name": "B A D"}, headers=headers).status_code == 422
    after, before = gate.settled_trail("bad-variable")
    assert (before["action"], after["action"]) == ("intend", "fail")
    assert after["changes"]["http_status"] == [None, 422]


def test_what_this_service_does_itself_is_not_written_down_twice(gate: Gateway) -> None:
    body = {"id": gate.templates[OURS]["id"], "note": "changed over REST"}
    gate.rest.post("/runtemplate/", json=body).raise_for_status()
    found = gate.rest.get("/auditlog.json", params={"limit": 100}).json().values()
    assert not [one for one in found if one["actor"] == "jobauto service"]


def test_guesses_are_counted_as_at_the_facade(gate: Gateway) -> None:
    codes = []
    for number in range(3):
        with gate.as_("guessed", f"wrong {number}") as guesser:
            codes.append(guesser.get("/version").status_code)
    login = f"{gate.settings.url}/api/v1/login.json"
    for number in range(3, 6):
        guess = {"login": "guessed", "password": f"wrong {number}"}
        codes.append(httpx.post(login, json=guess).status_code)
    assert codes == [401] * 5 + [429]
    with gate.as_("guessed", PASSWORD) as owner:
        answer = owner.get("/version")
        assert answer.status_code == 429
        assert int(answer.headers["retry-after"]) > 0


def test_a_page_that_comes_with_an_old_password_is_one_failed_sign_in(gate: Gateway) -> None:
    """Prefect's pages ask for ten things at once, and again when they are loaded anew."""
    began = gate.ledger.clock()
    headers = {"X-PREFECT-UI": "true", "Sec-Fetch-Mode": "cors"}
    at_once = threading.Barrier(10)

    def ask(number: int) -> int:
        at_once.wait()
        path = ("/admin/settings", "/flow_runs/count", "/me")[number % 3]
        old = "manager", secret("the old password")
        return httpx.get(f"{gate.url}{path}", headers=headers, auth=old, timeout=60).status_code

    with ThreadPoolExecutor(10) as page:
        answers = list(page.map(ask, range(30)))
    assert set(answers) == {401}
    entries = select(AuditEntry).where(
        AuditEntry.entity_type == "Login", AuditEntry.created_at >= began
    )
    assert [entry.action for entry in fetch_all(gate.ledger, entries)] == ["refuse"]
    with gate.as_("manager") as manager:
        assert manager.get("/version").status_code == 200


@contextmanager
def ten_running_jobs(gate: Gateway) -> Iterator[None]:
    """What ten jobs that begin, write lines and end all the time have Prefect write."""
    is_over = threading.Event()
    deployment = gate.deployment(OURS)
    header = service_authorization(gate.ledger.box)

    async def tell(api: PrefectApi) -> None:
        path = f"/deployments/{deployment}/create_flow_run"
        while not is_over.is_set():
            run = UUID((await api.post(path, {}))["id"])
            await propose(api, run, "RUNNING")
            line = {"name": "job", "level": 20, "message": "a line", "flow_run_id": str(run)}
            for _ in range(5):
                moment = datetime.now(UTC).isoformat()
                await api.post("/logs/", [line | {"timestamp": moment}])
                await asyncio.sleep(1)
            await propose(api, run, "COMPLETED")

    async def tell_all() -> None:
        async with PrefectApi(gate.url, authorization=header) as api:
            await asyncio.gather(*(tell(api) for _ in range(10)))

    with ThreadPoolExecutor(1) as thread:
        telling = thread.submit(asyncio.run, tell_all())
        try:
            yield
        finally:
            is_over.set()
        telling.result(60)


def test_clicks_beside_running_jobs_do_not_fail(gate: Gateway) -> None:
    """SQLite refuses a transaction that has read before somebody else wrote."""
    path = f"{gate.url}/deployments/{gate.deployment(OURS)}"
    clicks = [("create_flow_run", {}), ("pause_deployment", None), ("resume_deployment", None)]

    def click(number: int) -> str:
        button, body = clicks[max(0, number % 5 - 2)]
        headers = {"X-PREFECT-UI": "true", "X-Request-ID": f"click-{number}"}
        person = ("manager", "root")[number % 2], PASSWORD
        # The tests' own client would repeat what is busy.
        answer = httpx.post(f"{path}/{button}", json=body, headers=headers, auth=person, timeout=60)
        return "" if answer.is_success else f"{button}: {answer.status_code} {answer.text}"

    with ten_running_jobs(gate), ThreadPoolExecutor(4) as hands:
        failures = list(filter(None, hands.map(click, range(100))))
    assert failures == []
    entries = gate.settled_trail("click-40")
    assert [entry["action"] for entry in entries] == ["create", "intend"]
