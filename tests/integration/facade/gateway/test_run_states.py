"""States that a worker gives to some of its flow runs at once."""

from collections.abc import Iterator
from typing import Any
from uuid import uuid4

import httpx
import pytest

from jobauto_prefect.facade.gateway.asgi import create_middleware
from jobauto_prefect.ledger.records import Job
from jobauto_prefect.ledger.store import Ledger
from jobauto_prefect.settings import Settings
from tests.support.asgi_server import serving
from tests.support.counting_proxy import counting_app
from tests.support.gateway import OURS, THEIRS, Gateway
from tests.support.ledger_rows import fetch
from tests.support.ports import free_port
from tests.support.records import make_template, pointers
from tests.support.servers import client, facade, prefect_client, user_token, worker_token
from tests.support.waits import eventually

PATH = "/flow_runs/bulk_set_state"


def states_of(runs: list[str], state: str = "RUNNING", **more: Any) -> dict[str, Any]:
    """What a worker sends for some flow runs."""
    named = {"id": {"any_": runs}}
    return {"flow_runs": named, "state": {"type": state}, "limit": len(runs), **more}


@pytest.fixture
def worker(gate: Gateway) -> Iterator[httpx.Client]:
    with prefect_client(gate.url, auth=("worker", gate.worker_token)) as http:
        yield http


def shown(gate: Gateway, runs: list[str]) -> set[str]:
    with gate.as_("root") as root:
        return {root.get(f"/flow_runs/{run}").json()["state_type"] for run in runs}


def test_a_worker_gives_runs_of_its_pools_the_states_of_jobs_that_begin_and_succeed(
    gate: Gateway, worker: httpx.Client
) -> None:
    runs = [gate.run(OURS), gate.run(THEIRS)]  # both companies run in its pool
    for state in ("RUNNING", "COMPLETED"):
        body = states_of([run.upper() for run in runs], state)
        results = worker.post(PATH, json=body).raise_for_status().json()["results"]
        assert {result["flow_run_id"]: result["status"] for result in results} == dict.fromkeys(
            runs, "ACCEPT"
        )
        assert shown(gate, runs) == {state}


def test_a_worker_does_not_run_what_somebody_cancelled(gate: Gateway, worker: httpx.Client) -> None:
    run = gate.run(OURS)
    with gate.as_("manager") as manager:
        cancelled = {"state": {"type": "CANCELLED"}}
        manager.post(f"/flow_runs/{run}/set_state", json=cancelled).raise_for_status()
    (together,) = worker.post(PATH, json=states_of([run])).raise_for_status().json()["results"]
    proposed = {"state": {"type": "RUNNING"}}
    alone = worker.post(f"/flow_runs/{run}/set_state", json=proposed).raise_for_status().json()
    for answer in (together, alone):
        assert (answer["status"], answer["state"]["type"]) == ("REJECT", "CANCELLED")
    assert shown(gate, [run]) == {"CANCELLED"}


def test_one_run_of_another_pool_refuses_all(gate: Gateway, worker: httpx.Client) -> None:
    own, foreign = gate.run(OURS), str(uuid4())
    for named in ([own, foreign], [own, "none"], [foreign]):
        assert pointers(worker.post(PATH, json=states_of(named)))[0] == "/flow_runs/id/any_"
    elsewhere = worker_token(gate.ledger, "elsewhere")
    with prefect_client(gate.url, auth=("worker", elsewhere)) as other:
        assert other.post(PATH, json=states_of([own])).status_code == 400
    assert shown(gate, [own]) == {"SCHEDULED"}


@pytest.mark.parametrize(
    "changed",
    [
        {"force": True},
        {"force": False},
        {"state": {"type": "CANCELLED"}},
        {"state": {"type": "SCHEDULED"}},
        {"state": None},
        {"flow_runs": None},
        {"flow_runs": {"id": {"any_": []}}},
        {"flow_runs": {"state": {"type": {"any_": ["SCHEDULED"]}}}},
        {"flow_runs": {"id": {"not_any_": ["RUN"]}}},
        {"flow_runs": {"id": {"any_": ["RUN"]}, "name": {"any_": ["x"]}}},
        {"flow_runs": {"id": {"any_": ["RUN"]}, "operator": "or_"}},
        {"deployments": {"id": {"any_": []}}},
    ],
    ids=str,
)
def test_a_worker_asks_for_nothing_else_at_once(
    gate: Gateway, worker: httpx.Client, changed: dict[str, Any]
) -> None:
    run = gate.run(OURS)
    body = states_of([run]) | changed
    if isinstance(named := body["flow_runs"], dict) and "id" in named:
        body["flow_runs"] = {
            **named,
            "id": {
                name: [run if value == "RUN" else value for value in values]
                for name, values in named["id"].items()
            },
        }
    answer = worker.post(PATH, json=body)
    assert answer.status_code == 403, answer.text
    assert shown(gate, [run]) == {"SCHEDULED"}


def test_whose_a_run_is_that_the_service_created_is_not_asked_for_again(
    ledger: Ledger, facade_settings: Settings, prefect_server: str
) -> None:
    port = free_port()
    settings = facade_settings.model_copy(
        update={"prefect_api_url": f"http://127.0.0.1:{port}/api"}
    )
    calls = list[str]()
    gateway = create_middleware(settings, ledger, counting_app(prefect_server, calls), "a:b")
    with (
        serving(gateway, settings, port=port),
        facade(settings, ledger) as url,
        client(f"{url}/api/v1", user_token(ledger)) as rest,
        prefect_client(
            settings.prefect_api_url, auth=("worker", worker_token(ledger, settings.pool))
        ) as worker,
    ):
        template = make_template(rest)
        body = {"runtemplate_id": template["id"]}
        jobs = [rest.post("/job/", json=body).raise_for_status().json()["id"] for _ in range(12)]
        runs = eventually(lambda: bound(ledger, jobs))
        calls.clear()
        for state in ("RUNNING", "COMPLETED"):
            answer = worker.post(PATH, json=states_of(runs, state)).raise_for_status()
            assert {result["status"] for result in answer.json()["results"]} == {"ACCEPT"}
    assert calls == [f"POST {PATH}"] * 2


def bound(ledger: Ledger, jobs: list[int]) -> list[str]:
    """The flow runs of jobs, once all have one."""
    runs = [fetch(ledger, Job, job).flow_run_id for job in jobs]
    return [str(run) for run in runs] if all(runs) else []
