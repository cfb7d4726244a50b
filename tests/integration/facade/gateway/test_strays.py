"""Flow runs in a work pool of ours that are of no run template: ended with the reason, at once."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path
from typing import Any
from uuid import UUID

import httpx
import pytest

from jobauto_prefect.ledger.audit.trail import SERVICE
from jobauto_prefect.ledger.outbox import OutboxKind, enqueue, remove
from jobauto_prefect.ledger.records import RunTemplate
from tests.support.gateway import OURS, Gateway
from tests.support.processes import running
from tests.support.servers import worker_token
from tests.support.waits import PATIENCE, eventually

STRAYS = 80
ENDED_WITHIN = 30  # seconds, once a worker has begun: what is promised of one or two


@pytest.fixture
def root(gate: Gateway) -> Iterator[httpx.Client]:
    with gate.as_("root") as client:
        yield client


def copied(root: httpx.Client, gate: Gateway, name: str, pool: str = "jobauto") -> str:
    """A copy of a run template's deployment, as Prefect's page makes one; its id."""
    original = root.get(f"/deployments/{gate.deployment(OURS)}").raise_for_status().json()
    body = {"name": name, "flow_id": original["flow_id"], "work_pool_name": pool}
    body |= {"entrypoint": original["entrypoint"], "path": original["path"]}
    return str(root.post("/deployments/", json=body).raise_for_status().json()["id"])


def clicked(root: httpx.Client, deployment: str) -> str:
    answer = root.post(f"/deployments/{deployment}/create_flow_run", json={})
    return str(answer.raise_for_status().json()["id"])


def states(root: httpx.Client, runs: list[str]) -> dict[str, dict[str, Any]]:
    body = {"flow_runs": {"id": {"any_": runs}}}
    return {run["id"]: run for run in root.post("/flow_runs/filter", json=body).json()}


def ended(
    root: httpx.Client, runs: list[str], seconds: float = ENDED_WITHIN
) -> dict[str, dict[str, Any]]:
    """The runs, once all of them have ended, so soon after a worker has begun."""

    def over() -> dict[str, dict[str, Any]]:
        found = states(root, runs)
        types = {run["state_type"] for run in found.values()}
        return found if types <= {"COMPLETED", "FAILED", "CANCELLED", "CRASHED"} else {}

    eventually(lambda: {run["state_type"] for run in states(root, runs).values()} - {"SCHEDULED"})
    return eventually(over, seconds)


@contextmanager
def worker(gate: Gateway, home: Path, kind: str, pool: str, *options: str) -> Iterator[None]:
    argv = [sys.executable, "-m", "prefect", "worker", "start", "--type", kind, "--pool", pool]
    environment = gate.environment("unused") | {
        "PREFECT_API_AUTH_STRING": f"worker:{worker_token(gate.ledger, pool)}",
        "PREFECT_HOME": str(home),
        "JOBAUTO_URL": gate.settings.url,
        "JOBAUTO_WORKER_TOKEN": worker_token(gate.ledger, pool),
        "JOBAUTO_HOME": str(home),
        "JOBAUTO_CONFIG_DIR": str(home),
    }
    with running([*argv, *options], environment, home / "worker.log"):
        yield


def refusals(gate: Gateway, target: str) -> list[dict[str, Any]]:
    entries = gate.trail(action="refuse")
    return [entry for entry in entries if target in str(entry["changes"])]


def test_strays_fail_with_the_reason_and_are_in_nobodys_way(
    gate: Gateway, root: httpx.Client, tmp_path: Path
) -> None:
    stray = copied(root, gate, "a copy")
    body = [{"parameters": {}} for _ in range(STRAYS)]
    answer = root.post(f"/deployments/{stray}/create_flow_run/bulk", json=body)
    assert answer.is_success, answer.text
    runs = [result["flow_run_id"] for result in answer.json()["results"]]
    real = clicked(root, gate.deployment(OURS))
    with worker(gate, tmp_path, "jobauto", "jobauto", "--limit", "1"):
        found = ended(root, [*runs, real], PATIENCE)
    assert found[real]["state_type"] == "COMPLETED", found[real]["state"]
    for run in runs:
        assert found[run]["state_type"] == "FAILED"
        assert "start the run template" in found[run]["state"]["message"]
    assert found[real]["start_time"] < max(found[run]["end_time"] for run in runs)
    assert len(refusals(gate, stray)) == 1
    for run in runs:
        assert refusals(gate, run) == []
    root.delete(f"/deployments/{stray}")


def test_a_run_without_a_deployment_fails_with_the_reason(
    gate: Gateway, root: httpx.Client, tmp_path: Path
) -> None:
    flow = root.get(f"/deployments/{gate.deployment(OURS)}").json()["flow_id"]
    body = {"flow_id": flow, "work_pool_name": "jobauto", "state": {"type": "SCHEDULED"}}
    runs = [str(root.post("/flow_runs/", json=body).json()["id"]) for _ in range(2)]
    with worker(gate, tmp_path, "jobauto", "jobauto"):
        found = ended(root, runs)
    assert {run["state_type"] for run in found.values()} == {"FAILED"}
    refused = refusals(gate, "work pool jobauto")
    assert [entry["door"] for entry in refused].count("prefect-api") == 1


def test_a_stray_before_prefects_own_worker_fails_with_the_reason(
    gate: Gateway, root: httpx.Client, tmp_path: Path
) -> None:
    root.post("/work_pools/", json={"name": "plain", "type": "process"}).raise_for_status()
    stray = copied(root, gate, "a copy for processes", "plain")
    runs = [clicked(root, stray) for _ in range(2)]
    with worker(gate, tmp_path, "process", "plain"):
        found = ended(root, runs)
    assert {run["state_type"] for run in found.values()} == {"FAILED"}
    assert "start the run template" in found[runs[0]]["state"]["message"]
    assert len(refusals(gate, stray)) == 1


def test_a_run_of_a_deployment_that_is_not_noted_yet_waits(
    gate: Gateway, root: httpx.Client, tmp_path: Path
) -> None:
    """Who applied the run template was killed between Prefect's answer and the note of it."""
    stray = copied(root, gate, "a copy beside it")
    deployment, template = UUID(gate.deployment(OURS)), gate.templates[OURS]["id"]
    with gate.ledger.writing(SERVICE) as session:
        session.get_one(RunTemplate, template).deployment_id = None
        killed = enqueue(session, OutboxKind.APPLY_TEMPLATE, template)
        killed.taken_until = session.clock() + timedelta(hours=1)
    real, after = clicked(root, str(deployment)), clicked(root, stray)
    with gate.as_("worker", gate.worker_token) as own:  # Prefect's own worker asks again
        body = {"state": {"type": "PENDING"}}
        assert own.post(f"/flow_runs/{real}/set_state", json=body).status_code == 503
    with worker(gate, tmp_path, "jobauto", "jobauto", "--limit", "1"):
        assert ended(root, [after])[after]["state_type"] == "FAILED"
        assert states(root, [real])[real]["state_type"] == "SCHEDULED"
        with gate.ledger.writing(SERVICE) as session:
            session.get_one(RunTemplate, template).deployment_id = deployment
            remove(session, killed)
        assert ended(root, [real])[real]["state_type"] == "COMPLETED"


def test_a_worker_ends_no_run_of_another_pool(gate: Gateway, root: httpx.Client) -> None:
    stray = clicked(root, copied(root, gate, "another copy"))
    body = {"state": {"type": "FAILED"}}
    with gate.as_("worker", worker_token(gate.ledger, "elsewhere")) as other:
        assert other.post(f"/flow_runs/{stray}/set_state", json=body).status_code == 404
    assert states(root, [stray])[stray]["state_type"] == "SCHEDULED"
    real = gate.run(OURS)
    with gate.as_("worker", gate.worker_token) as own:  # a run template's is the worker's to tell
        own.post(f"/flow_runs/{real}/set_state", json={"state": {"type": "PENDING"}})
    assert states(root, [real])[real]["state_type"] == "PENDING"
