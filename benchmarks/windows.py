"""Windows that `jobauto up` opens per second, with 10,000 run templates due in the same minute.

    python -m benchmarks.windows --json [--quick]

On PostgreSQL, filled by SQL; their pool has no worker. The yardstick is the database alone: as many
rows of tasks and jobs, inserted by its driver one by one in one transaction, with nothing decided
and nothing written to the audit trail.
"""

import time

from benchmarks.installation import Database, Figures, eventually, report, sized, up

TEMPLATES = sized(10_000, 1_500)
GOAL = TEMPLATES / 60.0
"""A minute's windows are open before the next minute begins."""

MULTIPLY = f"""
INSERT INTO runtemplate SELECT (jsonb_populate_record(NULL::runtemplate, to_jsonb(r)
    || jsonb_build_object('id', n, 'name', 'Template ' || n))).*
FROM runtemplate r, generate_series(2, {TEMPLATES}) n WHERE r.id = 1
"""
FULL_MINUTE = f"""
SELECT window_start FROM task GROUP BY window_start HAVING count(*) = {TEMPLATES} LIMIT 1
"""
PER_SECOND = """
SELECT count(*) FILTER (WHERE created_at > first) / extract(epoch FROM max(created_at) - first)
FROM task, (SELECT min(created_at) AS first FROM task WHERE window_start = '{0}') AS began
WHERE window_start = '{0}' GROUP BY first
"""
"""From the first one on, which is not counted: nobody sees when its transaction began."""


def _inserted_by_driver(ledger: Database) -> float:
    """Seconds for the rows of one minute, by the driver."""
    server, rows = ledger.server, {}
    for table in ("task", "job"):
        found = f"SELECT to_jsonb(t)::text FROM {table} t ORDER BY id LIMIT {TEMPLATES}"
        rows[table] = server.execute(found).fetchall()
        server.execute(f"CREATE TABLE floor_{table} (LIKE {table} INCLUDING ALL)")
    began = time.perf_counter()
    with server.transaction():
        for table, records in rows.items():
            made = f"SELECT (jsonb_populate_record(NULL::{table}, %s::jsonb)).*"
            server.cursor().executemany(f"INSERT INTO floor_{table} {made}", records)
    return time.perf_counter() - began


def measure() -> Figures:
    """Windows per second, the service's and the database's."""
    with up() as service:
        # Their tasks stay open: what follows a deadline is not measured here.
        app = service.app("/bin/true")
        service.template(app, "Template 1", pool="bench", interv="i", deadline_offset="+1d")
        service.ledger.server.execute(MULTIPLY)
        minute = eventually(lambda: service.ledger.one(FULL_MINUTE), 600)
        value = float(service.ledger.one(PER_SECOND.format(minute)))
        service.stop()
        floor = TEMPLATES / _inserted_by_driver(service.ledger)
    return {
        "name": "windows",
        "value": round(value, 1),
        "unit": "windows/s",
        "yardstick": "the database's driver inserts the same tasks and jobs",
        "yardstick_value": round(floor, 1),
        "ratio": round(value / floor, 3),
        "goal": f"at least {GOAL:.1f}",
        "met": value >= GOAL,
        "templates": TEMPLATES,
    }


if __name__ == "__main__":
    report(measure, __doc__)
