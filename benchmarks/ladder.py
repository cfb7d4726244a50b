"""Jobs of /bin/true offered at an even pace, whatever becomes of them, to `jobauto up`.

    python -m benchmarks.ladder --json [--quick]

On PostgreSQL at 60, 250, 500 and 750 a minute: how long jobs take from their creation to their end.
The knee is the last step whose median is under 0.3 s. On SQLite at 480 a minute: how late jobs
start, and which requests fail. The yardstick is the rate of the floor (see benchmarks/floor.py) on
a bare Prefect, alone.
"""

import contextlib
import statistics
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator

import httpx

from benchmarks.floor import AT_ONCE, floor
from benchmarks.installation import Figures, Up, bare, eventually, report, sized, up

STEPS = (60, 250, 500, 750)
SECONDS = sized(20, 2)
GOAL_SECONDS = 0.3
ON_SQLITE = 480
SQLITE_SECONDS = sized(60, 3)
GOAL_START_SECONDS = 2.0
RUNS_OF_FLOOR = sized(100, 10)


def offer(post: Callable[[], object], rate: float, seconds: float) -> int:
    """Post at an even pace, so many a minute; how many."""
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


class _Jobs:
    """Jobs of one run template, and the requests for them that failed."""

    def __init__(self, service: Up) -> None:
        self.service = service
        self.template = service.true_template()
        self.failed: Counter[str] = Counter()

    def post(self) -> None:
        """Ask for one; a refusal, or no answer, is counted."""
        try:
            answer = self.service.rest.post("/job/", json={"runtemplate_id": self.template})
        except httpx.HTTPError as error:
            self.failed[type(error).__name__] += 1
        else:
            if answer.is_error:
                self.failed[str(answer.status_code)] += 1

    def seconds(self, rate: int, seconds: float, until: str) -> list[float | None]:
        """From creation to `until` of each that was offered, once they have ended; None: never."""
        ledger, before = self.service.ledger, self.service.ended()
        offered = offer(self.post, rate, seconds)
        with contextlib.suppress(TimeoutError):
            eventually(lambda: self._have_ended(before + offered), 120)
        between = f"extract(epoch FROM {until} - created_at)"
        if ledger.is_file:
            between = f"(julianday({until}) - julianday(created_at)) * 86400"
        query = f"SELECT {between} FROM job ORDER BY id DESC LIMIT {offered}"
        return [None if found is None else float(found) for (found,) in ledger.rows(query)]

    def _have_ended(self, number: int) -> bool:
        time.sleep(0.2)  # looking takes from what is measured
        return self.service.ended() + self.failed.total() >= number


def _rate_of_floor(kind: str) -> float:
    with bare(kind) as prefect:
        found = floor(prefect, prefect.deployment(), RUNS_OF_FLOOR, AT_ONCE[kind])
    return RUNS_OF_FLOOR / float(found["seconds"]) * 60


def _knee() -> Figures:
    rate = _rate_of_floor("PostgreSQL")
    with up() as service:
        jobs = _Jobs(service)
        found = {step: jobs.seconds(step, SECONDS, '"end"') for step in STEPS}
    medians = {
        step: statistics.median(each if each is not None else float("inf") for each in taken)
        for step, taken in found.items()
    }
    knee = max((step for step in STEPS if medians[step] < GOAL_SECONDS), default=0)
    return {
        "name": "ladder",
        "value": knee,
        "unit": "jobs per minute, the knee",
        "yardstick": "the floor's rate per minute",
        "yardstick_value": round(rate),
        "ratio": round(knee / rate, 2),
        "goal": f"end-to-end median under {GOAL_SECONDS:g} s up to the knee, which is named",
        "met": knee > 0 and not jobs.failed,
        "medians": {str(step): round(median, 3) for step, median in medians.items()},
        "failed_requests": dict(jobs.failed),
    }


def _on_sqlite() -> Figures:
    rate = _rate_of_floor("SQLite")
    with up("SQLite") as service:
        jobs = _Jobs(service)
        found = jobs.seconds(ON_SQLITE, SQLITE_SECONDS, "begin")
    starts = [each for each in found if each is not None]
    late = len(found) - len(starts) + sum(start > GOAL_START_SECONDS for start in starts)
    return {
        "name": "sqlite",
        "value": round(max(starts), 3),
        "unit": f"s, the slowest start, {ON_SQLITE} jobs a minute offered",
        "yardstick": "the floor's rate per minute",
        "yardstick_value": round(rate),
        "ratio": round(ON_SQLITE / rate, 2),
        "goal": f"no failed request, no start later than {GOAL_START_SECONDS:g} s",
        "met": not (jobs.failed or late),
        "median_start_s": round(statistics.median(starts), 3),
        "late_starts": late,
        "jobs": len(found),
        "failed_requests": dict(jobs.failed),
    }


def measure() -> Iterator[Figures]:
    """The figures of both databases."""
    yield _knee()
    yield _on_sqlite()


if __name__ == "__main__":
    report(measure, __doc__)
