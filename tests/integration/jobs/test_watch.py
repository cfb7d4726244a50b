"""Jobs that run longer than usual, and windows that are not done in time, are told of once."""

from datetime import timedelta
from typing import Any

import httpx
import pytest

from jobauto_prefect.jobs.overruns import OverrunMonitor
from jobauto_prefect.ledger.audit.trail import SERVICE
from jobauto_prefect.ledger.jobs import attempts
from jobauto_prefect.ledger.records import Job, Notice, RunTemplate, Task
from jobauto_prefect.ledger.store import Ledger
from jobauto_prefect.settings import Settings
from tests.support.claims import claim_of, granted, own_run_of, report
from tests.support.ledger_rows import fetch_all
from tests.support.poison import cure, poison

ALL = ["failure", "recovery", "missed", "slow", "late"]
MINUTE = timedelta(minutes=1)


@pytest.fixture
def watch(ledger: Ledger, facade_settings: Settings) -> OverrunMonitor:
    return OverrunMonitor(ledger, facade_settings)


def rows(ledger: Ledger) -> list[Notice]:
    return fetch_all(ledger, Notice)


def occasions(ledger: Ledger) -> list[str]:
    return [row.occasion for row in rows(ledger)]


def tell(rest: httpx.Client, **members: Any) -> None:
    """Notices of all jobs of the company of `template`."""
    notices = {"mail": {"on": ALL, "to": ["ops@acme.example"]}, **members}
    rest.post("/company/", json={"id": 1, "notices": notices}).raise_for_status()


def ended_jobs(ledger: Ledger, template: dict[str, Any], number: int, took: timedelta) -> None:
    """So many good jobs."""
    with ledger.writing(SERVICE) as session:
        record, now = session.get_one(RunTemplate, template["id"]), session.clock()
        session.add_all(
            Job(app_id=record.app_id, company_id=record.company_id, runtemplate=record,
                state="succeeded", severity="success", schedule=now, schedule_type="adhoc",
                begin=now - took, end=now, executor="Native")
            for _ in range(number)
        )  # fmt: skip


def begin_earlier(ledger: Ledger, job_id: int, by: timedelta) -> None:
    with ledger.writing(SERVICE) as session:
        job = session.get_one(Job, job_id)
        assert job.begin is not None
        job.begin -= by


def test_a_job_that_runs_longer_than_usual_is_told_once(
    rest: httpx.Client, claims: httpx.Client, ledger: Ledger, facade_settings: Settings,
    watch: OverrunMonitor, template: dict[str, Any],
) -> None:  # fmt: skip
    tell(rest)
    ended_jobs(ledger, template, 5, 10 * MINUTE)
    launch = granted(claims, claim_of())
    begin_earlier(ledger, launch["job_id"], 19 * MINUTE)
    watch.look()
    assert rows(ledger) == []
    begin_earlier(ledger, launch["job_id"], 2 * MINUTE)
    watch.look()
    watch.look()
    OverrunMonitor(ledger, facade_settings).look()  # of another process
    (row,) = rows(ledger)
    assert (row.occasion, row.job_id) == ("slow", launch["job_id"])
    assert row.data["message"].startswith("has run for 0:21:")
    assert row.data["message"].endswith("it usually takes up to 0:20:00")
    report(claims, launch)
    assert occasions(ledger) == ["slow"]  # a good end after it is no recovery


def test_nothing_is_usual_of_few_jobs_or_where_nobody_asks(
    rest: httpx.Client, claims: httpx.Client, ledger: Ledger, watch: OverrunMonitor,
    template: dict[str, Any],
) -> None:  # fmt: skip
    tell(rest)
    ended_jobs(ledger, template, 4, MINUTE)
    launch = granted(claims, claim_of())
    begin_earlier(ledger, launch["job_id"], 600 * MINUTE)
    watch.look()
    assert rows(ledger) == []
    ended_jobs(ledger, template, 20, MINUTE)
    tell(rest, mail={"on": ["failure", "late"], "to": ["ops@acme.example"]})
    watch.look()
    assert rows(ledger) == []


def open_task(ledger: Ledger, template: dict[str, Any], begun: timedelta, lasts: timedelta) -> int:
    """A window with its first attempt, which waits."""
    with ledger.writing(SERVICE) as session:
        record = session.get_one(RunTemplate, template["id"])
        start = session.clock() - begun
        task = Task(
            runtemplate=record, window_start=start, window_end=start + lasts, deadline=start + lasts
        )
        job = attempts.new_job(record, schedule=start, schedule_type="scheduled")
        job.task = task
        session.add_all([task, job])
        session.flush()
        return job.id


def test_a_window_that_is_not_done_in_time_is_told_once(
    rest: httpx.Client, claims: httpx.Client, ledger: Ledger, watch: OverrunMonitor,
    template: dict[str, Any],
) -> None:  # fmt: skip
    tell(rest)
    job = open_task(ledger, template, 10 * MINUTE, 11 * MINUTE)
    launch = granted(claims, own_run_of(ledger, job))
    watch.look()
    assert rows(ledger) == []
    with ledger.writing(SERVICE) as session:
        session.get_one(Task, 1).deadline -= 5 * MINUTE
    watch.look()
    watch.look()
    (row,) = rows(ledger)
    assert (row.occasion, row.task_id, row.job_id) == ("late", 1, None)
    assert "1 attempts" not in row.data["message"]
    assert row.data["message"].endswith("an attempt is running")
    with ledger.writing(SERVICE) as session:  # it may be late
        session.get_one(Task, 1).deadline += 60 * MINUTE
    report(claims, launch)
    assert occasions(ledger) == ["late", "recovery"]


@pytest.mark.parametrize("says", ["company", "runtemplate"])
def test_a_time_of_day_or_a_span_says_when_a_window_is_late(
    rest: httpx.Client, ledger: Ledger, watch: OverrunMonitor, template: dict[str, Any], says: str
) -> None:
    tell(rest, finished_by="+30m" if says == "company" else "+20h")
    if says == "runtemplate":
        body = {"id": template["id"], "notices": {"finished_by": "+30m"}}
        rest.post("/runtemplate/", json=body).raise_for_status()
    open_task(ledger, template, 29 * MINUTE, 600 * MINUTE)
    watch.look()
    assert rows(ledger) == []
    with ledger.writing(SERVICE) as session:
        session.get_one(Task, 1).window_start -= 2 * MINUTE
    watch.look()
    (row,) = rows(ledger)
    assert row.occasion == "late"
    assert row.data["message"].endswith("no attempt has begun")


def test_a_window_is_told_of_beside_one_whose_time_can_not_be_read(
    rest: httpx.Client, ledger: Ledger, watch: OverrunMonitor, template: dict[str, Any]
) -> None:
    tell(rest, finished_by="+5m")
    body = {"app_id": template["app_id"], "company": "acme", "name": "odd"}
    odd = rest.post("/runtemplate/", json=body).raise_for_status().json()
    for each in (odd, template):
        open_task(ledger, each, 10 * MINUTE, 600 * MINUTE)
    with ledger.writing(SERVICE) as session:
        session.get_one(RunTemplate, odd["id"]).notices = {"finished_by": "no time"}
    watch.look()
    assert [(row.occasion, row.task_id) for row in rows(ledger)] == [("late", 2)]


def test_a_time_of_day_is_that_of_the_run_templates_zone(
    rest: httpx.Client, ledger: Ledger, watch: OverrunMonitor, template: dict[str, Any]
) -> None:
    tell(rest, finished_by="06:30")
    body = {"id": template["id"], "timezone": "Asia/Tokyo"}
    rest.post("/runtemplate/", json=body).raise_for_status()
    open_task(ledger, template, timedelta(hours=25), timedelta(days=3))  # it was 06:30 there
    watch.look()
    (row,) = rows(ledger)
    assert "21:30:00+00:00" in row.data["message"]


def test_a_window_that_ends_by_itself_is_not_told_of_as_late(
    rest: httpx.Client, ledger: Ledger, watch: OverrunMonitor, template: dict[str, Any]
) -> None:
    tell(rest)
    open_task(ledger, template, 10 * MINUTE, 5 * MINUTE)
    watch.look()
    assert rows(ledger) == []


def test_what_is_slow_or_late_is_told_beside_what_nothing_can_be_done_with(
    rest: httpx.Client, claims: httpx.Client, ledger: Ledger, watch: OverrunMonitor,
    template: dict[str, Any], caplog: pytest.LogCaptureFixture,
) -> None:  # fmt: skip
    tell(rest, finished_by="+5m")
    ended_jobs(ledger, template, 5, MINUTE)
    slow = [granted(claims, claim_of())["job_id"] for _ in range(3)]
    for job in slow:
        begin_earlier(ledger, job, 60 * MINUTE)
    others = []
    for name, notices in (("odd", {"mail": 7}), ("untimely", {"finished_by": "no time"})):
        body = {"app_id": template["app_id"], "company": "acme", "name": name}
        others.append(rest.post("/runtemplate/", json=body).raise_for_status().json())
        open_task(ledger, others[-1], 10 * MINUTE, 600 * MINUTE)
        with ledger.writing(SERVICE) as session:
            session.get_one(RunTemplate, others[-1]["id"]).notices = notices
    running = open_task(ledger, others[0], 20 * MINUTE, 600 * MINUTE)
    with ledger.writing(SERVICE) as session:
        job = session.get_one(Job, running)
        job.state, job.begin = "running", session.clock() - 60 * MINUTE
    open_task(ledger, template, 10 * MINUTE, 600 * MINUTE)
    with ledger.engine.begin() as connection:
        poison(connection, "INSERT", "notice", slow[0], "job_id")
    watch.look()
    told = sorted((row.occasion, row.job_id or row.task_id) for row in rows(ledger))
    assert told == [("late", 4), ("slow", slow[1]), ("slow", slow[2])]
    named = (f"job {slow[0]}", "task 2", "task 1", f"job {running}")
    assert all(f"{item} is put aside" in caplog.text for item in named)
    with ledger.engine.begin() as connection:
        cure(connection, "notice")
    watch.look()
    assert rows(ledger)[-1].job_id == slow[0]
