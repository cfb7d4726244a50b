"""How late 200 scheduled jobs of `jobauto up` start, four each second.

    python -m benchmarks.punctuality --json [--quick]

On PostgreSQL. The time counts from the scheduled second to the first act of the process. The
yardstick is a program that spawns processes at their seconds by itself.
"""

import statistics
import subprocess
import time
from datetime import UTC, datetime, timedelta
from pathlib import Path

from benchmarks.floor import percentile
from benchmarks.installation import Figures, Up, eventually, report, sized, up
from benchmarks.up import MARK

JOBS = sized(200, 8)
EACH_SECOND = 4
AHEAD_SECONDS = 30  # all runs are made by then on a busy machine, too
GOAL_MS = 100.0


def _schedule(service: Up, marks: Path) -> list[tuple[Path, float]]:
    """The files the jobs will write, and when each is due."""
    app = service.app(service.program_of_jobs("mark", MARK), "STARTED")
    template = service.template(app, env={"STARTED": "-"})
    begin = datetime.now(UTC).replace(microsecond=0) + timedelta(seconds=AHEAD_SECONDS)
    due = []
    for number in range(JOBS):
        at = begin + timedelta(seconds=number // EACH_SECOND)
        mark = marks / str(number)
        body = {"runtemplate_id": template, "env": {"STARTED": str(mark)}}
        service.post("/job/", body | {"scheduled": at.isoformat()})
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


def measure() -> Figures:
    """The figures, as one JSON object."""
    with up() as service:
        marks = service.home / "marks"
        marks.mkdir()
        due = _schedule(service, marks)
        eventually(lambda: all(mark.exists() for mark, _ in due), AHEAD_SECONDS + 120)
        late = sorted((float(mark.read_text()) - at) * 1000 for mark, at in due)
        bare = statistics.median(_bare_late(marks))
    value = percentile(late)
    return {
        "name": "punctuality",
        "value": round(value, 1),
        "unit": f"ms after the scheduled second, 95th percentile of {JOBS}",
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
