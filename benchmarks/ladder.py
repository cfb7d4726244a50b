"""Jobs offered at 60, 250, 500 and 750 a minute: how long each takes until its end in Prefect.

    python -m benchmarks.ladder --json [SECONDS]

Each step lasts SECONDS (20). The knee is the last step whose median is under 0.3 s. The yardstick
is the floor's rate, per minute.
"""

import statistics
import sys
import threading
import time
from collections.abc import Callable
from datetime import datetime
from functools import partial
from typing import Any

from benchmarks.burst import deployment_of, ended, template_of
from benchmarks.floor import floor
from benchmarks.stack import Stack, eventually, report, stack

STEPS = (60, 250, 500, 750)
GOAL_SECONDS = 0.3
PAGE = 200


def offer(post: Callable[[], object], rate: float, seconds: float) -> int:
    """Post at an even pace, so many a minute, whatever becomes of the jobs; how many."""
    number = max(1, int(rate * seconds / 60))
    began = time.monotonic()
    threads = []
    for turn in range(number):
        time.sleep(max(0.0, began + turn * 60 / rate - time.monotonic()))
        thread = threading.Thread(target=post)
        thread.start()
        threads.append(thread)
    for thread in threads:
        thread.join()
    return number


def _durations(running: Stack, number: int) -> list[float]:
    """From creation to end, of the last runs, as Prefect has them."""
    found: list[dict[str, Any]] = []
    for offset in range(0, number, PAGE):
        wanted = {"sort": "START_TIME_DESC", "offset": offset, "limit": min(PAGE, number - offset)}
        found += running.prefect.post("/flow_runs/filter", json=wanted).json()
    return [(_instant(run, "end_time") - _instant(run, "created")).total_seconds() for run in found]


def _have_ended(running: Stack, number: int) -> bool:
    return ended(running) >= number


def _instant(run: dict[str, Any], member: str) -> datetime:
    return datetime.fromisoformat(run[member])


def measure() -> dict[str, object]:
    """The figures, as one JSON object."""
    given = [word for word in sys.argv[1:] if word.isdecimal()]
    seconds = float(given[0]) if given else 20.0
    medians: dict[str, float] = {}
    with stack() as running:
        running.start_worker()
        template = template_of(running, "jobauto")
        deployment = deployment_of(running, template)
        post = partial(running.post, "/job/", {"runtemplate_id": template})
        for rate in STEPS:
            before = ended(running)
            number = offer(post, rate, seconds)
            eventually(partial(_have_ended, running, before + number), 300)
            medians[str(rate)] = round(statistics.median(_durations(running, number)), 3)
        running.pause()
        bare = floor(running, deployment, 100)
    rate = 100 / bare["seconds"] * 60
    passed = [step for step in STEPS if medians[str(step)] < GOAL_SECONDS]
    knee = max(passed, default=0)
    return {
        "name": "ladder",
        "value": knee,
        "unit": "jobs per minute, the knee",
        "yardstick": "the floor's rate per minute",
        "yardstick_value": round(rate),
        "ratio": round(knee / rate, 2),
        "goal": f"end-to-end median under {GOAL_SECONDS:g} s up to the knee, which is named",
        "met": knee > 0,
        "medians": medians,
    }


if __name__ == "__main__":
    report(measure, __doc__)
