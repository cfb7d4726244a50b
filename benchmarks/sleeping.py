"""500 sleeping jobs at once in `jobauto up`: what worker and watchdog hold, and how the jobs end.

    python -m benchmarks.sleeping --json [--quick]

On PostgreSQL. The yardstick is the same worker without a job.
"""

import os
import time

from benchmarks.installation import Figures, Up, eventually, report, sized, up

JOBS = sized(500, 20)
SETTLED_SECONDS = 5
ALL_START_WITHIN, ALL_END_WITHIN = 300, 180  # seconds
GOAL_MB = 200.0


def _held(service: Up) -> float:
    time.sleep(SETTLED_SECONDS)
    found = service.pss()
    return found["worker"] + found["watchdog"]


def _jobs(service: Up, state: str) -> int:
    return int(service.ledger.one(f"SELECT count(*) FROM job WHERE state = '{state}'"))


def measure() -> Figures:
    """The figures, as one JSON object."""
    with up(JOBAUTO_WORKER_LIMIT=str(JOBS)) as service:
        bell = service.home / "bell"
        os.mkfifo(bell)
        # It sleeps until somebody opens the named pipe to write, and closes it again.
        sleeper = service.program_of_jobs("sleeper", f"exec cat {bell}")
        template = service.template(service.app(sleeper))
        alone = _held(service)
        service.post_jobs([template], JOBS)
        eventually(lambda: _jobs(service, "running") == JOBS, ALL_START_WITHIN)
        held = _held(service)
        bell.write_text("")
        eventually(lambda: not _jobs(service, "running"), ALL_END_WITHIN)
        succeeded = _jobs(service, "succeeded")
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


if __name__ == "__main__":
    report(measure, __doc__)
