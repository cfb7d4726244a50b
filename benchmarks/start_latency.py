"""From POST /job/ to the job's process: the jobauto worker beside Prefect's process worker.

    python -m benchmarks.start_latency --json

Both run the same application, idle, one job after the other, on the same servers.
"""

import statistics
import sys
import time
from pathlib import Path

from benchmarks.stack import Stack, eventually, report, stack, token

GOAL_MS = 150.0
GOAL_RATIO = 20.0
JOBS = 20
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


def templates_of(running: Stack) -> dict[str, int]:
    """A template for each kind of worker: pool -> its id."""
    executable = running.home / "started"
    executable.write_text(SCRIPT)
    executable.chmod(0o755)
    app = running.post("/app/", _definition(executable))
    running.post("/company/", {"slug": "bench", "name": "Bench"})
    common = {"app_id": app["id"], "company": "bench", "env": {"STARTED": "-"}}
    return {
        pool: running.post("/runtemplate/", {**common, "name": pool, "pool": pool})["id"]
        for pool in ("jobauto", "stock")
    }


def start_workers(running: Stack) -> None:
    """A jobauto worker for the pool jobauto, a process worker of Prefect for the pool stock."""
    worker_token = token(running, "--worker", "--pool", "jobauto", "--pool", "stock")
    jobauto = [sys.executable, "-m", "jobauto_prefect.cli", "worker", "start", "--pool", "jobauto"]
    prefect = [sys.executable, "-m", "prefect", "worker", "start", "--pool", "stock"]
    running.start("jobauto-worker", jobauto, JOBAUTO_WORKER_TOKEN=worker_token)
    running.start(
        "stock-worker", [*prefect, "--type", "process"], JOBAUTO_WORKER_TOKEN=worker_token
    )
    for pool in ("jobauto", "stock"):
        eventually(lambda pool=pool: _online(running, pool))


def _online(running: Stack, pool: str) -> bool:
    answer = running.prefect.post(f"/work_pools/{pool}/workers/filter", json={})
    return answer.is_success and any(one["status"] == "ONLINE" for one in answer.json())


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


def measure() -> dict[str, object]:
    """The figures, as one JSON object."""
    with stack() as running:
        running.prefect.post("/work_pools/", json={"name": "stock", "type": "process"})
        templates = templates_of(running)
        eventually(lambda: running.rest.get("/status").json()["waiting_for_prefect"] == 0)
        start_workers(running)
        for template in templates.values():
            _milliseconds(running, template, 0)  # warm
        ours = [_milliseconds(running, templates["jobauto"], n) for n in range(1, JOBS + 1)]
        stock = [_milliseconds(running, templates["stock"], n) for n in range(1, STOCK_JOBS + 1)]
    value, yardstick = statistics.median(ours), statistics.median(stock)
    ratio = yardstick / value
    return {
        "name": "start_latency",
        "value": round(value, 1),
        "unit": "ms from POST /job/ to the process, median",
        "yardstick": "Prefect's process worker, same application and servers",
        "yardstick_value": round(yardstick, 1),
        "ratio": round(ratio, 1),
        "goal": f"at most {GOAL_MS:g} ms and at least {GOAL_RATIO:g} times faster",
        "met": value <= GOAL_MS and ratio >= GOAL_RATIO,
        "jobs": JOBS,
        "yardstick_jobs": STOCK_JOBS,
        "slowest": round(max(ours), 1),
    }


if __name__ == "__main__":
    report(measure, __doc__)
