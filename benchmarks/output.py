"""Lines per second from a job's process into the ledger, and what the job's end waits for them.

    python -m benchmarks.output --json

A job prints 200,000 lines as fast as it can; the figure is for the time from its first act until
its outcome is known, when the ledger has all of them. The yardstick is the database alone: the same
rows inserted by one connection, in the same run.
"""

import resource
import sys
import time
from datetime import UTC, datetime
from pathlib import Path

import psycopg

from benchmarks.stack import Stack, eventually, report, stack, worker_token

LINES = 200_000
GOAL = 20_000.0
BATCH = 5_000

SCRIPT = """#!/bin/sh
date +%s.%N > "$STARTED"
seq -f "2026-05-04T12:00:30Z INFO  record %.0f was read, checked, written, amount 12 EUR" {lines}
"""


def _template(running: Stack) -> int:
    executable = running.home / "chatty"
    executable.write_text(SCRIPT.format(lines=LINES))
    executable.chmod(0o755)
    definition = {
        "$schema": "https://example.com/application.schema.json",
        "name": "Chatty",
        "description": "Prints many lines",
        "executable": str(executable),
        "environment": {"STARTED": {"type": "string", "required": True}},
    }
    app = running.post("/app/", definition)
    running.post("/company/", {"slug": "bench", "name": "Bench"})
    body = {"app_id": app["id"], "company": "bench", "name": "chatty", "env": {"STARTED": "-"}}
    template: int = running.post("/runtemplate/", body)["id"]
    return template


def _run(running: Stack, template: int, mark: Path) -> tuple[float, int]:
    """Seconds from the first act of the process until its outcome, and the number of lines."""
    body = {"runtemplate_id": template, "env": {"STARTED": str(mark)}}
    job = running.post("/job/", body)["id"]
    # The list, since a job by itself comes with all its output.
    eventually(lambda: running.rest.get("/jobs.json").json()[str(job)]["end"])
    ended = time.time()
    with psycopg.connect(running.ledger) as connection:
        query = "SELECT count(*) FROM job_output_line WHERE job_id = %s AND stream = 'stdout'"
        row = connection.execute(query, [job]).fetchone()
    return ended - float(mark.read_text()), row[0] if row else 0


def _bare_insert(running: Stack) -> float:
    """Seconds for the same number of like rows, without us."""
    text = (
        "2026-05-04T12:00:30Z INFO  record 100000 was read, checked and written, amount 12.50 EUR"
    )
    rows = [(number, "stdout", text, datetime.now(UTC)) for number in range(LINES)]
    with psycopg.connect(running.ledger) as connection:
        connection.execute(
            "CREATE TABLE bare (seq int PRIMARY KEY, stream text, text text, at timestamptz)"
        )
        before = time.monotonic()
        for first in range(0, LINES, BATCH):
            part = rows[first : first + BATCH]
            connection.cursor().executemany("INSERT INTO bare VALUES (%s, %s, %s, %s)", part)
            connection.commit()
        return time.monotonic() - before


def measure() -> dict[str, object]:
    """The figures, as one JSON object."""
    with stack({"JOBAUTO_OUTPUT_LIMIT_BYTES": str(LINES * 400)}) as running:
        worker = [sys.executable, "-m", "jobauto_prefect.cli", "worker", "start"]
        secret = worker_token(running, "jobauto")
        running.start("worker", [*worker, "--pool", "jobauto"], JOBAUTO_WORKER_TOKEN=secret)
        seconds, kept = _run(running, _template(running), running.home / "started")
        bare = _bare_insert(running)
    largest = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss / 1024
    value, yardstick = kept / seconds, LINES / bare
    return {
        "name": "output",
        "value": round(value),
        "unit": "lines per second from the process into the ledger",
        "yardstick": "the same rows inserted by one connection",
        "yardstick_value": round(yardstick),
        "ratio": round(value / yardstick, 2),
        "goal": f"at least {GOAL:g} lines per second, none missing",
        "met": value >= GOAL and kept == LINES,
        "lines": kept,
        "seconds": round(seconds, 1),
        "largest_process_mb": round(largest),
    }


if __name__ == "__main__":
    report(measure, __doc__)
