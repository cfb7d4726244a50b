"""The floor: what Prefect's API alone costs for a run, as a yardstick for the other benchmarks.

    python -m benchmarks.floor URL DEPLOYMENT RUNS AT_ONCE

For each run: create it from a deployment, set Running, spawn /bin/true, set Completed. Prints one
line of JSON: seconds of all, the median of one, CPU seconds of this process.
"""

import asyncio
import json
import statistics
import subprocess
import sys
import time
from typing import Any
from uuid import uuid4

import httpx

from benchmarks.stack import Stack

PROGRAM = "/bin/true"


async def _run(http: httpx.AsyncClient, deployment: str) -> float:
    began = time.perf_counter()
    body = {"state": {"type": "SCHEDULED"}, "idempotency_key": str(uuid4())}
    created = await http.post(f"/deployments/{deployment}/create_flow_run", json=body)
    run = created.raise_for_status().json()["id"]
    await _set(http, run, "RUNNING")
    process = await asyncio.create_subprocess_exec(PROGRAM)
    await process.wait()
    await _set(http, run, "COMPLETED")
    return time.perf_counter() - began


async def _set(http: httpx.AsyncClient, run: str, state: str) -> None:
    body = {"state": {"type": state}}
    answer = await http.post(f"/flow_runs/{run}/set_state", json=body)
    answer.raise_for_status()


async def _all(url: str, deployment: str, runs: int, at_once: int) -> dict[str, Any]:
    taken: list[float] = []
    left = iter(range(runs))

    async def some(http: httpx.AsyncClient) -> None:
        for _ in left:
            seconds = await _run(http, deployment)
            taken.append(seconds)

    async with httpx.AsyncClient(base_url=url, timeout=60) as http:
        await _run(http, deployment)  # warm
        began, used = time.perf_counter(), time.process_time()
        await asyncio.gather(*(some(http) for _ in range(at_once)))
        return {
            "seconds": time.perf_counter() - began,
            "median": statistics.median(taken),
            "cpu": time.process_time() - used,
        }


def floor(running: Stack, deployment: str, runs: int, at_once: int = 8) -> dict[str, Any]:
    """What it prints, in a process of its own as a worker would be."""
    url = running.settings.prefect_api_url
    argv = [sys.executable, "-m", __name__, url, deployment, str(runs), str(at_once)]
    done = subprocess.run(argv, capture_output=True, text=True, check=True)
    found: dict[str, Any] = json.loads(done.stdout)
    return found


if __name__ == "__main__" and len(sys.argv) == 5:
    address, of, *numbers = sys.argv[1:]
    print(json.dumps(asyncio.run(_all(address, of, *map(int, numbers)))))
