"""What an installation asks of PostgreSQL and of the processors while no job runs.

    python -m benchmarks.idle --json

Prefect, facade, services and a worker for a minute; the yardstick is a bare Prefect beside it, and
the figures are what is above it. Statements are counted as transactions of PostgreSQL: outside of
jobs nearly each statement is one.
"""

import time
from typing import Any

import psycopg

from benchmarks.burst import template_of
from benchmarks.cpu import cpu_of, cpu_seconds
from benchmarks.stack import POSTGRESQL, bare_prefect, report, stack

SECONDS = 60
SETTLED_SECONDS = 20
GOAL_STATEMENTS = 3.0
GOAL_CORES = 0.015

TRANSACTIONS = "SELECT xact_commit + xact_rollback FROM pg_stat_database WHERE datname = %s"


def _transactions(*databases: str) -> int:
    with psycopg.connect(POSTGRESQL, autocommit=True) as connection:
        connection.execute("SELECT pg_stat_clear_snapshot()")
        names = [url.rpartition("/")[2] for url in databases]
        rows = [connection.execute(TRANSACTIONS, (name,)).fetchone() for name in names]
        return sum(int(row[0]) for row in rows if row)


def _measured() -> dict[str, Any]:
    with stack() as running, bare_prefect() as bare:
        running.start_worker()
        template_of(running, "jobauto")
        running.applied()
        time.sleep(SETTLED_SECONDS)
        databases = (running.ledger, running.prefect_database)
        asked, bare_asked = _transactions(*databases), _transactions(bare.database)
        used, bare_used = sum(cpu_of(running).values()), cpu_seconds(bare.pid)
        time.sleep(SECONDS)
        return {
            "statements": (_transactions(*databases) - asked) / SECONDS,
            "bare_statements": (_transactions(bare.database) - bare_asked) / SECONDS,
            "cores": (sum(cpu_of(running).values()) - used) / SECONDS,
            "bare_cores": (cpu_seconds(bare.pid) - bare_used) / SECONDS,
        }


def measure() -> list[dict[str, object]]:
    """The figures of the database and of the processors."""
    found = _measured()
    rows: list[dict[str, object]] = []
    for name, goal, unit in (
        (
            "statements",
            GOAL_STATEMENTS,
            "transactions of PostgreSQL per second, above it",
        ),
        ("cores", GOAL_CORES, "cores, above it"),
    ):
        above = found[name] - found[f"bare_{name}"]
        rows.append(
            {
                "name": f"idle: {name}",
                "value": round(above, 3),
                "unit": unit,
                "yardstick": "a bare Prefect server beside it",
                "yardstick_value": round(found[f"bare_{name}"], 3),
                "ratio": round(found[name] / found[f"bare_{name}"], 2),
                "goal": f"at most {goal:g} above",
                "met": above <= goal,
            }
        )
    return rows


if __name__ == "__main__":
    report(measure, __doc__)
