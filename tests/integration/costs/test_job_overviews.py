"""What the start page reads of jobs goes by indexes: it costs the same however many are over."""

import re
from collections.abc import Iterator
from datetime import timedelta
from typing import Any

import httpx
import pytest
from sqlalchemy import event, insert

from jobauto_prefect.ledger.queries.jobs import ended_by_day
from jobauto_prefect.ledger.queries.lists import Condition, Selection, page
from jobauto_prefect.ledger.records import Job
from jobauto_prefect.ledger.states import FAILED_JOBS, SUCCESSFUL_JOBS, JobState
from jobauto_prefect.ledger.store import Ledger
from tests.support.databases import both_databases
from tests.support.job_records import JobRecords, make_job_template

pytestmark = both_databases

JOBS = 3000


@pytest.fixture
def full_ledger(rest: httpx.Client, ledger: Ledger) -> Ledger:
    """A ledger with many jobs that are over, whose statistics say so."""
    records, now = JobRecords(ledger, *make_job_template(rest)), ledger.clock()
    fields: dict[str, Any] = {
        "app_id": records.app,
        "company_id": records.company,
        "runtemplate_id": records.template,
        "schedule_type": "scheduled",
        "executor": "Native",
        "created_at": now,
    }
    ends = [now - timedelta(hours=number) for number in range(JOBS)]
    rows = [{**fields, "state": "succeeded", "schedule": end, "end": end} for end in ends]
    with ledger.engine.begin() as connection:
        connection.execute(insert(Job.__table__), rows)
        connection.exec_driver_sql("ANALYZE")
    return ledger


@pytest.fixture
def plans(full_ledger: Ledger) -> Iterator[list[str]]:
    """How the database carries out each statement about jobs."""
    explained: list[str] = []
    explain = "EXPLAIN QUERY PLAN" if full_ledger.engine.name == "sqlite" else "EXPLAIN"

    def look(_: Any, cursor: Any, statement: str, parameters: Any, *__: Any) -> None:
        if re.search(r"\bFROM job\b", statement) and statement.startswith("SELECT"):
            cursor.execute(f"{explain} {statement}", parameters)
            explained.append("\n".join(str(row) for row in cursor.fetchall()))

    event.listen(full_ledger.engine, "before_cursor_execute", look)
    yield explained
    event.remove(full_ledger.engine, "before_cursor_execute", look)


def test_waiting_jobs_are_read_in_the_order_of_the_index(
    full_ledger: Ledger, plans: list[str]
) -> None:
    waiting = (Condition("state", JobState.SCHEDULED),)
    with full_ledger.reading() as session:
        page(session, Job, Selection(None, waiting, "schedule", 6))
    assert plans
    assert any("ix_job_state_schedule" in plan for plan in plans), plans
    assert not any("TEMP B-TREE" in plan for plan in plans), plans


def test_days_are_counted_by_the_index_alone(full_ledger: Ledger, plans: list[str]) -> None:
    now = full_ledger.clock()
    midnights = [now - timedelta(days=day) for day in reversed(range(14))]
    with full_ledger.reading() as session:
        counts = ended_by_day(session, None, (*SUCCESSFUL_JOBS, *FAILED_JOBS), midnights)
    assert sum(counts.values()) >= 13 * 24
    # PostgreSQL may take the index by the end alone, where few jobs are in it.
    assert plans
    assert all("ix_job_end" in plan and "Seq Scan" not in plan for plan in plans), plans
    if full_ledger.engine.name == "sqlite":
        assert any("COVERING INDEX ix_job_ended" in plan for plan in plans), plans
