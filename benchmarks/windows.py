"""Windows opened per second, with 10,000 run templates that are all due in the same minute.

    python -m benchmarks.windows --json

On PostgreSQL. The yardstick is the database alone: as many rows of tasks and jobs, inserted by its
driver one by one in one transaction, with nothing decided and nothing written to the audit trail.
"""

import statistics
import tempfile
import time
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import psycopg

from benchmarks.stack import database, report
from jobauto_prefect.engine.services.window_scheduler import WindowScheduler
from jobauto_prefect.jobs.windows.due_windows import keep_windows
from jobauto_prefect.ledger.audit.trail import SERVICE
from jobauto_prefect.ledger.database import migration
from jobauto_prefect.ledger.database.engine import make_engine
from jobauto_prefect.ledger.opening import open_ledger
from jobauto_prefect.ledger.records import App, Company, RunTemplate
from jobauto_prefect.ledger.secrets import create_key
from jobauto_prefect.ledger.store import Ledger
from jobauto_prefect.settings import Settings

TEMPLATES = 10_000
MINUTES = 3
GOAL = TEMPLATES / 60.0
"""A minute's windows are open before the next minute begins."""

START = datetime(2026, 5, 4, 12, 0, 30, tzinfo=UTC)
DEFINITION: dict[str, Any] = {
    "$schema": "https://example.com/application.schema.json",
    "name": "Opened",
    "description": "Never runs",
    "executable": "true",
    "environment": {},
}
MULTIPLY = """
INSERT INTO runtemplate SELECT (jsonb_populate_record(NULL::runtemplate, to_jsonb(r)
    || jsonb_build_object('id', n, 'name', 'Template ' || n))).*
FROM runtemplate r, generate_series(2, %(templates)s) n WHERE r.id = 1
"""


class Minutes:
    """A clock that a measurement sets."""

    def __init__(self) -> None:
        self.now = START

    def __call__(self) -> datetime:
        return self.now


def _fill(ledger: Ledger, settings: Settings) -> None:
    """One run template each minute, as it is written, and 9,999 that are like it."""
    with ledger.writing(SERVICE) as session:
        app = App(name="Opened", source="{}", document=DEFINITION)
        company = Company(slug="bench", name="Bench")
        # Their tasks stay open: what follows a deadline is not measured here.
        template = RunTemplate(
            app=app, company=company, name="Template 1", interv="i", deadline_offset="+1d"
        )
        session.add_all((app, company, template))
        keep_windows(session, template, settings)
    with psycopg.connect(str(settings.database_url), autocommit=True) as connection:
        connection.execute(MULTIPLY.replace("%(templates)s", str(TEMPLATES)))
        connection.execute("VACUUM ANALYZE")


def _open_minute(keeper: WindowScheduler, clock: Minutes) -> float:
    """Seconds for the windows of the next minute."""
    clock.now += timedelta(minutes=1)
    began = time.perf_counter()
    keeper.tick()
    return time.perf_counter() - began


def _counted(url: str) -> int:
    with psycopg.connect(url) as connection:
        found = connection.execute("SELECT count(*) FROM task").fetchone()
    return int(found[0]) if found else 0


def _floor(url: str) -> float:
    """Seconds for the rows of one minute, by the driver."""
    with psycopg.connect(url) as connection:
        rows = {}
        for table in ("task", "job"):
            found = f"SELECT to_jsonb(t)::text FROM {table} t ORDER BY id LIMIT {TEMPLATES}"
            rows[table] = connection.execute(found).fetchall()
            connection.execute(f"CREATE TABLE floor_{table} (LIKE {table} INCLUDING ALL)")
        connection.commit()
        began = time.perf_counter()
        for table, records in rows.items():
            made = f"SELECT (jsonb_populate_record(NULL::{table}, %s::jsonb)).*"
            connection.cursor().executemany(f"INSERT INTO floor_{table} {made}", records)
        connection.commit()
        return time.perf_counter() - began


def measure() -> dict[str, object]:
    """Windows per second, the keeper's and the database's."""
    clock = Minutes()
    with database() as url, tempfile.TemporaryDirectory() as folder:
        settings = Settings(home=Path(folder), database_url=url)
        create_key(settings.key_path)
        engine = make_engine(settings.ledger_url)
        migration.upgrade(engine)
        engine.dispose()
        ledger = open_ledger(settings, clock)
        try:
            _fill(ledger, settings)
            keeper = WindowScheduler(ledger)
            taken = [_open_minute(keeper, clock) for _ in range(MINUTES)]
        finally:
            ledger.close()
        if _counted(url) != TEMPLATES * MINUTES:
            raise RuntimeError(f"{_counted(url)} windows were opened, not {TEMPLATES * MINUTES}")
        floor = TEMPLATES / _floor(url)
    value = TEMPLATES / statistics.median(taken)
    return {
        "name": "windows",
        "value": round(value, 1),
        "unit": "windows/s",
        "yardstick": "the database's driver inserts the same tasks and jobs",
        "yardstick_value": round(floor, 1),
        "ratio": round(value / floor, 3),
        "goal": round(GOAL, 1),
        "met": value >= GOAL,
        "templates": TEMPLATES,
        "seconds": [round(each, 2) for each in taken],
    }


if __name__ == "__main__":
    report(measure, __doc__)
