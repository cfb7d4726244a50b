"""How long a job waits for its flow run while 2,000 templates are being applied.

    python -m benchmarks.outbox --json

On PostgreSQL, by a facade and services. A job is posted every two seconds, of a template that
Prefect knows; the time counts from the request to the flow run in the ledger, and the value is the
longest. The yardstick is the longest of as many jobs where nothing is being applied.
"""

import time
from collections.abc import Iterator
from typing import Any

import psycopg

from benchmarks.stack import Stack, report, stack
from benchmarks.start_latency import templates_of

TEMPLATES = 2000
PROBES = 12
STEP_SECONDS = 2.0
GOAL_MS = 1000.0  # more than without

MULTIPLY = """
INSERT INTO runtemplate SELECT (jsonb_populate_record(NULL::runtemplate, to_jsonb(r)
    || jsonb_build_object('id', r.id + n, 'name', 'copy ' || n, 'deployment_id', NULL))).*
FROM runtemplate r, generate_series(1, %s) n WHERE r.id = %s
"""
APPLY = """
INSERT INTO outbox_message (kind, priority, subject_id, payload, created_at, not_before, attempts)
SELECT 'apply_template', 1, id, '{}', now(), now(), 0 FROM runtemplate WHERE deployment_id IS NULL
"""
WAITING = "SELECT count(*) FROM outbox_message WHERE kind = 'apply_template'"
RUN = "SELECT flow_run_id FROM job WHERE id = %s"


def measure() -> dict[str, object]:
    """Both waits, in milliseconds."""
    with stack() as running, psycopg.connect(running.ledger, autocommit=True) as ledger:
        template = templates_of(running)["jobauto"]
        while _count(ledger):
            time.sleep(0.1)
        idle = list(_waits(running, ledger, template))
        ledger.execute(MULTIPLY, (TEMPLATES, template + 1))  # the last one there is
        ledger.execute(APPLY)
        begun = time.monotonic()
        busy = list(_waits(running, ledger, template))
        left, seconds = _count(ledger), time.monotonic() - begun
    return {
        "name": "outbox",
        "value": round(max(busy), 1),
        "unit": "ms",
        "yardstick": "nothing is being applied",
        "yardstick_value": round(max(idle), 1),
        "ratio": round(max(busy) / max(idle), 2),
        "goal": f"at most {GOAL_MS:.0f} ms more",
        "met": max(busy) <= max(idle) + GOAL_MS,
        "median": round(sorted(busy)[PROBES // 2], 1),
        "applied_per_second": round((TEMPLATES - left) / seconds, 1),
        "templates_left": left,
    }


def _waits(running: Stack, ledger: psycopg.Connection[Any], template: int) -> Iterator[float]:
    for _ in range(PROBES):
        began = time.monotonic()
        job = running.post("/job/", {"runtemplate_id": template})["id"]
        while not _one(ledger, RUN, job):
            time.sleep(0.005)
        yield (time.monotonic() - began) * 1000
        time.sleep(STEP_SECONDS)


def _count(ledger: psycopg.Connection[Any]) -> int:
    return int(_one(ledger, WAITING))


def _one(ledger: psycopg.Connection[Any], query: str, *values: object) -> Any:
    found = ledger.execute(query, values).fetchone()
    return found[0] if found else None


if __name__ == "__main__":
    report(measure, __doc__)
