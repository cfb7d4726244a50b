"""What a scrape of the facade's metrics takes at 100,000 jobs, on PostgreSQL and on SQLite.

    python -m benchmarks.scrape --json

As many windows, audit entries and events are there too, and a thousand messages of the outbox.
Nothing is remembered from one scrape to the next. The yardstick is the plain count of all jobs.
"""

import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from sqlalchemy import text

from benchmarks.stack import database, report
from jobauto_prefect.facade import metrics
from jobauto_prefect.facade.app import create_app
from jobauto_prefect.ledger.audit.trail import SERVICE
from jobauto_prefect.ledger.database import migration
from jobauto_prefect.ledger.database.engine import long_limits, make_engine
from jobauto_prefect.ledger.opening import open_ledger
from jobauto_prefect.ledger.records import App, Company, RunTemplate
from jobauto_prefect.ledger.secrets import create_key
from jobauto_prefect.ledger.store import Ledger
from jobauto_prefect.settings import Settings

ROWS = 100_000
COMPANIES = 20
TIMES = 20
GOAL_MS = 50.0

NUMBERS = {
    "postgresql": "SELECT n FROM generate_series(1, :rows) n",
    "sqlite": "WITH RECURSIVE s(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM s WHERE n < :rows)"
    " SELECT n FROM s",
}
STATE = (
    "CASE n % 10 WHEN 0 THEN 'failed' WHEN 1 THEN 'warning' WHEN 2 THEN 'lost'"
    " WHEN 3 THEN 'cancelled' ELSE 'succeeded' END"
)
SEVERITY = (
    "CASE n % 10 WHEN 0 THEN 'error' WHEN 1 THEN 'warning' WHEN 2 THEN NULL"
    " WHEN 3 THEN NULL WHEN 4 THEN 'info' ELSE 'success' END"
)
FILL = (
    "INSERT INTO job (id, app_id, company_id, runtemplate_id, attempt, worker_losses, state,"
    " severity, schedule, schedule_type, executor, env, undeclared, warnings, overrides,"
    " override_secrets, input_files, policy, created_at, command)"
    f" SELECT n, 1, 1 + n % {COMPANIES}, 1, 1, 0, {STATE}, {SEVERITY}, :now, 'scheduled', 'Native',"
    " '{}', '[]', '[]', '{}', '{}', '{}', '{}', :now, :long FROM (@numbers) numbers",
    "INSERT INTO task (id, runtemplate_id, window_start, window_end, deadline, state, attempts,"
    " catch_up, created_at)"
    " SELECT n, 1, @window, @window, @window,"
    " CASE n % 50 WHEN 0 THEN 'missed' ELSE 'fulfilled' END, 1,"
    " :no, :now FROM (@numbers) numbers",
    "INSERT INTO event (id, kind, event_source_id, operation, data, depth, created_at, emitted_at)"
    " SELECT n, 'end', NULL, 'succeeded', '{}', 0, :now, :now FROM (@numbers) numbers",
    "INSERT INTO outbox_message"
    " (kind, priority, subject_id, payload, created_at, not_before, attempts)"
    " SELECT 'show_job', 0, n, '{}', :now, :now, 0 FROM (@numbers) numbers WHERE n <= 1000",
    "INSERT INTO audit_entry (created_at, actor, door, entity_type, entity_id, action, changes)"
    " SELECT :now, 'service', 'service', 'Job', n, 'update', '{}' FROM (@numbers) numbers",
    "INSERT INTO audit_seal (id, first_id, last_id, gaps, previous, hmac, sealed_at)"
    " SELECT 1, 1, max(id) - 5, '[]', '', '', :now FROM audit_entry",
)
WINDOW = {
    "postgresql": "CAST(:now AS timestamptz) - n * interval '1 minute'",
    "sqlite": "datetime(:now, '-' || n || ' minutes')",
}


def _fill(ledger: Ledger) -> None:
    with ledger.writing(SERVICE) as session:
        app = App(name="Counted", document={}, source="{}")
        session.add(app)
        for number in range(COMPANIES):
            session.add(Company(slug=f"company-{number}", name=f"Company {number}"))
        session.flush()
        session.add(RunTemplate(app_id=app.id, company_id=1, name="t", interv="n"))
    kind = ledger.engine.dialect.name
    now = ledger.clock()
    values = {
        "rows": ROWS,
        "now": now if kind == "postgresql" else now.strftime("%Y-%m-%d %H:%M:%S.%f"),
        "long": "x" * 500,
        "no": False,
    }
    with ledger.engine.connect() as connection:
        for statement in FILL:
            wanted = statement.replace("@numbers", NUMBERS[kind]).replace("@window", WINDOW[kind])
            asked = text(wanted)
            known = {name: value for name, value in values.items() if f":{name}" in wanted}
            connection.execution_options(jobauto_writes=True).execute(asked, known)
        connection.commit()
    with ledger.engine.execution_options(jobauto_reads=True).connect() as connection:
        connection.exec_driver_sql("VACUUM ANALYZE" if kind == "postgresql" else "ANALYZE")


def _median_ms(ask: Callable[[], object]) -> float:
    taken = []
    for number in range(TIMES + 2):
        began = time.perf_counter()
        ask()
        if number >= 2:  # warm
            taken.append((time.perf_counter() - began) * 1000)
    return round(statistics.median(taken), 1)


def _measured(url: str, home: Path) -> tuple[float, float]:
    """Milliseconds of a scrape, and of the plain count."""
    settings = Settings(home=home, database_url=url)
    create_key(settings.key_path)
    migration.upgrade(make_engine(settings.ledger_url))
    ledger = open_ledger(settings, limits=long_limits(settings))
    try:
        _fill(ledger)
        monitor = create_app(settings, ledger).state.service.monitor
        assert b'jobauto_jobs{company="company-1"' in monitor.exposition()

        def count() -> None:
            with ledger.reading() as session:
                session.execute(text("SELECT count(*) FROM job"))

        return _median_ms(monitor.exposition), _median_ms(count)
    finally:
        ledger.close()


def measure() -> dict[str, object]:
    """The figures, as one JSON object."""
    metrics.REREAD_FACTOR = 0
    with tempfile.TemporaryDirectory() as folder, database() as url:
        (Path(folder) / "postgresql").mkdir()
        postgresql, yardstick = _measured(url, Path(folder) / "postgresql")
        sqlite, sqlite_yardstick = _measured(f"sqlite:///{folder}/ledger.db", Path(folder))
    return {
        "name": "scrape",
        "value": postgresql,
        "unit": "ms for all metrics at 100,000 jobs on PostgreSQL, median",
        "yardstick": "SELECT count(*) FROM job",
        "yardstick_value": yardstick,
        "ratio": round(postgresql / yardstick, 1),
        "goal": f"under {GOAL_MS:g} ms, on SQLite too",
        "met": max(postgresql, sqlite) < GOAL_MS,
        "sqlite_ms": sqlite,
        "sqlite_yardstick_ms": sqlite_yardstick,
    }


if __name__ == "__main__":
    report(measure, __doc__)
