"""An installation on SQLite that is offered 8 jobs of /bin/true a second for a minute.

    python -m benchmarks.sqlite --json [SECONDS]

Ledger and Prefect are on SQLite; one facade, one worker. A start is late by what the ledger says:
from the job's creation to its beginning; a job that has not begun is never in time. The yardstick
is the floor's rate (see benchmarks/floor.py) on the same Prefect.
"""

import contextlib
import statistics
import sys
import threading
import time
from collections import Counter
from dataclasses import dataclass, field
from datetime import datetime

import httpx
from sqlalchemy import select

from benchmarks.burst import AT_ONCE, deployment_of, template_of
from benchmarks.floor import floor
from benchmarks.ladder import offer
from benchmarks.stack import Stack, eventually, report, stack
from jobauto_prefect.ledger.records import Job

PER_SECOND = 8
SECONDS = 60.0
GOAL_SECONDS = 2.0
LAST_END_SECONDS = 90.0
RUNS_OF_FLOOR = 100
WARM_JOBS = 4


@dataclass(frozen=True, slots=True)
class Answers:
    """What POST /job/ answered: the jobs it made, the seconds it took, how often it failed how."""

    jobs: list[int] = field(default_factory=list)
    seconds: list[float] = field(default_factory=list)
    failed: Counter[str] = field(default_factory=Counter)
    lock: threading.Lock = field(default_factory=threading.Lock)

    def post(self, running: Stack, template: int) -> None:
        """Ask for one job; a refusal, or no answer, is counted."""
        began = time.perf_counter()
        try:
            answer = running.rest.post("/job/", json={"runtemplate_id": template})
        except httpx.HTTPError as error:
            what = type(error).__name__
        else:
            what = "" if answer.is_success else str(answer.status_code)
        with self.lock:
            self.seconds.append(time.perf_counter() - began)
            if what:
                self.failed[what] += 1
            else:
                self.jobs.append(answer.json()["id"])


Times = tuple[datetime, datetime | None, datetime | None]


def _times(running: Stack, jobs: list[int]) -> list[Times]:
    """Creation, begin and end of these jobs."""
    query = select(Job.created_at, Job.begin, Job.end).where(Job.id.between(min(jobs), max(jobs)))
    return [(created, begin, end) for created, begin, end in running.recorded(query)]


def _have_ended(running: Stack, jobs: list[int]) -> bool:
    time.sleep(1)  # looking takes from what is measured
    return all(end for _, _, end in _times(running, jobs))


def _offered(running: Stack, template: int, seconds: float) -> Answers:
    """What became of the jobs offered for so long, once they have ended."""
    answers = Answers()
    offer(lambda: answers.post(running, template), PER_SECOND * 60, seconds)
    with contextlib.suppress(TimeoutError):
        eventually(lambda: _have_ended(running, answers.jobs), LAST_END_SECONDS)
    return answers


def _figures(answers: Answers, times: list[Times], bare: float) -> dict[str, object]:
    starts = [(begin - created).total_seconds() for created, begin, _ in times if begin]
    ends = [end for _, _, end in times if end]
    late = sum(start > GOAL_SECONDS for start in starts) + len(times) - len(starts)
    taken = (max(ends) - min(created for created, _, _ in times)).total_seconds()
    rate = len(ends) / taken
    return {
        "name": "sqlite",
        "value": round(max(starts), 3),
        "unit": f"s, the slowest start, {PER_SECOND} jobs/s offered",
        "yardstick": "the floor's jobs per second on the same Prefect",
        "yardstick_value": round(bare, 2),
        "ratio": round(rate / bare, 2),
        "goal": f"no failed request, no start later than {GOAL_SECONDS:g} s",
        "met": not (answers.failed or late),
        "per_second": round(rate, 2),
        "median_start_s": round(statistics.median(starts), 3),
        "slowest_answer_s": round(max(answers.seconds), 3),
        "late_starts": late,
        "jobs": len(times),
        "failed_requests": answers.failed.total(),
        "failed_how": dict(answers.failed),
    }


def measure() -> dict[str, object]:
    """The figures, as one JSON object."""
    given = [word for word in sys.argv[1:] if word.isdecimal()]
    seconds = float(given[0]) if given else SECONDS
    with stack(sqlite=True) as running:
        running.start_worker()
        template = template_of(running, "jobauto")
        deployment = deployment_of(running, template)
        _offered(running, template, WARM_JOBS / PER_SECOND)
        answers = _offered(running, template, seconds)
        times = _times(running, answers.jobs)
        running.pause()
        bare = floor(running, deployment, RUNS_OF_FLOOR, AT_ONCE)
    found = _figures(answers, times, RUNS_OF_FLOOR / bare["seconds"])
    return found | {"floor_busy_answers": bare["busy"]}


if __name__ == "__main__":
    report(measure, __doc__)
