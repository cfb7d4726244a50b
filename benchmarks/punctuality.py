"""How late 200 scheduled jobs start, two each second.

    python -m benchmarks.punctuality --json

On PostgreSQL. The time counts from the scheduled second to the first act of the process. The
yardstick is a program that spawns as many processes at those seconds by itself.
"""

import statistics
import subprocess
import time
from datetime import UTC, datetime, timedelta
from pathlib import Path

from benchmarks.stack import Stack, eventually, report, stack
from benchmarks.start_latency import templates_of

JOBS = 200
EACH_SECOND = 2
AHEAD_SECONDS = 30  # all runs are made by then on a busy machine, too
GOAL_MS = 100.0


def _schedule(running: Stack, template: int, marks: Path) -> list[tuple[Path, float]]:
    """The files the jobs will write, and when each is due."""
    begin = datetime.now(UTC).replace(microsecond=0) + timedelta(seconds=AHEAD_SECONDS)
    due = []
    for number in range(JOBS):
        at = begin + timedelta(seconds=number // EACH_SECOND)
        mark = marks / str(number)
        body = {"runtemplate_id": template, "env": {"STARTED": str(mark)}}
        running.post("/job/", body | {"scheduled": at.isoformat()})
        due.append((mark, at.timestamp()))
    return due


def _bare_late(marks: Path) -> list[float]:
    """Milliseconds from a second until a process that is spawned then does something."""
    late = []
    for number in range(5):
        mark, due = marks / f"bare-{number}", float(int(time.time()) + 1)
        time.sleep(max(0.0, due - time.time()))
        script = ["/bin/sh", "-c", f"date +%s.%N > {mark}"]
        subprocess.run(script, check=True)
        late.append((float(mark.read_text()) - due) * 1000)
    return late


def measure() -> dict[str, object]:
    """The figures, as one JSON object."""
    with stack() as running:
        template = templates_of(running, "jobauto")["jobauto"]
        running.applied()
        running.start_worker()
        marks = running.home / "marks"
        marks.mkdir()
        due = _schedule(running, template, marks)
        eventually(lambda: all(mark.exists() for mark, _ in due), AHEAD_SECONDS + 120)
        late = sorted((float(mark.read_text()) - at) * 1000 for mark, at in due)
        bare = statistics.median(_bare_late(marks))
    value = late[int(0.95 * len(late))]
    return {
        "name": "punctuality",
        "value": round(value, 1),
        "unit": "ms after the scheduled second, 95th percentile of 200",
        "yardstick": "a process spawned at its second, median",
        "yardstick_value": round(bare, 1),
        "ratio": round(value / bare, 1),
        "goal": f"at most {GOAL_MS:g} ms late, never early",
        "met": value <= GOAL_MS and late[0] >= 0,
        "earliest": round(late[0], 1),
        "median": round(statistics.median(late), 1),
        "latest": round(late[-1], 1),
    }


if __name__ == "__main__":
    report(measure, __doc__)
