"""500 sleeping jobs at once on one worker: what worker and watchdog hold, and how they end.

    python -m benchmarks.sleeping --json

On PostgreSQL. The yardstick is the same worker without a job.
"""

import os
import time

import psycopg

from benchmarks.burst import post_jobs
from benchmarks.stack import Stack, eventually, report, stack
from benchmarks.up import pss_mb

JOBS = 500
SETTLED_SECONDS = 5
ALL_START_WITHIN, ALL_END_WITHIN = 300, 180  # seconds
GOAL_MB = 200.0
PROGRAM = """#!/bin/sh
exec cat {bell}
"""
"""Sleeps until somebody opens the named pipe to write, and closes it again."""


def measure() -> dict[str, object]:
    """The figures, as one JSON object."""
    with stack({"JOBAUTO_WORKER_LIMIT": str(JOBS)}) as running:
        running.start_worker()
        executable = running.home / "sleeper"
        bell = running.home / "bell"
        os.mkfifo(bell)
        executable.write_text(PROGRAM.format(bell=bell))
        executable.chmod(0o755)
        definition = {
            "$schema": "https://example.com/application.schema.json",
            "name": "Sleeper",
            "description": "Sleeps",
            "executable": str(executable),
            "environment": {},
        }
        app = running.post("/app/", definition)
        running.post("/company/", {"slug": "bench", "name": "Bench"})
        body = {"app_id": app["id"], "company": "bench", "name": "sleeper"}
        template = running.post("/runtemplate/", body)["id"]
        running.applied()
        time.sleep(SETTLED_SECONDS)
        pid = running.pids["worker of jobauto"]
        alone = pss_mb(pid)
        post_jobs(running, template, JOBS)
        eventually(lambda: _jobs(running, "running") == JOBS, ALL_START_WITHIN)
        time.sleep(SETTLED_SECONDS)
        held = pss_mb(pid, without="cat")
        bell.write_text("")
        eventually(lambda: not _jobs(running, "running"), ALL_END_WITHIN)
        succeeded = _jobs(running, "succeeded")
    return {
        "name": "sleeping",
        "value": round(held),
        "unit": "MB PSS of worker and watchdog",
        "yardstick": "the worker without a job",
        "yardstick_value": round(alone),
        "ratio": round(held / alone, 2),
        "goal": f"at most {GOAL_MB:g} MB with {JOBS} at once, all end right",
        "met": held <= GOAL_MB and succeeded == JOBS,
        "succeeded": succeeded,
    }


def _jobs(running: Stack, state: str) -> int:
    with psycopg.connect(running.ledger) as connection:
        query = "SELECT count(*) FROM job WHERE state = %s"
        row = connection.execute(query, [state]).fetchone()
    return row[0] if row else 0


if __name__ == "__main__":
    report(measure, __doc__)
