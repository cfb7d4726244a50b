"""What an hour of jobs adds to the memory of `jobauto up`, and the same runs to a bare Prefect's.

    python -m benchmarks.growth --json [SECONDS]

On PostgreSQL, 30 jobs of /bin/true a minute, one server after the other. Memory is PSS of all
processes, once they are warm and at the end. Not part of the suite: it takes SECONDS (3600) twice.
"""

import asyncio
import sys
import threading
import time
from collections.abc import Callable

import httpx

from benchmarks.floor import Prefect
from benchmarks.installation import Bare, Figures, Server, bare, report, sized, up
from benchmarks.ladder import offer

RATE = 30.0  # jobs a minute
WARM_SHARE = 0.1  # of the time, until memory counts
LOOKS = 12


def _looks(server: Server, seconds: float, post: Callable[[], object]) -> list[float]:
    """What its processes hold under these requests, after the warm-up and then at even times."""
    working = threading.Thread(target=offer, args=(post, RATE, seconds))
    working.start()
    time.sleep(WARM_SHARE * seconds)
    held = [sum(server.pss().values())]
    for _ in range(LOOKS):
        time.sleep((1 - WARM_SHARE) * seconds / LOOKS)
        held.append(sum(server.pss().values()))
    working.join()
    return [round(each, 1) for each in held]


def _run_bare(prefect: Bare, deployment: str) -> None:
    async def run() -> None:
        async with httpx.AsyncClient(base_url=prefect.prefect.base_url, timeout=60) as http:
            await Prefect(http).run(deployment)

    asyncio.run(run())


def measure() -> Figures:
    """The figures, as one JSON object."""
    given = next((word for word in sys.argv[1:] if word.isdecimal()), None)
    seconds = float(given or sized(3600, 20))
    with bare() as prefect:
        deployment = prefect.deployment()
        of_bare = _looks(prefect, seconds, lambda: _run_bare(prefect, deployment))
    with up() as service:
        template = service.true_template()
        of_up = _looks(
            service, seconds, lambda: service.post("/job/", {"runtemplate_id": template})
        )
        jobs = service.ended()
    ours, theirs = (found[-1] - found[0] for found in (of_up, of_bare))
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
        "up": of_up,
        "bare": of_bare,
    }


if __name__ == "__main__":
    report(measure, __doc__)
