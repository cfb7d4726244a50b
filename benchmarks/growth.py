"""What an hour of jobs adds to the memory of `jobauto up`, beside the same runs of a bare Prefect.

    python -m benchmarks.growth --json [SECONDS]

On PostgreSQL, 30 jobs of /bin/true a minute. Memory is PSS of all processes, once they are warm and
at the end. Not part of the suite: it takes SECONDS (3600).
"""

import asyncio
import sys
import threading
import time
from collections.abc import Callable

import httpx

from benchmarks.burst import deployment_of, ended, template_of
from benchmarks.floor import Prefect
from benchmarks.ladder import offer
from benchmarks.stack import bare_prefect, report
from benchmarks.up import pss_mb, running_up

RATE = 30.0  # jobs a minute
WARM_SHARE = 0.1  # of the time, until memory counts
LOOKS = 12


def _looks(pid: int, seconds: float, work: Callable[[], object]) -> list[float]:
    """What the process and its children hold, after the warm-up and then at even times."""
    working = threading.Thread(target=work)
    working.start()
    time.sleep(WARM_SHARE * seconds)
    held = [pss_mb(pid)]
    for _ in range(LOOKS):
        time.sleep((1 - WARM_SHARE) * seconds / LOOKS)
        held.append(pss_mb(pid))
    working.join()
    return [round(each, 1) for each in held]


def _deployment(prefect: httpx.Client) -> str:
    flow = prefect.post("/flows/", json={"name": "true"}).raise_for_status().json()["id"]
    body = {"name": "true", "flow_id": flow}
    return str(prefect.post("/deployments/", json=body).raise_for_status().json()["id"])


def _run_bare(url: str, deployment: str) -> None:
    async def run() -> None:
        async with httpx.AsyncClient(base_url=url, timeout=60) as http:
            await Prefect(http).run(deployment)

    asyncio.run(run())


def measure() -> dict[str, object]:
    """The figures, as one JSON object."""
    seconds = float(next((word for word in sys.argv[1:] if word.isdecimal()), "3600"))
    with running_up() as up, bare_prefect() as bare:
        template = template_of(up, up.settings.pool)
        deployment_of(up, template)
        with httpx.Client(base_url=bare.url, timeout=30) as http:
            deployment = _deployment(http)
        found: dict[str, list[float]] = {}

        def look(name: str, pid: int, post: Callable[[], object]) -> None:
            found[name] = _looks(pid, seconds, lambda: offer(post, RATE, seconds))

        threads = [
            threading.Thread(target=look, args=what)
            for what in (
                ("up", up.pids["up"], lambda: up.post("/job/", {"runtemplate_id": template})),
                ("bare", bare.pid, lambda: _run_bare(bare.url, deployment)),
            )
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        jobs = ended(up)
    ours, theirs = (found[name][-1] - found[name][0] for name in ("up", "bare"))
    return {
        "name": "growth",
        "value": round(ours, 1),
        "unit": f"MB PSS more after {seconds:g} s with {RATE:g} jobs a minute",
        "yardstick": "a bare Prefect under the same runs",
        "yardstick_value": round(theirs, 1),
        "ratio": round(ours / theirs, 2) if theirs > 0 else None,
        "goal": "no more than it",
        "met": ours <= theirs,
        "jobs": jobs,
        "up": found["up"],
        "bare": found["bare"],
    }


if __name__ == "__main__":
    report(measure, __doc__)
