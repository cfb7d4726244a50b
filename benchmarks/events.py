"""From a change in an adapter database to the process of its job, beside a bare Prefect automation.

    python -m benchmarks.events --json [--quick]

By `jobauto up` on PostgreSQL, the adapter too. The value counts from the commit of the change, so
it has the wait for the next look at the source in it (`poll_interval` 1 s). The yardstick counts
from a Prefect event that is posted at a bare Prefect, by an automation, to the process that
Prefect's process worker starts. `stored_per_second` are changes that come from an adapter into the
ledger. With 10,000 rules all of them are on the one source, of as many kinds of records.
"""

import contextlib
import statistics
import time
import uuid
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from benchmarks.installation import (
    Bare,
    Database,
    Figures,
    Up,
    bare,
    database,
    eventually,
    program,
    report,
    running_process,
    sized,
    up,
)
from benchmarks.up import MARK

POLL_MS = 1000.0
GOAL_MS = 500.0 + POLL_MS
GOAL_MANY_MS = 1000.0 + POLL_MS
CHANGES = sized(50, 3)
STOCK_EVENTS = sized(5, 1)  # each takes seconds
MANY_RULES = sized(10_000, 20)
MANY_CHANGES = sized(20, 2)
STORED = sized(10_000, 100)
STEP_SECONDS = 0.37  # between changes; no part of a second, so that looks and changes do not meet

ADAPTER = """
CREATE TABLE changes_cache (inversion integer PRIMARY KEY, recordid integer, evidence varchar(60),
    operation varchar(10), externalids varchar(300))
"""
CHANGE = "INSERT INTO changes_cache VALUES (%s, %s, 'invoice', 'create', %s)"
FILL = """
INSERT INTO changes_cache SELECT n, n, 'other', 'create', 'x' FROM generate_series({}, {}) n
"""
MULTIPLY = """
INSERT INTO event_rule SELECT (jsonb_populate_record(NULL::event_rule, to_jsonb(r)
    || jsonb_build_object('id', r.id + n, 'evidence', 'kind ' || n, 'automation_id', NULL))).*
FROM event_rule r, generate_series(1, {}) n WHERE r.id = {}
"""
FLOW = """
import pathlib
import time

import prefect


@prefect.flow
def mark(started: str) -> None:
    pathlib.Path(started).write_text(str(time.time()))
"""


@contextlib.contextmanager
def _adapter() -> Iterator[tuple[Database, dict[str, Any]]]:
    """An empty adapter database, and what an event source says of it."""
    with database() as adapter:
        adapter.server.execute(ADAPTER)
        about = adapter.server.info
        yield (
            adapter,
            {
                "db_connection": "pgsql",
                "db_host": about.host,
                "db_port": str(about.port),
                "db_database": about.dbname,
                "db_username": about.user,
                "db_password": about.password or None,
            },
        )


class _Changes:
    """Changes of one source, each with the file its job marks."""

    def __init__(self, service: Up, adapter: Database) -> None:
        self._service = service
        self._adapter = adapter
        self._last = 0

    def milliseconds(self) -> float:
        """From the commit of one change to the first act of its process."""
        self._last += 1
        mark = self._service.home / f"change-{self._last}"
        self._adapter.server.execute(CHANGE, (self._last, self._last, str(mark)))
        committed = time.time()
        eventually(mark.exists)
        time.sleep(STEP_SECONDS)
        return (float(mark.read_text()) - committed) * 1000

    def median(self, count: int) -> tuple[float, float]:
        """Of so many, the first one left out; and the slowest."""
        found = [self.milliseconds() for _ in range(count + 1)][1:]
        return statistics.median(found), max(found)

    def stored_per_second(self) -> float:
        """Changes that no rule is for, from their commit until the ledger has all of them."""
        counted = "SELECT count(*) FROM event"
        wanted = int(self._service.ledger.one(counted)) + STORED
        self._adapter.server.execute(FILL.format(self._last + 1, self._last + STORED))
        began, self._last = time.perf_counter(), self._last + STORED
        eventually(lambda: int(self._service.ledger.one(counted)) >= wanted)
        return STORED / (time.perf_counter() - began)


def _rule(service: Up, source: dict[str, Any]) -> int:
    app = service.app(service.program_of_jobs("mark", MARK), "STARTED")
    template = service.template(app, env={"STARTED": "-"})
    made = service.post("/eventsource/", {"name": "erp", "poll_interval": 1, **source})
    body = {
        "event_source_id": made["id"],
        "runtemplate_id": template,
        "evidence": "invoice",
        "env_mapping": {"STARTED": "externalids"},
    }
    rule: int = service.post("/eventrule/", body)["id"]
    service.applied()
    return rule


def _many_rules(service: Up, rule: int) -> None:
    """As many more rules of the one source, and their automations, as the first one's are."""
    service.ledger.server.execute(MULTIPLY.format(MANY_RULES, rule))
    service.ledger.server.execute("ANALYZE")
    automations: Sequence[dict[str, Any]] = service.prefect.post(
        "/automations/filter", json={}
    ).json()
    (first,) = (one for one in automations if "invoice" in one["name"])
    trigger, (action,) = first["trigger"], first["actions"]
    del trigger["id"]

    def make(number: int) -> None:
        body = {
            "name": f"{first['name']} {number}",
            "tags": first["tags"],
            "trigger": trigger | {"match": {"jobauto.evidence": f"kind {number}"}},
            "actions": [action],
        }
        service.prefect.post("/automations/", json=body).raise_for_status()

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(make, range(1, MANY_RULES + 1)))


def _stock() -> list[float]:
    """Milliseconds from an event to the process, by Prefect alone."""
    with bare() as prefect, contextlib.ExitStack() as worker:
        (prefect.home / "mark.py").write_text(FLOW)
        prefect.create("/work_pools/", {"name": "stock", "type": "process"})
        deployment = prefect.create(
            "/deployments/",
            {
                "name": "mark",
                "flow_id": prefect.create("/flows/", {"name": "mark"}),
                "work_pool_name": "stock",
                "path": str(prefect.home),
                "entrypoint": "mark.py:mark",
            },
        )
        mark = "{{ event.resource['prefect.resource.name'] }}"
        automation = {
            "name": "bare",
            "trigger": {"type": "event", "posture": "Reactive", "expect": ["bench.bare"],
                        "threshold": 1, "within": 0},
            "actions": [{"type": "run-deployment", "source": "selected",
                         "deployment_id": deployment,
                         "parameters": {"started": {"__prefect_kind": "jinja", "template": mark}}}],
        }  # fmt: skip
        prefect.create("/automations/", automation)
        argv = [program("prefect"), "worker", "start", "--pool", "stock", "--type", "process"]
        told = prefect.environment | {"PREFECT_API_URL": str(prefect.prefect.base_url)}
        worker.enter_context(running_process(argv, told, prefect.home / "worker.log"))
        eventually(lambda: prefect.prefect.post("/work_pools/stock/workers/filter", json={}).json())
        return [_stock_one(prefect, number) for number in range(STOCK_EVENTS + 1)][1:]


def _stock_one(prefect: Bare, number: int) -> float:
    mark: Path = prefect.home / f"marked-{number}"
    resource = {"prefect.resource.id": "bench.bare", "prefect.resource.name": str(mark)}
    event = {"id": str(uuid.uuid4()), "occurred": datetime.now(UTC).isoformat(),
             "event": "bench.bare", "resource": resource}  # fmt: skip
    posted = time.time()
    prefect.prefect.post("/events", json=[event]).raise_for_status()
    text = eventually(lambda: mark.exists() and mark.read_text())
    return (float(text) - posted) * 1000


def measure() -> Figures:
    """The figures, as one JSON object."""
    yardstick = statistics.median(_stock())
    with up() as service, _adapter() as (adapter, source):
        rule = _rule(service, source)
        changes = _Changes(service, adapter)
        value, slowest = changes.median(CHANGES)
        stored = changes.stored_per_second()
        _many_rules(service, rule)
        many, many_slowest = changes.median(MANY_CHANGES)
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
