"""Pages of the console with 100,000 jobs, beside the same pages with hardly any.

    python -m benchmarks.console --json

On PostgreSQL, of the same facade: a page is asked when its list is just full, and again with
100,000 jobs and audit entries of a year.
"""

from benchmarks.lists import DEFINITION, ENTRIES, median_ms, run_statements
from benchmarks.stack import Stack, eventually, report, stack

FEW, MANY = 60, 100_000
TEMPLATES = 20
GOAL_RATIO = 1.5

JOBS = """
INSERT INTO job SELECT filled.*
FROM (SELECT * FROM job ORDER BY id LIMIT 1) j, generate_series(%(first)s, %(rows)s) n,
    LATERAL jsonb_populate_record(NULL::job, to_jsonb(j) || jsonb_build_object(
    'id', n + 1000, 'runtemplate_id', 1 + n % %(templates)s, 'exitcode', n % 10 / 9,
    'state', CASE WHEN n % 10 = 9 THEN 'failed' ELSE 'succeeded' END,
    'severity', CASE WHEN n % 10 = 9 THEN 'error' ELSE 'success' END,
    'created_at', now() - n * interval '5 minutes', 'schedule', now() - n * interval '5 minutes',
    'begin', now() - n * interval '5 minutes',
    'end', now() - n * interval '5 minutes' + interval '2 seconds'
)) filled
"""


def make_records(running: Stack) -> int:
    """Make run templates and a job that is over; return its id."""
    app = running.post("/app/", DEFINITION)
    running.post("/company/", {"slug": "bench", "name": "Bench"})
    for number in range(TEMPLATES):
        running.post(
            "/runtemplate/", {"app_id": app["id"], "company": "bench", "name": str(number)}
        )
    job = running.post("/job/", {"runtemplate_id": 1, "scheduled": "2099-01-01"})
    running.post("/job/", {"id": job["id"], "state": "cancelled"})
    eventually(lambda: running.rest.get("/status").json()["waiting_for_prefect"] == 0)
    return int(job["id"])


def fill(running: Stack, first: int, last: int, entries: int | None = None) -> None:
    """Insert jobs of all run templates, and audit entries up to `entries`; None: as many."""
    jobs = JOBS.replace("%(first)s", str(first)).replace("%(templates)s", str(TEMPLATES))
    numbers = f"generate_series({first}, {entries or last})"
    audit = ENTRIES.replace("generate_series(1, %(rows)s)", numbers)
    run_statements(running.ledger, last, jobs, audit)


def measure() -> list[dict[str, object]]:
    """The figures of each page."""
    with stack() as running:
        job = make_records(running)
        pages = {
            "start page": "/",
            "jobs": "/console/jobs",
            "failed jobs": "/console/jobs?state=failed",
            "a job": f"/console/jobs/{job}",
            "run templates": "/console/runtemplates",
            "a run template": "/console/runtemplates/1",
            "audit log": "/console/audit",
        }

        def ask_all() -> dict[str, float]:
            base = running.settings.url
            return {
                name: median_ms(lambda path=path: running.rest.get(f"{base}{path}"))
                for name, path in pages.items()
            }

        fill(running, 1, FEW)
        few = ask_all()
        fill(running, FEW + 1, MANY)
        many = ask_all()
    full, yardstick = f"{MANY:,} jobs", f"the same page with {FEW} jobs"
    return [
        row_of_growth(f"console: {name}", many[name], few[name], full, yardstick) for name in pages
    ]


def row_of_growth(
    name: str, many: float, few: float, full: str, yardstick: str
) -> dict[str, object]:
    """The row of a question whose answer took so many milliseconds, full and nearly empty."""
    ratio = round(many / few, 2)
    return {
        "name": name,
        "value": many,
        "unit": f"ms with {full}, median",
        "yardstick": yardstick,
        "yardstick_value": few,
        "ratio": ratio,
        "goal": f"at most {GOAL_RATIO:g} times as long",
        "met": ratio <= GOAL_RATIO,
    }


if __name__ == "__main__":
    report(measure, __doc__)
