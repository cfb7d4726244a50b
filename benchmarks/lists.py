"""Lists of a ledger with 100,000 jobs, beside Prefect's own list of as many flow runs.

    python -m benchmarks.lists --json

Both are filled by SQL, on PostgreSQL, and asked in turn in the same run.
"""

import statistics
import threading
import time
from collections.abc import Callable
from typing import Any

import httpx
import psycopg

from benchmarks.stack import Stack, eventually, report, stack

ROWS = 100_000
TIMES = 40  # each question
CONNECTIONS = 16
SECONDS = 5.0  # of load
GOAL_RATIO = 5.0
GOAL_RECORD_MS = 5.0

JOBS = """
INSERT INTO job SELECT filled.* FROM job j, generate_series(1, %(rows)s) n,
    LATERAL jsonb_populate_record(NULL::job, to_jsonb(j) || jsonb_build_object(
    'id', n + 1000, 'state', 'succeeded', 'severity', 'success', 'exitcode', 0,
    'created_at', now() - n * interval '1 second', 'schedule', now() - n * interval '1 second'
)) filled
"""
ENTRIES = """
INSERT INTO audit_entry SELECT filled.*
FROM (SELECT * FROM audit_entry ORDER BY id LIMIT 1) a, generate_series(1, %(rows)s) n,
    LATERAL jsonb_populate_record(NULL::audit_entry, to_jsonb(a)
    || jsonb_build_object('id', n + 1000, 'entity_type', 'Job', 'entity_id', n)) filled
"""
RUNS = """
INSERT INTO flow_run SELECT filled.*
FROM (SELECT * FROM flow_run LIMIT 1) f, generate_series(1, %(rows)s) n,
    LATERAL jsonb_populate_record(NULL::flow_run, to_jsonb(f)
    || jsonb_build_object('id', gen_random_uuid(), 'state_id', NULL, 'idempotency_key', NULL,
       'name', 'run ' || n, 'expected_start_time', now() - n * interval '1 second')) filled
"""
STATES = """
INSERT INTO flow_run_state SELECT filled.*
FROM (SELECT * FROM flow_run_state LIMIT 1) s, flow_run f,
    LATERAL jsonb_populate_record(NULL::flow_run_state, to_jsonb(s)
    || jsonb_build_object('id', gen_random_uuid(), 'flow_run_id', f.id)) filled
WHERE f.state_id IS NULL
"""
BIND = """
UPDATE flow_run SET state_id = s.id FROM flow_run_state s
WHERE s.flow_run_id = flow_run.id AND flow_run.state_id IS NULL
"""

DEFINITION = {
    "$schema": "https://example.com/application.schema.json",
    "name": "Listed",
    "description": "Never runs",
    "executable": "true",
    "environment": {},
}


def _fill(running: Stack) -> int:
    """Both databases full; the id of a job."""
    app = running.post("/app/", DEFINITION)
    running.post("/company/", {"slug": "bench", "name": "Bench"})
    body = {"app_id": app["id"], "company": "bench", "name": "t"}
    template = running.post("/runtemplate/", body)
    job = running.post("/job/", {"runtemplate_id": template["id"], "scheduled": "2099-01-01"})
    path = f"/job/{job['id']}.json"
    eventually(lambda: running.rest.get(path).json()["flow_run_id"])
    running.post("/job/", {"id": job["id"], "state": "cancelled"})
    eventually(lambda: running.rest.get("/status").json()["waiting_for_prefect"] == 0)
    run_statements(running.ledger, ROWS, JOBS, ENTRIES)
    run_statements(running.prefect_database, ROWS, RUNS, STATES, BIND)
    return int(job["id"])


def run_statements(database: str, rows: int, *statements: str) -> None:
    """Fill a database with as many rows, and let it know its figures."""
    with psycopg.connect(database, autocommit=True) as connection:
        for statement in statements:
            connection.execute(statement.replace("%(rows)s", str(rows)))
        connection.execute("VACUUM ANALYZE")


def median_ms(ask: Callable[[], httpx.Response]) -> float:
    """How long an answer takes, once it is warm."""
    taken = []
    for number in range(TIMES + 5):
        began = time.perf_counter()
        ask().raise_for_status()
        if number >= 5:  # warm
            taken.append((time.perf_counter() - began) * 1000)
    return round(statistics.median(taken), 2)


def _requests_per_second(running: Stack, method: str, url: str, body: Any = None) -> float:
    """With 16 connections that ask as fast as they are answered."""
    counts: list[int] = []
    until = time.perf_counter() + SECONDS

    def ask() -> None:
        with httpx.Client(headers=running.rest.headers, timeout=30) as http:
            asked = 0
            while time.perf_counter() < until:
                http.request(method, url, json=body).raise_for_status()
                asked += 1
            counts.append(asked)

    threads = [threading.Thread(target=ask) for _ in range(CONNECTIONS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return round(sum(counts) / SECONDS, 1)


def _deep(running: Stack) -> str:
    """The path of a page 90,000 rows down, as its cursor says it."""
    answer = running.rest.get("/jobs.json?limit=1&offset=90000")
    link = answer.headers["link"]
    return link[link.index("<") + 1 : link.index(">")].replace("limit=1", "limit=100")


def measure() -> dict[str, object]:
    """The figures, as one JSON object."""
    with stack() as running:
        job_id = _fill(running)
        rest, base = running.rest, running.settings.url
        deep = f"{base}{_deep(running)}"
        wanted = {"sort": "EXPECTED_START_TIME_DESC", "limit": 100}
        prefect = f"{running.settings.prefect_api_url}/flow_runs/filter"
        figures = {
            "list_ms": median_ms(lambda: rest.get("/jobs.json?limit=100")),
            "deep_page_ms": median_ms(lambda: rest.get(deep)),
            "record_ms": median_ms(lambda: rest.get(f"/job/{job_id}.json")),
            "audit_ms": median_ms(lambda: rest.get("/auditlog.json?entity_type=Job&limit=100")),
        }
        yardstick = median_ms(lambda: running.prefect.post("/flow_runs/filter", json=wanted))
        load = {
            "list_per_second": _requests_per_second(running, "GET", f"{base}/api/v1/jobs.json"),
            "yardstick_per_second": _requests_per_second(running, "POST", prefect, wanted),
        }
    ratio = yardstick / figures["list_ms"]
    return {
        "name": "lists",
        "value": figures["list_ms"],
        "unit": "ms for 100 of 100,000 jobs, median",
        "yardstick": "Prefect's POST /flow_runs/filter with limit 100, as many flow runs",
        "yardstick_value": yardstick,
        "ratio": round(ratio, 1),
        "goal": f"at least {GOAL_RATIO:g} times faster, one record under {GOAL_RECORD_MS:g} ms",
        "met": ratio >= GOAL_RATIO and figures["record_ms"] < GOAL_RECORD_MS,
        **figures,
        **load,
    }


if __name__ == "__main__":
    report(measure, __doc__)
