"""Lists, a job, POST /job/, claim and report on a ledger that has grown for a year.

    python -m benchmarks.grown --json

On PostgreSQL, of the same facade: each is asked when the ledger is nearly empty, and again with
100,000 jobs, 1,000,000 lines of output and 1,000,000 audit entries. A page has as many rows both
times, is not the last one, and says the exact total. What was inserted is vacuumed and sealed by
then, as it would have been in a year.
"""

import contextlib
import statistics
import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from typing import Any
from uuid import UUID, uuid4

import httpx
import psycopg

from benchmarks.burst import deployment_of
from benchmarks.console import fill, make_records, row_of_growth
from benchmarks.lists import median_ms, run_statements
from benchmarks.stack import Stack, eventually, report, stack, worker_token

JOBS, LINES_EACH, ENTRIES = 100_000, 10, 1_000_000
FEW = 60
SEALING = 900  # seconds that the services may take to seal all entries
TURNS = 40
WARM = 5
INSTANCE = str(uuid4())

LINES = f"""
INSERT INTO job_output_line SELECT j.id, n, 'stdout', 'record ' || n || ' was read', now()
FROM job j, generate_series(1, {LINES_EACH}) n WHERE j.id > 1000
"""
GO_ON = "SELECT setval(pg_get_serial_sequence('{0}', 'id'), (SELECT max(id) FROM {0}))"
"""What is inserted by SQL has ids of its own; what is written next comes after them."""

LISTS = {
    "list of jobs": ("jobs", "limit=50", "job"),
    "failed jobs": ("jobs", "state=failed&limit=5", "job WHERE state = 'failed'"),
    "jobs of a company": ("jobs", "company_id=1&limit=50", "job WHERE company_id = 1"),
    "audit log": ("auditlog", "limit=50", "audit_entry"),
    "audit log of jobs": (
        "auditlog", "entity_type=Job&limit=50", "audit_entry WHERE entity_type = 'Job'"
    ),
}  # fmt: skip
"""Lists by their names: the collection, what is asked of it, and the rows its total counts."""


@contextlib.contextmanager
def _claims(running: Stack) -> Iterator[httpx.Client]:
    """The claims API, for a worker that is known to it."""
    headers = {"Authorization": f"Bearer {worker_token(running, 'jobauto')}"}
    hello = {"worker": "bench", "pool": "jobauto", "host": "here", "instance": INSTANCE}
    with httpx.Client(base_url=f"{running.settings.url}/internal/v1", headers=headers) as client:
        client.post("/workers", json=hello).raise_for_status()
        yield client


def _job_ms(
    running: Stack, claims: httpx.Client, template: int, deployment: str
) -> dict[str, float]:
    """Milliseconds of the three requests that one job takes."""
    posted, job = _timed(lambda: running.rest.post("/job/", json={"runtemplate_id": template}))
    run = eventually(lambda: running.rest.get(f"/job/{job['id']}.json").json()["flow_run_id"])
    claim = {
        "claim_id": str(uuid4()),
        "flow_run_id": run,
        "run_number": 1,
        "deployment_id": deployment,
        "announced": True,
        "worker": "bench",
        "instance": INSTANCE,
        "work_directory": str(running.home),
    }
    claimed, answer = _timed(lambda: claims.post("/claims", json=claim))
    now = datetime.now(UTC).isoformat()
    ended = {
        "claim_id": claim["claim_id"],
        "worker": "bench",
        "ending": "exited",
        "exit_code": 0,
        "started_at": now,
        "ended_at": now,
    }
    path = f"/jobs/{answer['launch']['job_id']}/report"
    reported, _ = _timed(lambda: claims.post(path, json=ended))
    return {"POST /job/": posted, "claim": claimed, "report": reported}


def _timed(ask: Callable[[], httpx.Response]) -> tuple[float, Any]:
    began = time.perf_counter()
    answer = ask()
    seconds = time.perf_counter() - began
    return seconds * 1000, answer.raise_for_status().json()


def _measured(
    running: Stack, claims: httpx.Client, template: int, deployment: UUID
) -> dict[str, float]:
    paths = {name: f"/{items}.json?{query}" for name, (items, query, _) in LISTS.items()}
    _require_totals(running, paths)
    paths |= {"run templates": "/runtemplates.json", "a job": "/job/1.json"}
    found = {
        name: median_ms(lambda path=path: running.rest.get(path)) for name, path in paths.items()
    }
    turns = [_job_ms(running, claims, template, str(deployment)) for _ in range(TURNS + WARM)][
        WARM:
    ]
    return found | {
        name: round(statistics.median(turn[name] for turn in turns), 2) for name in turns[0]
    }


def _require_totals(running: Stack, paths: dict[str, str]) -> None:
    """Compare the totals of lists with the rows there are."""
    with psycopg.connect(running.ledger, autocommit=True) as connection:
        for name, (_, _, rows) in LISTS.items():
            told = running.rest.get(paths[name]).headers["x-total-count"]
            number = connection.execute(f"SELECT count(*) FROM {rows}").fetchone()
            if number != (int(told),):
                raise AssertionError(f"{name}: the total is {told} and not {number}")


def _is_sealed(connection: psycopg.Connection) -> bool:
    """Whether the services have sealed all audit entries."""
    newest = "(SELECT max(id) FROM audit_entry) <= (SELECT max(last_id) FROM audit_seal)"
    return connection.execute(f"SELECT {newest}").fetchone() == (True,)


def _grow(running: Stack) -> None:
    fill(running, FEW + 1, JOBS, entries=ENTRIES)
    run_statements(running.ledger, JOBS, LINES)
    with psycopg.connect(running.ledger, autocommit=True) as connection:
        for table in ("job", "audit_entry"):
            connection.execute(GO_ON.format(table))
        eventually(lambda: _is_sealed(connection), SEALING)


def measure() -> list[dict[str, object]]:
    """The figures of each question."""
    with stack() as running:
        make_records(running)
        template = 1
        deployment = deployment_of(running, template)
        with _claims(running) as claims:
            asked = (running, claims, template, UUID(deployment))
            fill(running, 1, FEW)
            few = _measured(*asked)
            _grow(running)
            many = _measured(*asked)
    full, yardstick = f"{JOBS:,} jobs and {ENTRIES:,} audit entries", "a nearly empty ledger"
    return [
        row_of_growth(f"grown: {name}", many[name], few[name], full, yardstick) for name in many
    ]


if __name__ == "__main__":
    report(measure, __doc__)
