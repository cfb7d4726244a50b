"""From POST /job/, or a click on Run in Prefect, to the job's process.

    python -m benchmarks.start_latency --json

Idle, one job after the other. Yardsticks on the same servers: the floor's whole single job (see
benchmarks/floor.py), and Prefect's process worker with the same application.
"""

import statistics
import sys
import time
from functools import partial
from pathlib import Path

from benchmarks.burst import deployment_of
from benchmarks.floor import floor
from benchmarks.stack import Stack, eventually, report, stack, worker_token

GOAL_POSTED = 1.2
GOAL_CLICKED = 1.5
JOBS = 50
CLICKED_JOBS = 20
STOCK_JOBS = 5  # each takes seconds
PAUSE_SECONDS = 0.5  # between jobs: idle means idle

SCRIPT = """#!/bin/sh
date +%s.%N > "$STARTED.new" && mv "$STARTED.new" "$STARTED"
"""


def _definition(executable: Path) -> dict[str, object]:
    return {
        "$schema": "https://example.com/application.schema.json",
        "name": "Start latency",
        "description": "Writes down when it was started",
        "executable": str(executable),
        "environment": {"STARTED": {"type": "string", "required": True}},
    }


def templates_of(running: Stack, *pools: str) -> dict[str, int]:
    """A template for each pool, of a program that notes when it was started: pool -> its id."""
    executable = running.home / "started"
    executable.write_text(SCRIPT)
    executable.chmod(0o755)
    app = running.post("/app/", _definition(executable))
    running.post("/company/", {"slug": "bench", "name": "Bench"})
    common = {"app_id": app["id"], "company": "bench", "env": {"STARTED": "-"}}
    return {
        pool: running.post("/runtemplate/", {**common, "name": pool, "pool": pool})["id"]
        for pool in pools or ("jobauto", "stock")
    }


def start_workers(running: Stack) -> None:
    """A jobauto worker for the pool jobauto, a process worker of Prefect for the pool stock."""
    secret = worker_token(running, "jobauto", "stock")
    jobauto = [sys.executable, "-m", "jobauto_prefect.cli", "worker", "start", "--pool", "jobauto"]
    prefect = [sys.executable, "-m", "prefect", "worker", "start", "--pool", "stock"]
    running.start("jobauto-worker", jobauto, JOBAUTO_WORKER_TOKEN=secret)
    running.start("stock-worker", [*prefect, "--type", "process"], JOBAUTO_WORKER_TOKEN=secret)
    for pool in ("jobauto", "stock"):
        eventually(partial(running.is_served, pool))


def _milliseconds(running: Stack, template: int, number: int) -> float:
    """From just before POST /job/ to the first act of the process."""
    mark = running.home / f"started-{template}-{number}"
    body = {"runtemplate_id": template, "env": {"STARTED": str(mark)}}
    posted = time.time()
    job = running.post("/job/", body)
    eventually(mark.exists)
    started = float(mark.read_text())
    eventually(lambda: running.rest.get(f"/job/{job['id']}.json").json()["end"])
    time.sleep(PAUSE_SECONDS)
    return (started - posted) * 1000


def _clicked_ms(running: Stack, deployment: str, number: int) -> float:
    """From just before the request of Prefect's UI to the first act of the process."""
    mark = running.home / f"clicked-{number}"
    clicked = time.time()
    body = {"parameters": {"STARTED": str(mark)}, "state": {"type": "SCHEDULED"}}
    path = f"/deployments/{deployment}/create_flow_run"
    run = running.prefect.post(path, json=body).raise_for_status().json()["id"]
    eventually(mark.exists)
    started = float(mark.read_text())
    eventually(lambda: running.prefect.get(f"/flow_runs/{run}").json()["end_time"])
    time.sleep(PAUSE_SECONDS)
    return (started - clicked) * 1000


def _row(name: str, value: float, yardstick: float, goal: float) -> dict[str, object]:
    ratio = value / yardstick
    return {
        "name": name,
        "value": round(value, 1),
        "unit": "ms until the process starts, idle, median",
        "yardstick": "the floor's whole single job",
        "yardstick_value": round(yardstick, 1),
        "ratio": round(ratio, 2),
        "goal": f"at most {goal:g} times",
        "met": ratio <= goal,
    }


def measure() -> list[dict[str, object]]:
    """The figures of posted and of clicked jobs."""
    with stack() as running:
        running.prefect.post("/work_pools/", json={"name": "stock", "type": "process"})
        templates = templates_of(running)
        running.applied()
        start_workers(running)
        for template in templates.values():
            _milliseconds(running, template, 0)  # warm
        ours = [_milliseconds(running, templates["jobauto"], n) for n in range(1, JOBS + 1)]
        deployment = deployment_of(running, templates["jobauto"])
        clicked = [_clicked_ms(running, deployment, number) for number in range(CLICKED_JOBS)]
        stock = [_milliseconds(running, templates["stock"], n) for n in range(1, STOCK_JOBS + 1)]
        running.pause()
        single = floor(running, deployment, JOBS, 1)["median"] * 1000
    posted = _row("start: posted", statistics.median(ours), single, GOAL_POSTED)
    posted["stock_ms"] = round(statistics.median(stock), 1)
    posted["slowest"] = round(max(ours), 1)
    return [posted, _row("start: clicked", statistics.median(clicked), single, GOAL_CLICKED)]


if __name__ == "__main__":
    report(measure, __doc__)
