"""The floor: what Prefect's API alone costs for a run, as a yardstick for the other benchmarks.

    python -m benchmarks.floor URL DEPLOYMENT RUNS AT_ONCE

For each run: create it from a deployment, set Running, spawn /bin/true, set Completed. What Prefect
is too busy for (on SQLite its database may be locked) is asked again. Prints one line of JSON:
seconds of all, milliseconds of one (median and 95th percentile), CPU seconds of this process and of
what it spawned, how often Prefect was too busy.
"""

import asyncio
import json
import resource
import statistics
import subprocess
import sys
import time
from dataclasses import dataclass, field
from typing import Any
from uuid import uuid4

import httpx

from benchmarks.installation import ROOT, Bare

AT_ONCE = {"PostgreSQL": 8, "SQLite": 2}
"""How many runs a bare Prefect has in hand; more on SQLite it answers with 503."""

PROGRAM = "/bin/true"
BUSY = 503
BROKEN = httpx.TransportError
"""A server that is too busy closes connections that it has not read from for a while, and on SQLite
it may answer some requests never."""

ANSWER_SECONDS = 2.0  # 95 % of the answers to a single client take less than 0.1 s
PAUSE_SECONDS = 0.05  # before what Prefect was too busy for is asked again


@dataclass(slots=True)
class Prefect:
    """Prefect's API, and how often it was too busy."""

    http: httpx.AsyncClient
    busy: int = 0
    in_turn: asyncio.Lock = field(default_factory=asyncio.Lock)

    async def run(self, deployment: str) -> float:
        """The milliseconds that one run took."""
        began = time.perf_counter()
        body = {"state": {"type": "SCHEDULED"}, "idempotency_key": str(uuid4())}
        run = (await self._post(f"/deployments/{deployment}/create_flow_run", body))["id"]
        await self._post(f"/flow_runs/{run}/set_state", {"state": {"type": "RUNNING"}})
        process = await asyncio.create_subprocess_exec(PROGRAM)
        await process.wait()
        await self._post(f"/flow_runs/{run}/set_state", {"state": {"type": "COMPLETED"}})
        return (time.perf_counter() - began) * 1000

    async def _post(self, path: str, body: dict[str, Any]) -> dict[str, Any]:
        answer = await self._asked(path, body) or await self._asked_again(path, body)
        answered: dict[str, Any] = answer.raise_for_status().json()
        return answered

    async def _asked_again(self, path: str, body: dict[str, Any]) -> httpx.Response:
        async with self.in_turn:  # together they would keep each other from it
            while True:
                await asyncio.sleep(PAUSE_SECONDS)
                if answer := await self._asked(path, body):
                    return answer

    async def _asked(self, path: str, body: dict[str, Any]) -> httpx.Response | None:
        try:
            answer = await self.http.post(path, json=body)
        except BROKEN:
            answer = None
        if answer is not None and answer.status_code != BUSY:
            return answer
        self.busy += 1
        return None


def _used(who: int) -> float:
    used = resource.getrusage(who)
    return used.ru_utime + used.ru_stime


async def _all(url: str, deployment: str, runs: int, at_once: int) -> dict[str, Any]:
    taken: list[float] = []
    left = iter(range(runs))

    async def some(prefect: Prefect) -> None:
        for _ in left:
            milliseconds = await prefect.run(deployment)
            taken.append(milliseconds)

    async with httpx.AsyncClient(base_url=url, timeout=ANSWER_SECONDS) as http:
        prefect = Prefect(http)
        await prefect.run(deployment)  # warm
        began = time.perf_counter()
        client, spawned = _used(resource.RUSAGE_SELF), _used(resource.RUSAGE_CHILDREN)
        await asyncio.gather(*(some(prefect) for _ in range(at_once)))
        return {
            "seconds": time.perf_counter() - began,
            "median": statistics.median(taken),
            "p95": percentile(taken),
            "client": _used(resource.RUSAGE_SELF) - client,
            "spawned": _used(resource.RUSAGE_CHILDREN) - spawned,
            "busy": prefect.busy,
        }


def percentile(found: list[float], share: float = 0.95) -> float:
    """The figure that such a share does not exceed."""
    return sorted(found)[min(int(share * len(found)), len(found) - 1)]


def floor(prefect: Bare, deployment: str, runs: int, at_once: int) -> dict[str, Any]:
    """What it prints, in a process of its own as a worker would be; `cpu_ms` is that of one run."""
    before = prefect.cpu()
    argv = [sys.executable, "-m", __name__, str(prefect.prefect.base_url)]
    argv += [deployment, str(runs), str(at_once)]
    done = subprocess.run(argv, stdout=subprocess.PIPE, text=True, check=True, cwd=ROOT)
    found: dict[str, Any] = json.loads(done.stdout)
    used = prefect.cpu_since(before) | {"client": found["client"], "jobs": found["spawned"]}
    return found | {"cpu_ms": {name: cpu / runs * 1000 for name, cpu in used.items()}}


if __name__ == "__main__":
    address, of, *numbers = sys.argv[1:]
    print(json.dumps(asyncio.run(_all(address, of, *map(int, numbers)))))
