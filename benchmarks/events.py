"""From a change in an adapter database to the process of its job, beside a bare Prefect automation.

    python -m benchmarks.events --json

On PostgreSQL, the adapter too. The value counts from the commit of the change, so it has the wait
for the next look at the source in it (`poll_interval` 1 s). The yardstick counts from a Prefect
event that is posted, by an automation of Prefect alone, to the process that Prefect's process
worker starts. `stored_per_second` are changes that a poller brings from an adapter into the ledger.
With 10,000 rules all of them are on the one source, of as many kinds of records.
"""

import contextlib
import statistics
import tempfile
import time
import uuid
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import psycopg

from benchmarks.stack import Stack, database, eventually, report, stack
from benchmarks.start_latency import start_workers, templates_of
from jobauto_prefect.ledger.audit.trail import SERVICE
from jobauto_prefect.ledger.database import migration
from jobauto_prefect.ledger.database.engine import make_engine
from jobauto_prefect.ledger.opening import open_ledger
from jobauto_prefect.ledger.records import EventSource
from jobauto_prefect.ledger.secrets import create_key
from jobauto_prefect.settings import Settings
from jobauto_prefect.sources import Poller

POLL_MS = 1000.0
GOAL_MS = 500.0 + POLL_MS
GOAL_MANY_MS = 1000.0 + POLL_MS
CHANGES = 50
STOCK_EVENTS = 5  # each takes seconds
MANY_RULES = 10_000
MANY_CHANGES = 20
STORED = 10_000
STEP_SECONDS = 0.37  # between changes; no part of a second, so that looks and changes do not meet

ADAPTER = """
CREATE TABLE changes_cache (inversion integer PRIMARY KEY, recordid integer, evidence varchar(60),
    operation varchar(10), externalids varchar(300))
"""
CHANGE = "INSERT INTO changes_cache VALUES (%s, %s, 'invoice', 'create', %s)"
FILL = (
    "INSERT INTO changes_cache SELECT n, n, 'invoice', 'create', 'x' FROM generate_series(1, %s) n"
)
MULTIPLY = """
INSERT INTO event_rule SELECT (jsonb_populate_record(NULL::event_rule, to_jsonb(r)
    || jsonb_build_object('id', r.id + n, 'evidence', 'kind ' || n, 'automation_id', NULL))).*
FROM event_rule r, generate_series(1, %s) n WHERE r.id = %s
"""


@contextlib.contextmanager
def _adapter() -> Iterator[tuple[str, dict[str, Any]]]:
    """An empty adapter database: its URL, and what an event source says of it."""
    with database() as url:
        with psycopg.connect(url, autocommit=True) as connection:
            connection.execute(ADAPTER)
            about = connection.info
            members = {
                "db_connection": "pgsql",
                "db_host": about.host,
                "db_port": str(about.port),
                "db_database": about.dbname,
                "db_username": about.user,
                "db_password": about.password or None,
            }
        yield url, members


class _Changes:
    """Changes of one source, each with the file its job marks."""

    def __init__(self, running: Stack, url: str) -> None:
        self._running = running
        self._connection = psycopg.connect(url, autocommit=True)
        self._last = 0

    def milliseconds(self) -> float:
        """From the commit of one change to the first act of its process."""
        self._last += 1
        mark = self._running.home / f"change-{self._last}"
        self._connection.execute(CHANGE, (self._last, self._last, str(mark)))
        committed = time.time()
        eventually(mark.exists)
        time.sleep(STEP_SECONDS)
        return (float(mark.read_text()) - committed) * 1000

    def median(self, count: int) -> tuple[float, float]:
        """Of so many; and the slowest."""
        found = [self.milliseconds() for _ in range(count)]
        return statistics.median(found), max(found)

    def close(self) -> None:
        """Done."""
        self._connection.close()


def _rule(running: Stack, source: dict[str, Any], template: int) -> int:
    made = running.post("/eventsource/", {"name": "erp", "poll_interval": 1, **source})
    body = {
        "event_source_id": made["id"],
        "runtemplate_id": template,
        "evidence": "invoice",
        "env_mapping": {"STARTED": "externalids"},
    }
    rule: int = running.post("/eventrule/", body)["id"]
    return rule


def _idle(running: Stack) -> None:
    eventually(lambda: running.rest.get("/status").json()["waiting_for_prefect"] == 0)


def _automations(running: Stack) -> Sequence[dict[str, Any]]:
    found: Sequence[dict[str, Any]] = running.prefect.post("/automations/filter", json={}).json()
    return found


def _bare(running: Stack, template: int) -> list[float]:
    """Milliseconds from an event to the process, by an automation of nobody's rule."""
    with psycopg.connect(running.ledger) as connection:
        row = connection.execute(
            "SELECT deployment_id FROM runtemplate WHERE id = %s", (template,)
        ).fetchone()
    mark = "{{ event.resource['prefect.resource.name'] }}"
    automation = {
        "name": "bare",
        "trigger": {"type": "event", "posture": "Reactive", "expect": ["bench.bare"],
                    "threshold": 1, "within": 0},
        "actions": [{"type": "run-deployment", "source": "selected",
                     "deployment_id": str(row[0]) if row else "",
                     "parameters": {"STARTED": {"__prefect_kind": "jinja", "template": mark}}}],
    }  # fmt: skip
    running.prefect.post("/automations/", json=automation).raise_for_status()
    time.sleep(1)  # until its triggers are loaded
    return [_bare_one(running, number) for number in range(STOCK_EVENTS + 1)][1:]


def _bare_one(running: Stack, number: int) -> float:
    mark = running.home / f"bare-{number}"
    resource = {"prefect.resource.id": "bench.bare", "prefect.resource.name": str(mark)}
    event = {"id": str(uuid.uuid4()), "occurred": datetime.now(UTC).isoformat(),
             "event": "bench.bare", "resource": resource}  # fmt: skip
    posted = time.time()
    running.prefect.post("/events", json=[event]).raise_for_status()
    eventually(mark.exists)
    return (float(mark.read_text()) - posted) * 1000


def _many_rules(running: Stack, rule: int) -> None:
    """As many more rules of the one source, and their automations, as the first one's are."""
    with psycopg.connect(running.ledger, autocommit=True) as connection:
        connection.execute(MULTIPLY, (MANY_RULES, rule))
        connection.execute("ANALYZE")
    (first,) = (one for one in _automations(running) if "invoice" in one["name"])
    trigger, (action,) = first["trigger"], first["actions"]

    def make(number: int) -> None:
        body = {
            "name": f"{first['name']} {number}",
            "tags": first["tags"],
            "trigger": trigger | {"match": {"jobauto.evidence": f"kind {number}"}, "id": None},
            "actions": [action],
        }
        del body["trigger"]["id"]
        running.prefect.post("/automations/", json=body).raise_for_status()

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(make, range(1, MANY_RULES + 1)))


def _stored_per_second() -> float:
    """Changes that a poller brings from an adapter into a ledger with one rule for them."""
    with (
        database() as ledger_url,
        _adapter() as (adapter_url, source),
        tempfile.TemporaryDirectory() as folder,
    ):
        settings = Settings(home=Path(folder), database_url=ledger_url)
        create_key(settings.key_path)
        engine = make_engine(settings.ledger_url)
        migration.upgrade(engine)
        engine.dispose()
        with psycopg.connect(adapter_url, autocommit=True) as connection:
            connection.execute(FILL, (STORED,))
        ledger = open_ledger(settings)
        try:
            with ledger.writing(SERVICE) as session:
                made = EventSource(name="erp", **source)
                session.add(made)
                session.flush()
                number = made.id
            began = time.perf_counter()
            stored = Poller(ledger, settings).read(number)
            seconds = time.perf_counter() - began
        finally:
            ledger.close()
    if stored != STORED:
        raise RuntimeError(f"{stored} changes were stored, not {STORED}")
    return STORED / seconds


def measure() -> dict[str, object]:
    """The figures, as one JSON object."""
    stored = _stored_per_second()
    with stack() as running, _adapter() as (url, source):
        running.prefect.post("/work_pools/", json={"name": "stock", "type": "process"})
        templates = templates_of(running)
        rule = _rule(running, source, templates["jobauto"])
        _idle(running)
        start_workers(running)
        changes = _Changes(running, url)
        changes.milliseconds()  # warm
        value, slowest = changes.median(CHANGES)
        yardstick = statistics.median(_bare(running, templates["stock"]))
        _many_rules(running, rule)
        changes.milliseconds()
        many, many_slowest = changes.median(MANY_CHANGES)
        changes.close()
    return {
        "name": "events",
        "value": round(value, 1),
        "unit": "ms from the commit of a change to the process, median",
        "yardstick": "a bare Prefect automation and Prefect's process worker, from the event on",
        "yardstick_value": round(yardstick, 1),
        "ratio": round(yardstick / value, 1),
        "goal": f"at most {GOAL_MS:g} ms, {POLL_MS:g} ms of it between two looks at the source; "
        f"with {MANY_RULES} rules {GOAL_MANY_MS:g} ms",
        "met": value <= GOAL_MS and many <= GOAL_MANY_MS,
        "changes": CHANGES,
        "slowest": round(slowest, 1),
        "rules": MANY_RULES,
        "with_many_rules": round(many, 1),
        "slowest_with_many_rules": round(many_slowest, 1),
        "stored_per_second": round(stored),
    }


if __name__ == "__main__":
    report(measure, __doc__)
