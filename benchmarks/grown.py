"""Lists, pages, metrics, POST /job/, claim and report of `jobauto up` with a ledger of a year.

    python -m benchmarks.grown --json [--quick]

On PostgreSQL. Each is asked when the ledger is nearly empty, and again with 100,000 jobs, 1,000,000
lines of output and 1,000,000 audit entries, filled by SQL, vacuumed and sealed. A page has as many
rows both times, is not the last one, and says the exact total. At last our list is compared with
that of a bare Prefect with as many flow runs, on the same database.
"""

import contextlib
import statistics
import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from functools import partial
from uuid import uuid4

import httpx

from benchmarks.installation import (
    Bare,
    Database,
    Figures,
    Up,
    eventually,
    report,
    sized,
    up,
)

JOBS, ENTRIES = sized(100_000, 300), sized(1_000_000, 3_000)
LINES_EACH = 10
FEW = 600  # each page is full, also that of failed jobs, one of ten
TEMPLATES = 20
SEALING = 900  # seconds that the services may take to seal all entries
TIMES = sized(40, 2)  # each question
WARM = 5
SCRAPES, SCRAPE_PAUSE = 5, 2.0  # figures are remembered for up to two seconds
GOAL_RATIO, GOAL_SCRAPE_MS, GOAL_LIST = 1.5, 50.0, 5.0
POOL = "bench"
"""Whose worker are we: the service's own takes no job from us."""
INSTANCE = str(uuid4())

FILL_JOBS = f"""
INSERT INTO job SELECT filled.*
FROM (SELECT * FROM job ORDER BY id LIMIT 1) j, generate_series(%(first)s, %(last)s) n,
    LATERAL jsonb_populate_record(NULL::job, to_jsonb(j) || jsonb_build_object(
    'id', n + 1000, 'runtemplate_id', 1 + n % {TEMPLATES}, 'exitcode', n % 10 / 9,
    'state', CASE WHEN n % 10 = 9 THEN 'failed' ELSE 'succeeded' END,
    'severity', CASE WHEN n % 10 = 9 THEN 'error' ELSE 'success' END,
    'created_at', now() - n * interval '5 minutes', 'schedule', now() - n * interval '5 minutes',
    'begin', now() - n * interval '5 minutes',
    'end', now() - n * interval '5 minutes' + interval '2 seconds'
)) filled
"""
FILL_ENTRIES = """
INSERT INTO audit_entry SELECT filled.*
FROM (SELECT * FROM audit_entry ORDER BY id LIMIT 1) a, generate_series(%(first)s, %(last)s) n,
    LATERAL jsonb_populate_record(NULL::audit_entry, to_jsonb(a)
    || jsonb_build_object('id', n + 1000, 'entity_type', 'Job', 'entity_id', n)) filled
"""
FILL_LINES = f"""
INSERT INTO job_output_line SELECT j.id, n, 'stdout', 'record ' || n || ' was read', now()
FROM job j, generate_series(1, {LINES_EACH}) n WHERE j.id > 1000
"""
FILL_RUNS = (
    """
INSERT INTO flow_run SELECT filled.*
FROM (SELECT * FROM flow_run LIMIT 1) f, generate_series(1, %(last)s) n,
    LATERAL jsonb_populate_record(NULL::flow_run, to_jsonb(f)
    || jsonb_build_object('id', gen_random_uuid(), 'state_id', NULL, 'idempotency_key', NULL,
       'name', 'run ' || n, 'expected_start_time', now() - n * interval '1 second')) filled
""",
    """
INSERT INTO flow_run_state SELECT filled.*
FROM (SELECT * FROM flow_run_state LIMIT 1) s, flow_run f,
    LATERAL jsonb_populate_record(NULL::flow_run_state, to_jsonb(s)
    || jsonb_build_object('id', gen_random_uuid(), 'flow_run_id', f.id)) filled
WHERE f.state_id IS NULL
""",
    """
UPDATE flow_run SET state_id = s.id FROM flow_run_state s
WHERE s.flow_run_id = flow_run.id AND flow_run.state_id IS NULL
""",
)
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

PAGES = {
    "start page": "/",
    "page of jobs": "/console/jobs",
    "page of failed jobs": "/console/jobs?state=failed",
    "page of a job": "/console/jobs/1",
    "page of run templates": "/console/runtemplates",
    "page of a run template": "/console/runtemplates/1",
    "page of the audit log": "/console/audit",
}


def _fill(filled: Database, *statements: str, first: int = 1, last: int = JOBS) -> None:
    """Fill a database with rows of these numbers, and let it know its figures."""
    for statement in statements:
        text = statement.replace("%(first)s", str(first)).replace("%(last)s", str(last))
        filled.server.execute(text)
    filled.server.execute("VACUUM ANALYZE")


def median_ms(ask: Callable[[], httpx.Response]) -> float:
    """How long an answer takes, once it is warm."""
    taken = [_timed(ask)[0] for _ in range(WARM + TIMES)]
    return round(statistics.median(taken[WARM:]), 2)


def _timed(ask: Callable[[], httpx.Response]) -> tuple[float, httpx.Response]:
    began = time.perf_counter()
    answer = ask()
    return (time.perf_counter() - began) * 1000, answer.raise_for_status()


@contextlib.contextmanager
def _claims(service: Up) -> Iterator[httpx.Client]:
    """The claims API, for a worker that is known to it."""
    token = service.jobauto("token", "issue", "--worker", "--pool", POOL)
    headers = {"Authorization": f"Bearer {token.split()[-1]}"}
    hello = {"worker": "bench", "pool": POOL, "host": "here", "instance": INSTANCE}
    with httpx.Client(base_url=f"{service.url}/internal/v1", headers=headers, timeout=60) as client:
        client.post("/workers", json=hello).raise_for_status()
        yield client


def _job_ms(service: Up, claims: httpx.Client) -> dict[str, float]:
    """Milliseconds of the three requests that one job takes."""
    posted, answer = _timed(lambda: service.rest.post("/job/", json={"runtemplate_id": 1}))
    job = answer.json()["id"]
    run = eventually(lambda: service.rest.get(f"/job/{job}.json").json()["flow_run_id"])
    claim = {
        "claim_id": str(uuid4()),
        "flow_run_id": run,
        "run_number": 1,
        "deployment_id": service.deployment(1),
        "announced": True,
        "worker": "bench",
        "instance": INSTANCE,
        "work_directory": str(service.home),
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
    path = f"/jobs/{answer.json()['launch']['job_id']}/report"
    reported, _ = _timed(lambda: claims.post(path, json=ended))
    return {"POST /job/": posted, "claim": claimed, "report": reported}


def _measured(service: Up, claims: httpx.Client) -> dict[str, float]:
    paths = {name: f"/{items}.json?{query}" for name, (items, query, _) in LISTS.items()}
    for name, (_, _, rows) in LISTS.items():
        told = int(service.rest.get(paths[name]).headers["x-total-count"])
        if told != service.ledger.one(f"SELECT count(*) FROM {rows}"):
            raise AssertionError(f"{name}: the total is not {told}")
    paths |= {"run templates": "/runtemplates.json", "a job": "/job/1.json"}
    paths |= {name: f"{service.url}{path}" for name, path in PAGES.items()}
    found = {name: median_ms(partial(service.rest.get, path)) for name, path in paths.items()}
    turns = [_job_ms(service, claims) for _ in range(TIMES + WARM)][WARM:]
    return found | {
        name: round(statistics.median(turn[name] for turn in turns), 2) for name in turns[0]
    }


def _scrape_ms(service: Up) -> float:
    """Milliseconds of a scrape of the facade's metrics that reads the ledger."""
    taken = []
    for _ in range(SCRAPES):
        time.sleep(SCRAPE_PAUSE)
        taken.append(_timed(lambda: service.rest.get(f"{service.url}/metrics"))[0])
    return statistics.median(taken)


def _grow(service: Up) -> None:
    ledger = service.ledger
    _fill(ledger, FILL_JOBS, FILL_LINES, first=FEW + 1)
    _fill(ledger, FILL_ENTRIES, first=FEW + 1, last=ENTRIES)
    for table in ("job", "audit_entry"):
        ledger.server.execute(GO_ON.format(table))
    sealed = "SELECT (SELECT max(id) FROM audit_entry) <= (SELECT max(last_id) FROM audit_seal)"
    eventually(lambda: ledger.one(sealed), SEALING)


def _listed_by_prefect(service: Up) -> float:
    """Milliseconds of the list of as many flow runs, by a bare Prefect in the service's place."""
    service.stop()
    _fill(service.prefect_database, *FILL_RUNS)
    wanted = {"sort": "EXPECTED_START_TIME_DESC", "limit": 100}
    prefect = Bare(service.home, service.prefect_database)
    prefect.start()
    try:
        return median_ms(lambda: prefect.prefect.post("/flow_runs/filter", json=wanted))
    finally:
        prefect.stop()


def _count_ms(ledger: Database) -> float:
    began = time.perf_counter()
    ledger.rows("SELECT count(*) FROM job")
    return (time.perf_counter() - began) * 1000


def _row(name: str, many: float, few: float) -> Figures:
    """The row of a question whose answer took so many milliseconds, full and nearly empty."""
    ratio = round(many / few, 2)
    return {
        "name": f"grown: {name}",
        "value": many,
        "unit": f"ms with {JOBS:,} jobs and {ENTRIES:,} audit entries, median",
        "yardstick": "a nearly empty ledger",
        "yardstick_value": few,
        "ratio": ratio,
        "goal": f"at most {GOAL_RATIO:g} times as long",
        "met": ratio <= GOAL_RATIO,
    }


def measure() -> list[Figures]:
    """The figures of each question."""
    with up() as service:
        app = service.app("/bin/true")
        for number in range(TEMPLATES):
            service.template(app, str(number), pool=POOL)
        job = service.post("/job/", {"runtemplate_id": 1, "scheduled": "2099-01-01"})
        service.post("/job/", {"id": job["id"], "state": "cancelled"})
        service.applied()
        with _claims(service) as claims:
            _fill(service.ledger, FILL_JOBS, FILL_ENTRIES, last=FEW)
            few = _measured(service, claims)
            _grow(service)
            many = _measured(service, claims)
        scrape = _scrape_ms(service)
        listed = median_ms(lambda: service.rest.get("/jobs.json?limit=100"))
        counted = _count_ms(service.ledger)
        prefect = _listed_by_prefect(service)
    return [
        *(_row(name, many[name], few[name]) for name in many),
        {
            "name": "grown: scrape",
            "value": round(scrape, 1),
            "unit": f"ms for all metrics with {JOBS:,} jobs, median",
            "yardstick": "SELECT count(*) FROM job",
            "yardstick_value": round(counted, 1),
            "ratio": round(scrape / counted, 1),
            "goal": f"under {GOAL_SCRAPE_MS:g} ms",
            "met": scrape < GOAL_SCRAPE_MS,
        },
        {
            "name": "grown: beside Prefect",
            "value": listed,
            "unit": f"ms for 100 of {JOBS:,} jobs, median",
            "yardstick": "Prefect's POST /flow_runs/filter with limit 100, as many flow runs",
            "yardstick_value": prefect,
            "ratio": round(prefect / listed, 1),
            "goal": f"at least {GOAL_LIST:g} times faster",
            "met": prefect / listed >= GOAL_LIST,
        },
    ]


if __name__ == "__main__":
    report(measure, __doc__)
