"""The burst of two Prefect API servers, two facades and two workers, beside that of one each.

    python -m benchmarks.replicas --json

On PostgreSQL. The yardstick is the same burst with one of each, in the same run. Each pair of
facade and worker has a Prefect API server of its own; the servers share their database.
"""

import os
import sys

import httpx

from benchmarks.burst import burst, template_of
from benchmarks.cpu import cpu_of, used_between
from benchmarks.stack import Stack, eventually, free_port, report, stack, worker_token
from jobauto_prefect.engine.prefect_server.process import prefect_command

JOBS = 200
WARM = 16
GOAL_RATIO = 1.6


def _start_second(running: Stack) -> str:
    """Start a second of each; return where the second facade is."""
    prefect_port, api_port = free_port(), free_port()
    url, prefect = f"http://127.0.0.1:{api_port}", f"http://127.0.0.1:{prefect_port}/api"
    settings = running.settings.model_copy(
        update={"prefect_port": prefect_port, "prefect_api_url": prefect}
    )
    argv, environment = prefect_command(settings, running.environment)
    shared = running.prefect_database.replace("postgresql://", "postgresql+asyncpg://")
    environment["PREFECT_SERVER_DATABASE_CONNECTION_URL"] = shared
    running.start("prefect 2", argv, **environment)
    eventually(lambda: httpx.get(f"{prefect}/health").is_success)
    told = {"PREFECT_API_URL": prefect, "JOBAUTO_URL": url, "JOBAUTO_API_PORT": str(api_port)}
    jobauto = [sys.executable, "-m", "jobauto_prefect.cli"]
    running.start("api 2", [*jobauto, "api", "start"], **told)
    eventually(lambda: httpx.get(f"{url}/api/v1/ping.json").is_success)
    told["JOBAUTO_WORKER_TOKEN"] = worker_token(running, "jobauto")
    (running.home / "second").mkdir()
    told["JOBAUTO_HOME"] = str(running.home / "second")
    worker = [*jobauto, "worker", "start", "--pool", "jobauto", "--name", "second"]
    running.start("worker 2", worker, **told)
    eventually(lambda: _workers(running) == 2)
    return f"{url}/api/v1"


def _workers(running: Stack) -> int:
    found = running.prefect.post("/work_pools/jobauto/workers/filter", json={}).json()
    return sum(worker["status"] == "ONLINE" for worker in found)


def _measured(running: Stack, template: int, *urls: str) -> tuple[float, dict[str, float]]:
    """Jobs per second, and how many cores each part used meanwhile."""
    burst(running, template, WARM, *urls)
    before = cpu_of(running)
    seconds = burst(running, template, JOBS, *urls)
    used = used_between(before, cpu_of(running))
    return JOBS / seconds, {name: round(cpu / seconds, 2) for name, cpu in used.items()}


def measure() -> dict[str, object]:
    """The figures, as one JSON object."""
    with stack() as running:
        running.start_worker()
        template = template_of(running, "jobauto")
        running.applied()
        one, cores_of_one = _measured(running, template)
        second = _start_second(running)
        two, cores_of_two = _measured(running, template, f"{running.settings.url}/api/v1", second)
    return {
        "name": "replicas",
        "value": round(two, 2),
        "unit": "jobs per second, two of each",
        "yardstick": "one of each",
        "yardstick_value": round(one, 2),
        "ratio": round(two / one, 2),
        "goal": f"at least {GOAL_RATIO:g} times, on a machine with the cores for it",
        "met": two / one >= GOAL_RATIO,
        "cores": os.cpu_count(),
        "cores_of_one": cores_of_one,
        "cores_of_two": cores_of_two,
    }


if __name__ == "__main__":
    report(measure, __doc__)
