"""A burst of 200 jobs of /bin/true through POST /job/, until Prefect shows the last end.

    python -m benchmarks.burst --json

On PostgreSQL, one Prefect server, one facade, one worker. Yardsticks of the same run, on the same
servers: the floor (see benchmarks/floor.py), and Prefect's process worker with a few jobs. CPU is
that of all processes, PostgreSQL's connections included.
"""

import asyncio
import itertools
import subprocess
import time
from typing import Any

import httpx
from sqlalchemy import select

from benchmarks.airflow import airflow_rate
from benchmarks.cpu import cpu_of, used_between
from benchmarks.floor import floor
from benchmarks.stack import Stack, eventually, report, stack, worker_token
from jobauto_prefect.ledger.records import RunTemplate

JOBS = 200
STOCK_JOBS = 8  # each takes seconds
AT_ONCE = 8
GOAL_RATIO = 0.8
GOAL_STOCK = 30.0
GOAL_AIRFLOW = 2.0
GOAL_CPU = 1.6

DEFINITION = {
    "$schema": "https://example.com/application.schema.json",
    "name": "True",
    "description": "Says nothing",
    "executable": "/bin/true",
    "environment": {},
}
OVER = ["COMPLETED", "FAILED", "CRASHED", "CANCELLED"]


def template_of(running: Stack, pool: str, name: str = "true") -> int:
    """A run template of /bin/true in this pool; application and company are made where missing."""
    known = running.rest.get("/apps.json").json()
    app = next(iter(known), None) or running.post("/app/", DEFINITION)["id"]
    if not running.rest.get("/companies.json").json():
        running.post("/company/", {"slug": "bench", "name": "Bench"})
    body = {"app_id": int(app), "company": "bench", "name": f"{name} {pool}", "pool": pool}
    return int(running.post("/runtemplate/", body)["id"])


def deployment_of(running: Stack, template: int) -> str:
    """The id of its deployment in Prefect."""
    running.applied()
    query = select(RunTemplate.deployment_id).where(RunTemplate.id == template)
    [(deployment,)] = running.recorded(query)
    return str(deployment)


def post_jobs(running: Stack, template: int, jobs: int, *urls: str) -> None:
    """So many at a time as the floor has in hand, to these facades in turn (default: the only)."""

    async def post_all() -> None:
        left = iter(range(jobs))
        headers = dict(running.rest.headers)
        bases = urls or (f"{running.settings.url}/api/v1",)

        async def post_some(http: httpx.AsyncClient, base: str) -> None:
            for _ in left:
                answer = await http.post(f"{base}/job/", json={"runtemplate_id": template})
                answer.raise_for_status()

        async with httpx.AsyncClient(headers=headers, timeout=60) as http:
            turns = zip(range(AT_ONCE), itertools.cycle(bases), strict=False)
            await asyncio.gather(*(post_some(http, base) for _, base in turns))

    asyncio.run(post_all())


def ended(running: Stack) -> int:
    """How many flow runs Prefect shows as over."""
    wanted = {"flow_runs": {"state": {"type": {"any_": OVER}}}}
    count: int = running.prefect.post("/flow_runs/count", json=wanted).json()
    return count


def burst(running: Stack, template: int, jobs: int, *urls: str) -> float:
    """Seconds from the first POST until Prefect shows so many more ends."""
    before, began = ended(running), time.perf_counter()
    post_jobs(running, template, jobs, *urls)
    eventually(lambda: ended(running) >= before + jobs, 300)
    return time.perf_counter() - began


def measured(running: Stack) -> dict[str, Any]:
    """Figures of ours and of the floor, in this order."""
    running.start_worker()
    template = template_of(running, "jobauto")
    deployment = deployment_of(running, template)
    burst(running, template, 2 * AT_ONCE)  # warm
    before = cpu_of(running)
    seconds = burst(running, template, JOBS)
    ours = used_between(before, cpu_of(running))
    # The floor's own runs are no worker's: their pool is paused.
    running.pause()
    before = cpu_of(running)
    bare = floor(running, deployment, JOBS, AT_ONCE)
    servers = used_between(before, cpu_of(running))
    of_floor = servers["prefect"] + servers["postgresql"] + bare["cpu"]
    return {
        "value": round(JOBS / seconds, 2),
        "yardstick_value": round(JOBS / bare["seconds"], 2),
        "cpu_ms": {name: round(used / JOBS * 1000, 1) for name, used in ours.items()},
        "floor_cpu_ms": round(of_floor / JOBS * 1000, 1),
    }


def stock_rate(running: Stack) -> float:
    """Jobs per second of Prefect's process worker."""
    import sys

    running.prefect.post("/work_pools/", json={"name": "stock", "type": "process"})
    template = template_of(running, "stock")
    running.applied()
    argv = [sys.executable, "-m", "prefect", "worker", "start", "--pool", "stock"]
    secret = worker_token(running, "stock")
    running.start("stock", [*argv, "--type", "process"], JOBAUTO_WORKER_TOKEN=secret)
    eventually(lambda: running.is_served("stock"))
    return STOCK_JOBS / burst(running, template, STOCK_JOBS)


def airflow_figures(ours: float) -> dict[str, Any]:
    """Airflow's rate beside ours, or what it failed with; not installed, it is no obstacle."""
    try:
        rate = airflow_rate()
    except (TimeoutError, httpx.HTTPError, subprocess.CalledProcessError) as error:
        return {"airflow_met": False, "airflow_error": f"{type(error).__name__}: {error}"}
    if rate is None:
        return {"airflow_met": True}
    return {
        "airflow_met": ours >= GOAL_AIRFLOW * rate,
        "airflow_per_second": round(rate, 2),
        "airflow_ratio": round(ours / rate, 1),
    }


def measure() -> dict[str, object]:
    """The figures, as one JSON object."""
    with stack() as running:
        found = measured(running)
        stock = stock_rate(running)
    airflow = airflow_figures(found["value"])
    ratio = found["value"] / found["yardstick_value"]
    cpu = found["cpu_ms"]["all"] / found["floor_cpu_ms"]
    return {
        "name": "burst",
        "value": found["value"],
        "unit": "jobs per second, 200 at once",
        "yardstick": "the floor: create, Running, /bin/true, Completed",
        "yardstick_value": found["yardstick_value"],
        "ratio": round(ratio, 2),
        "goal": f"at least {GOAL_RATIO:.0%} of the floor, {GOAL_AIRFLOW:g} times Airflow and"
        f" {GOAL_STOCK:g} times the stock worker, at most {GOAL_CPU:g} times the CPU",
        "met": ratio >= GOAL_RATIO
        and found["value"] >= GOAL_STOCK * stock
        and airflow["airflow_met"]
        and cpu <= GOAL_CPU,
        "cpu_ratio": round(cpu, 2),
        "stock_per_second": round(stock, 2),
        "stock_ratio": round(found["value"] / stock, 1),
        **airflow,
        "cpu_ms": found["cpu_ms"],
        "floor_cpu_ms": found["floor_cpu_ms"],
    }


if __name__ == "__main__":
    report(measure, __doc__)
