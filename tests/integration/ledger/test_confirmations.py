"""Which ends of jobs are still to be looked at in Prefect, on each kind of database."""

from datetime import datetime, timedelta
from typing import Any
from uuid import uuid4

import httpx
import pytest
from sqlalchemy import delete, select

from jobauto_prefect.ledger.audit.trail import SERVICE
from jobauto_prefect.ledger.jobs import confirmations
from jobauto_prefect.ledger.jobs.confirmations import SETTLED_FOR, End
from jobauto_prefect.ledger.records import Job, OutboxMessage
from jobauto_prefect.ledger.store import Ledger
from tests.support.databases import both_databases
from tests.support.ledger_rows import fetch_all
from tests.support.records import make_template

pytestmark = both_databases


@pytest.fixture
def job(rest: httpx.Client, ledger: Ledger) -> int:
    """A job that waits for a worker."""
    made = make_template(rest)
    body = {"runtemplate_id": made["id"], "scheduled": "2099-01-01 00:00:00"}
    job_id: int = rest.post("/job/", json=body).json()["id"]
    change(ledger, job_id, flow_run_id=uuid4(), state="running", run_number=1)
    return job_id


@pytest.fixture(autouse=True)
def clock(ledger: Ledger) -> list[timedelta]:
    """How far the ledger's clock is ahead; the test sets it."""
    ahead, real = [timedelta()], ledger.clock
    ledger.clock = lambda: real() + ahead[0]
    return ahead


def change(ledger: Ledger, job_id: int, **members: Any) -> None:
    with ledger.writing(SERVICE) as session:
        job = session.get_one(Job, job_id)
        for name, value in members.items():
            setattr(job, name, value)


def due(ledger: Ledger) -> list[End]:
    return list(confirmations.claim_due(ledger, 100))


def confirmed(ledger: Ledger, ends: list[End]) -> None:
    with ledger.writing(SERVICE) as session:
        confirmations.confirm(session, ends)


def shown(ledger: Ledger) -> list[int]:
    return [
        one.subject_id
        for one in fetch_all(ledger, select(OutboxMessage).where(OutboxMessage.kind == "show_job"))
    ]


def test_an_end_is_looked_at_once_its_worker_had_time_to_show_it(
    job: int, ledger: Ledger, clock: list[timedelta]
) -> None:
    change(ledger, job, message="it goes on")
    clock[0] = SETTLED_FOR
    assert due(ledger) == []  # it is not over
    change(ledger, job, state="succeeded")
    assert due(ledger) == []
    clock[0] += SETTLED_FOR
    (end,) = due(ledger)
    assert (end.job_id, end.state, end.run_number, end.is_newest) == (job, "succeeded", 1, True)
    assert due(ledger) == []  # it is somebody's
    confirmed(ledger, [end])
    clock[0] += timedelta(days=1)
    assert due(ledger) == []


def test_an_end_that_is_not_confirmed_comes_again_later_each_time(
    job: int, ledger: Ledger, clock: list[timedelta]
) -> None:
    change(ledger, job, state="succeeded")
    clock[0] = SETTLED_FOR
    waits = []
    for look in (1, 2, 3):
        (end,) = due(ledger)
        assert end.looks == look
        waits.append(end.until - ledger.clock())
        clock[0] += waits[-1] + timedelta(seconds=1)
    assert [round(wait / confirmations.TAKEN) for wait in waits] == [1, 2, 4]


def test_what_changes_a_lost_job_is_told_prefect_and_looked_at_anew(
    job: int, ledger: Ledger, clock: list[timedelta]
) -> None:
    change(ledger, job, state="lost")
    assert shown(ledger) == []  # who finds a loss says so itself
    clock[0] = SETTLED_FOR
    looked_at = due(ledger)
    change(ledger, job, state="succeeded")
    assert shown(ledger) == [job]
    confirmed(ledger, looked_at)  # which was the former end
    clock[0] += SETTLED_FOR
    assert [end.state for end in due(ledger)] == ["succeeded"]


def test_a_run_that_has_a_newer_job_is_that_one_s_matter(
    job: int, ledger: Ledger, clock: list[timedelta]
) -> None:
    change(ledger, job, state="failed")
    with ledger.writing(SERVICE) as session:
        former = session.get_one(Job, job)
        copied = ("app_id", "company_id", "runtemplate_id", "executor", "schedule", "schedule_type")
        newer = Job(**{name: getattr(former, name) for name in copied})
        newer.flow_run_id, newer.run_number = former.flow_run_id, 2
        session.add(newer)
    clock[0] = SETTLED_FOR
    assert [end.is_newest for end in due(ledger)] == [False]


def test_after_an_outage_all_that_ended_since_is_looked_at_again(
    job: int, ledger: Ledger, clock: list[timedelta]
) -> None:
    ended = ledger.clock()
    change(ledger, job, state="succeeded", end=ended)
    clock[0] = SETTLED_FOR
    confirmed(ledger, due(ledger))

    def doubt(since: datetime) -> list[int]:
        with ledger.writing(SERVICE) as session:
            confirmations.require_confirmation_since(session, since)
        return [end.job_id for end in due(ledger)]

    assert doubt(ended + timedelta(seconds=1)) == []
    assert doubt(ended) == [job]
    with ledger.reading() as session:
        assert confirmations.last_end(session) == ended


def test_a_job_that_is_pruned_is_looked_at_no_more(
    job: int, ledger: Ledger, clock: list[timedelta]
) -> None:
    change(ledger, job, state="succeeded")
    with ledger.engine.begin() as connection:
        connection.execute(delete(Job).where(Job.id == job))
    clock[0] = SETTLED_FOR
    assert due(ledger) == []
