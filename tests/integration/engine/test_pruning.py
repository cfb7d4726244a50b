"""What is kept no longer goes, from the ledger and from Prefect: a real ledger, a real Prefect."""

import asyncio
from collections import Counter
from datetime import timedelta
from typing import Any
from uuid import UUID

import pytest
from sqlalchemy import select

from jobauto_prefect.engine.api import PrefectApi
from jobauto_prefect.engine.services.retention import Pruner
from jobauto_prefect.errors import NotFound, PrefectUnavailable
from jobauto_prefect.jobs import retention as steps
from jobauto_prefect.jobs.retention import Kind
from jobauto_prefect.ledger.audit.trail import SERVICE
from jobauto_prefect.ledger.jobs import attempts
from jobauto_prefect.ledger.records import (
    Artifact,
    AuditEntry,
    Company,
    Delivery,
    Event,
    EventRule,
    Job,
    Lease,
    OutputLine,
    RunTemplate,
    Task,
)
from tests.support.bench import Bench
from tests.support.databases import both_databases
from tests.support.ledger_rows import fetch, fetch_all
from tests.support.poison import cure, poison


def ended(bench: Bench, days: float, **members: Any) -> int:
    """A job that ended so many days ago, with two lines of output and an artifact."""
    with bench.ledger.writing(SERVICE) as session:
        template = session.get_one(RunTemplate, bench.template)
        end = session.clock() - timedelta(days=days)
        job = attempts.new_job(template, schedule=end, schedule_type="adhoc")
        job.state, job.severity, job.begin, job.end = "succeeded", "success", end, end
        for name, value in members.items():
            setattr(job, name, value)
        session.add(job)
        session.flush()
        for seq in (1, 2):
            session.add(OutputLine(job_id=job.id, seq=seq, stream="stdout", text="so", at=end))
        session.add(
            Artifact(
                job_id=job.id,
                path="a",
                name="a",
                type="file",
                content_type="text/plain",
                size=1,
                content=b"a",
                created_at=end,
            )
        )
        number = job.id
    forget_ends(bench)
    return number


def forget_ends(bench: Bench) -> None:
    """As if Prefect had confirmed them."""
    with bench.ledger.engine.begin() as connection:
        connection.exec_driver_sql("DELETE FROM unconfirmed_end")


def left(bench: Bench, kind: type[Any], key: str = "id") -> list[Any]:
    """The keys of the rows there are."""
    return sorted({getattr(row, key) for row in fetch_all(bench.ledger, kind)})


def keep(bench: Bench, **bounds: int) -> Pruner:
    """A pruner with these settings."""
    settings = bench.context.settings.model_copy(
        update={f"keep_{name}": value for name, value in bounds.items()}
    )
    bench.context = type(bench.context)(bench.ledger, bench.prefect, settings)
    return Pruner(bench.context)


@both_databases
async def test_old_jobs_go_with_all_they_left_and_one_entry_each(bench: Bench) -> None:
    old, young = ended(bench, 31), ended(bench, 29)
    pruner = keep(bench, jobs_days=30, output_days=0)
    foreseen = await pruner.preview()
    assert left(bench, Job) == [old, young]
    gone = await pruner.prune()
    assert foreseen.counts == gone.counts
    assert Counter(kind for kind, _ in gone.counts.elements()) == {Kind.JOBS: 1}
    assert left(bench, Job) == left(bench, OutputLine, "job_id") == [young]
    assert left(bench, Artifact, "job_id") == [young]
    of_job = fetch_all(bench.ledger, select(AuditEntry).filter_by(entity_type="Job", entity_id=old))
    entries = [entry for entry in of_job if entry.action == "delete"]
    assert len(entries) == 1
    assert entries[0].actor == "service"
    assert entries[0].changes["state"] == ["succeeded", None]
    assert entries[0].company_id is not None
    assert (await pruner.prune()).counts.total() == 0


async def test_a_record_that_can_not_be_deleted_is_named_and_the_others_go(
    bench: Bench, caplog: pytest.LogCaptureFixture
) -> None:
    """A constraint of somebody else's, say, who reads the ledger."""
    places = {Kind.JOBS: (Job, "id"), Kind.OUTPUT: (OutputLine, "job_id"),
              Kind.TASKS: (Task, "id"), Kind.EVENTS: (Event, "id")}  # fmt: skip
    with bench.ledger.writing(SERVICE) as session:
        long_ago = session.clock() - timedelta(days=41)
        spans = {"window_start": long_ago, "window_end": long_ago, "deadline": long_ago}
        of_event = {"kind": "change", "operation": "any", "data": {}, "emitted_at": long_ago}
        events = [Event(created_at=long_ago, **of_event) for _ in range(5)]
        tasks = [
            Task(runtemplate_id=bench.template, state="missed", **spans | {"window_start": start})
            for start in (long_ago - timedelta(hours=number) for number in range(5))
        ]
        session.add_all([*events, *tasks])
        session.flush()
        numbers = {
            Kind.EVENTS: [event.id for event in events],
            Kind.TASKS: [task.id for task in tasks],
        }
    numbers[Kind.OUTPUT] = [ended(bench, 31) for _ in range(5)]
    numbers[Kind.JOBS] = [ended(bench, 41) for _ in range(5)]
    with bench.ledger.engine.begin() as connection:
        for kind, (table, key) in places.items():
            poison(connection, "DELETE", table.__tablename__, numbers[kind][2], key)
    pruner = keep(bench, jobs_days=40, output_days=30, tasks_days=30, events_days=30)
    gone = Counter(kind for kind, _ in (await pruner.prune()).counts.elements())
    assert gone == {Kind.JOBS: 4, Kind.OUTPUT: 9, Kind.TASKS: 4, Kind.EVENTS: 4}
    for kind, (table, key) in places.items():
        poisoned = numbers[kind][2]
        assert {*numbers[kind]} & {*left(bench, table, key)} == {poisoned}
        assert f"retention of {kind}: number {poisoned} is put aside" in caplog.text
    with bench.ledger.engine.begin() as connection:
        for table, _ in places.values():
            cure(connection, table.__tablename__)
    assert (await pruner.prune()).counts.total() == len(places)


async def test_output_goes_before_its_job(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(steps, "LINES_AT_ONCE", 1)  # as with a job of millions of lines
    old, young = ended(bench, 31), ended(bench, 29)
    pruner = keep(bench, output_days=30)
    gone = await pruner.prune()
    assert Counter(kind for kind, _ in gone.counts.elements()) == {Kind.OUTPUT: 1}
    assert left(bench, Job) == [old, young]
    assert left(bench, OutputLine, "job_id") == left(bench, Artifact, "job_id") == [young]
    # What was looked at is not read again, unless somebody keeps something else from now on.
    bench.later(timedelta(days=2))
    assert (await pruner.prune()).counts[Kind.OUTPUT, company_of(bench)] == 1
    assert left(bench, OutputLine, "job_id") == []


async def test_the_newest_jobs_stay_by_number(bench: Bench) -> None:
    jobs = [ended(bench, 1) for _ in range(5)]
    waiting = ended(bench, 1, state="scheduled", end=None, severity=None)
    pruner = keep(bench, jobs_days=0, jobs_count=2)
    assert (await pruner.preview()).counts[Kind.JOBS, company_of(bench)] == 3
    await pruner.prune()
    assert left(bench, Job) == [*jobs[-2:], waiting]


async def test_run_templates_win_over_companies_and_these_over_the_settings(bench: Bench) -> None:
    job = ended(bench, 31)
    pruner = keep(bench, jobs_days=10)
    say(bench, Company, jobs_days=20)
    say(bench, RunTemplate, jobs_days=40)
    await pruner.prune()
    assert left(bench, Job) == [job]
    say(bench, RunTemplate)
    say(bench, Company, jobs_days=0)
    await pruner.prune()
    assert left(bench, Job) == [job]
    say(bench, Company)
    await pruner.prune()
    assert left(bench, Job) == []


async def test_what_somebody_counts_on_stays(bench: Bench) -> None:
    with bench.ledger.writing(SERVICE) as session:
        start = session.clock() - timedelta(days=60)
        task = Task(runtemplate_id=bench.template, window_start=start, window_end=start,
                    deadline=start, state="running")  # fmt: skip
        session.add(task)
        session.flush()
        task_id = task.id
    of_task = ended(bench, 50, state="lost", task_id=task_id)
    first = ended(bench, 50, state="failed")
    again = ended(bench, 50, state="scheduled", end=None, retry_of=first)
    leased = ended(bench, 50, state="lost")
    with bench.ledger.writing(SERVICE) as session:
        now = session.clock()
        session.add(
            Lease(job_id=leased, worker="w", claim_id=UUID(int=1), directory="", renewed_at=now)
        )
    pruner = keep(bench, jobs_days=30, tasks_days=30)
    await pruner.prune()
    assert left(bench, Job) == [of_task, first, again, leased]
    with bench.ledger.writing(SERVICE) as session:
        session.get_one(Task, task_id).state = "failed"
        session.get_one(Job, again).state = "failed"
        session.get_one(Job, again).end = now
        session.delete(session.get_one(Lease, leased))
    forget_ends(bench)
    await pruner.prune()
    assert left(bench, Job) == [again]
    assert left(bench, Task) == []
    with bench.ledger.reading() as session:
        assert session.get_one(Job, again).retry_of is None
        deleted = session.query(AuditEntry).filter_by(entity_type="Task", action="delete").one()
    assert (deleted.entity_id, deleted.company_id) == (task_id, company_of(bench))


async def test_events_go_unless_something_of_them_is_owed(bench: Bench) -> None:
    with bench.ledger.writing(SERVICE) as session:
        rule = EventRule(runtemplate_id=bench.template, runtemplate_source_id=bench.template)
        session.add(rule)
        session.flush()
        numbers = []
        for days, is_emitted, is_owed in (
            (31, True, False),
            (31, True, True),
            (31, False, False),
            (1, True, False),
        ):
            at = session.clock() - timedelta(days=days)
            event = Event(
                kind="job",
                operation="any",
                data={},
                created_at=at,
                emitted_at=at if is_emitted else None,
            )
            session.add(event)
            session.flush()
            numbers.append(event.id)
            state = "owed" if is_owed else "done"
            session.add(Delivery(event_id=event.id, rule_id=rule.id, state=state, created_at=at))
    await keep(bench, events_days=30).prune()
    assert left(bench, Event) == numbers[1:]
    assert left(bench, Delivery, "event_id") == numbers[1:]


async def test_prefects_run_goes_with_its_job_or_before_it(bench: Bench) -> None:
    runs = []
    for _ in range(2):
        job_id, run = await bench.claimed()
        await bench.prefect.post(
            f"/flow_runs/{run}/set_state", {"state": {"type": "COMPLETED"}, "force": True}
        )
        bench.end(job_id)
        forget_ends(bench)
        runs.append((job_id, run))
    (first, its_run), (second, other_run) = runs
    bench.change(first, end=bench.ledger.clock() - timedelta(days=31))
    forget_ends(bench)
    pruner = keep(bench, jobs_days=30, runs_days=30)
    await pruner.prune()
    assert left(bench, Job) == [second]
    assert await is_gone(bench.prefect, its_run)
    assert not await is_gone(bench.prefect, other_run)
    bench.later(timedelta(days=1))
    pruner = keep(bench, jobs_days=30, runs_days=1)
    foreseen, gone = await pruner.preview(), await pruner.prune()
    assert foreseen.counts[Kind.RUNS, None] == gone.counts[Kind.RUNS, None] == 1
    assert await is_gone(bench.prefect, other_run)
    assert left(bench, Job) == [second]


async def test_a_run_that_another_job_has_stays(bench: Bench) -> None:
    job_id, run = await bench.claimed()
    bench.end(job_id)
    bench.change(job_id, end=bench.ledger.clock() - timedelta(days=31))
    forget_ends(bench)
    later = ended(bench, 1, flow_run_id=run, run_number=2)
    await keep(bench, jobs_days=30).prune()
    assert left(bench, Job) == [later]
    assert not await is_gone(bench.prefect, run)


async def test_while_prefect_is_away_jobs_stay_and_output_goes(bench: Bench) -> None:
    job_id, _ = await bench.claimed()
    bench.end(job_id)
    bench.change(job_id, end=bench.ledger.clock() - timedelta(days=31))
    other = ended(bench, 31)
    forget_ends(bench)
    pruner = keep(bench, jobs_days=30, output_days=30)
    async with PrefectApi("http://127.0.0.1:9/api") as away:
        pruner._context = type(bench.context)(bench.ledger, away, bench.context.settings)
        with pytest.raises(PrefectUnavailable):
            await pruner.prune()
    assert left(bench, Job) == [job_id, other]
    assert left(bench, OutputLine, "job_id") == []
    await keep(bench, jobs_days=30).prune()
    assert left(bench, Job) == []


@both_databases
async def test_two_at_once_leave_one_entry_for_each(bench: Bench) -> None:
    jobs = [ended(bench, 31) for _ in range(20)]
    first, second = keep(bench, jobs_days=30), keep(bench, jobs_days=30)
    await asyncio.gather(first.prune(), second.prune())
    assert left(bench, Job) == []
    gone = fetch_all(bench.ledger, select(AuditEntry).filter_by(entity_type="Job", action="delete"))
    assert sorted(entry.entity_id for entry in gone if entry.entity_id) == jobs


def company_of(bench: Bench) -> int:
    """The company of the run template."""
    return fetch(bench.ledger, RunTemplate, bench.template).company_id


def say(bench: Bench, kind: type[Any], **bounds: int) -> None:
    """Let the run template or its company say what it keeps."""
    with bench.ledger.writing(SERVICE) as session:
        number = bench.template if kind is RunTemplate else company_of(bench)
        session.get_one(kind, number).retention = bounds


async def is_gone(prefect: PrefectApi, run: UUID) -> bool:
    """Whether Prefect does not know the run."""
    try:
        await prefect.get(f"/flow_runs/{run}")
    except NotFound:
        return True
    return False


@both_databases
async def test_what_somebody_comes_to_count_on_meanwhile_stays(bench: Bench) -> None:
    """Between the look and the deletion a job is tried again, a task opened, a delivery owed."""
    with bench.ledger.writing(SERVICE) as session:
        now = session.clock()
        start = now - timedelta(days=60)
        task = Task(runtemplate_id=bench.template, window_start=start, window_end=start,
                    deadline=start, state="missed")  # fmt: skip
        rule = EventRule(runtemplate_id=bench.template, runtemplate_source_id=bench.template)
        event = Event(kind="job", operation="any", data={}, created_at=start, emitted_at=start)
        session.add_all([task, rule, event])
        session.flush()
        session.add(Delivery(event_id=event.id, rule_id=rule.id, state="dead", created_at=start))
        task_id, event_id = task.id, event.id
    first = ended(bench, 50, state="failed")
    settings = keep(
        bench, jobs_days=30, tasks_days=30, events_days=30, output_days=0
    )._context.settings
    with bench.ledger.reading() as session:
        found = [
            (step, step.page(session, None, 10))
            for step in steps.steps_of(session, settings, bench.ledger.clock())
        ]
    assert sorted(row.id for _, rows in found for row in rows) == sorted([first, task_id, event_id])
    again = ended(bench, 50, state="scheduled", end=None, retry_of=first)
    with bench.ledger.writing(SERVICE) as session:
        session.get_one(Task, task_id).state = "open"
        session.query(Delivery).update({"state": "owed"})
    for step, rows in found:
        with bench.ledger.writing(SERVICE) as session:
            assert list(step.remove(session, rows)) == []
    assert left(bench, Job) == left(bench, OutputLine, "job_id") == [first, again]
    assert left(bench, Task) == [task_id]
    assert left(bench, Event) == [event_id]
    assert fetch(bench.ledger, Job, again).retry_of == first
