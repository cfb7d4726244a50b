"""`prefect deploy --all` beside a running service, and Prefect's process worker that runs it."""

import json
import re
import subprocess
from collections.abc import Iterator
from typing import Any

import httpx
import pytest

from jobauto_prefect.engine.job_flow import run_job
from tests.support.installed import installed_programs
from tests.support.paths import ROOT
from tests.support.processes import running
from tests.support.service import Service
from tests.support.waits import eventually

POOL = "processes"


@pytest.fixture(scope="module")
def prefect(
    service: Service, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[tuple[httpx.Client, str]]:
    """A client of Prefect's API and the id of the file's deployment, whose pool has a worker."""
    home = tmp_path_factory.mktemp("prefect")
    login, _ = service.admin()
    token = service.json("token", "issue", "--user", login)["token"]
    environment = service.environment | {
        "JOBAUTO_HOME": str(home),
        "JOBAUTO_CONFIG_DIR": str(home),
        "JOBAUTO_URL": service.url,
        "JOBAUTO_TOKEN": token,
        "PREFECT_API_URL": f"{service.prefect}/api",
        "PREFECT_API_AUTH_STRING": f"{login}:{token}",
        "PREFECT_HOME": str(home),
    }
    program = str(installed_programs() / "prefect")
    deploy = "--no-prompt deploy --all --prefect-file deployments/prefect.yaml"
    work = f"worker start --type process --pool {POOL}"
    with service.prefect_api() as client:
        pool = {"name": POOL, "type": "process"}
        client.post("/work_pools/", json=pool).raise_for_status()
        argv = [program, *deploy.split()]
        ran = subprocess.run(
            argv, env=environment, cwd=ROOT, capture_output=True, text=True, check=False
        )
        assert ran.returncode == 0, ran.stdout + ran.stderr
        with running([program, *work.split()], environment, home / "worker.log"):
            ours = {"work_pools": {"name": {"any_": [POOL]}}}
            (made,) = client.post("/deployments/filter", json=ours).json()
            yield client, made["id"]
        client.delete(f"/deployments/{made['id']}")


@pytest.mark.parametrize(
    ("parameters", "state", "message"),
    [
        ({}, "COMPLETED", "succeeded: "),
        ({"template": "acme/Probe that fails"}, "FAILED", "exit code 42 (error)"),
    ],
)
def test_a_run_of_the_deployment_ends_as_its_job(
    service: Service,
    prefect: tuple[httpx.Client, str],
    parameters: dict[str, Any],
    state: str,
    message: str,
) -> None:
    client, deployment = prefect
    body = {"parameters": parameters}
    answer = client.post(f"/deployments/{deployment}/create_flow_run", json=body)
    run = f"/flow_runs/{answer.raise_for_status().json()['id']}"

    def over() -> dict[str, Any] | None:
        found: dict[str, Any] = client.get(run).json()
        return found if found["state_type"] in ("COMPLETED", "FAILED", "CRASHED") else None

    ended = eventually(over, 120)

    assert ended["state_type"] == state, json.dumps(ended["state"])
    assert message in ended["state"]["message"]
    if told := re.match(r"job (\d+) (\w+)", ended["state"]["message"]):
        assert service.job(int(told[1]))["state"] == told[2]


async def test_a_run_that_gets_no_job_fails_and_says_why(
    service: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    login, _ = service.admin()
    monkeypatch.setenv("JOBAUTO_TOKEN", service.json("token", "issue", "--user", login)["token"])
    monkeypatch.setenv("JOBAUTO_URL", service.url)

    state = await run_job.fn("acme/None such")

    assert state.is_failed()
    assert "None such" in str(state.message)
