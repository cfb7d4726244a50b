"""One thing that Prefect, or the database, fails on keeps no other waiting: a real Prefect."""

import asyncio
from collections.abc import Sequence
from datetime import timedelta
from pathlib import Path
from typing import Any
from uuid import UUID, uuid4

import pytest

from jobauto_prefect.clock import utc_now
from jobauto_prefect.engine import flow_runs
from jobauto_prefect.engine.outbox_worker import OutboxWorker
from jobauto_prefect.engine.services.reconciler import CLAIM_WITHIN, Reconciler, RunningRuns
from jobauto_prefect.engine.services.retention import Pruner
from jobauto_prefect.engine.services.window_scheduler import MissingRunMonitor, WindowScheduler
from jobauto_prefect.engine.sync.application_flows import FlowComparison, delete_unused_flows
from jobauto_prefect.engine.sync.drift_monitor import DriftMonitor
from jobauto_prefect.engine.sync.template_deployments import look_ahead
from jobauto_prefect.engine.sync.upcoming_runs import UpcomingRuns
from jobauto_prefect.engine.worker.log_shipper import LogShipper
from jobauto_prefect.jobs.windows.due_windows import keep_windows
from jobauto_prefect.ledger.audit.trail import SERVICE
from jobauto_prefect.ledger.jobs import attempts
from jobauto_prefect.ledger.outbox import OutboxKind, enqueue
from jobauto_prefect.ledger.records import (
    App,
    CredentialType,
    Lease,
    OutboxMessage,
    RunTemplate,
    Task,
)
from jobauto_prefect.runtime.protocol import OutputLines
from tests.support.bench import Bench
from tests.support.ledger_rows import fetch, fetch_all
from tests.support.poison import cure, poison, poisoned_prefect, unreadable_in_prefect
from tests.support.records import MAIL_TYPE, own_name
from tests.support.servers import client, facade, user_token

HOUR = timedelta(hours=1)


def deployment_of(bench: Bench, template: int) -> UUID:
    deployment = fetch(bench.ledger, RunTemplate, template).deployment_id
    assert deployment is not None
    return deployment


async def other_template(bench: Bench) -> int:
    """A run template beside the bench's, known to Prefect."""
    with bench.ledger.writing(SERVICE) as session:
        first = session.get_one(RunTemplate, bench.template)
        now = session.clock()
        template = RunTemplate(app_id=first.app_id, company_id=first.company_id,
                               name=own_name("other"), pool=first.pool,
                               created_at=now, updated_at=now)  # fmt: skip
        session.add(template)
        session.flush()
        enqueue(session, OutboxKind.APPLY_TEMPLATE, template.id)
        number = template.id
    await OutboxWorker(bench.context).handle_all()
    return number


async def run_of(bench: Bench, state: str) -> UUID:
    """A flow run of the bench's deployment that has no job."""
    new = flow_runs.NewRun(own_name("run"), utc_now(), {})
    deployment = deployment_of(bench, bench.template)
    run = await flow_runs.create_run(bench.prefect, deployment, new)
    await flow_runs.propose(bench.prefect, run, state, force=True)
    return run


async def there(bench: Bench, kind: str, objects: Sequence[UUID]) -> list[bool]:
    """Which of these objects Prefect has."""
    return [await bench.prefect.get_or_none(f"/{kind}/{each}") is not None for each in objects]


async def test_runs_without_a_job_end_beside_some_that_prefect_does_not_end(
    bench: Bench, prefect_folder: Path, caplog: pytest.LogCaptureFixture
) -> None:
    runs = [await run_of(bench, "RUNNING") for _ in range(4)]

    async def is_answering() -> bool:
        return True

    unclaimed = RunningRuns(bench.context, is_answering)
    await unclaimed.look()
    bench.later(CLAIM_WITHIN)
    refused = {runs[0]: 409, runs[2]: 500}
    with poisoned_prefect(prefect_folder, "UPDATE", "flow_run", {**refused}):
        await unclaimed.look()
        states = [await bench.state(run) for run in runs]
    assert states == ["RUNNING", "CRASHED", "RUNNING", "CRASHED"]
    assert all(f"flow run {run} is put aside" in caplog.text for run in refused)
    await unclaimed.look()
    assert {await bench.state(run) for run in runs} == {"CRASHED"}


async def test_runs_go_beside_some_that_prefect_does_not_delete(
    bench: Bench, prefect_folder: Path, caplog: pytest.LogCaptureFixture
) -> None:
    runs = [await run_of(bench, "COMPLETED") for _ in range(5)]
    bench.later(timedelta(days=2))
    settings = bench.context.settings.model_copy(update={"keep_runs_days": 1})
    pruner = Pruner(type(bench.context)(bench.ledger, bench.prefect, settings))
    held = {runs[1]: 409, runs[3]: 500}
    with poisoned_prefect(prefect_folder, "DELETE", "flow_run", {**held}):
        await pruner.prune()
        assert await there(bench, "flow_runs", runs) == [False, True, False, True, False]
    assert all(f"retention of flow run {run} is put aside" in caplog.text for run in held)
    await pruner.prune()
    assert not any(await there(bench, "flow_runs", runs))


async def test_flows_of_deleted_applications_go_beside_one_that_prefect_keeps(
    bench: Bench, prefect_folder: Path, caplog: pytest.LogCaptureFixture
) -> None:
    flows = []
    for number in range(3):
        made = await bench.prefect.post("/flows/", {"name": own_name(f"gone-{number}")})
        flows.append(UUID(made["id"]))
    apps = []
    with bench.ledger.writing(SERVICE) as session:
        first, now = session.get_one(RunTemplate, bench.template).app, session.clock()
        for flow in flows:
            app = App(name=own_name("gone"), source=first.source, document=first.document,
                      flow_id=flow, created_at=now, updated_at=now, retired_at=now)  # fmt: skip
            session.add(app)
            session.flush()
            apps.append(app.id)
    held = {flows[0]: 500, flows[1]: 409}
    with poisoned_prefect(prefect_folder, "DELETE", "flow", {**held}):
        await delete_unused_flows(bench.context)
        assert await there(bench, "flows", flows) == [True, True, False]
    for app_id in apps[:2]:
        assert f"the flow of application {app_id} is put aside" in caplog.text
    await delete_unused_flows(bench.context)
    assert not any(await there(bench, "flows", flows))


async def test_windows_get_their_runs_beside_one_that_can_not_be_written(
    bench: Bench, caplog: pytest.LogCaptureFixture
) -> None:
    jobs = []
    with bench.ledger.writing(SERVICE) as session:
        template = session.get_one(RunTemplate, bench.template)
        for hours in (3, 2, 1):
            start = session.clock() - hours * HOUR
            task = Task(runtemplate=template, window_start=start, window_end=start + 9 * HOUR,
                        deadline=start + 9 * HOUR)  # fmt: skip
            job = attempts.new_job(template, schedule=start, schedule_type="scheduled")
            job.task = task
            session.add_all([task, job])
            session.flush()
            jobs.append(job.id)
    with bench.ledger.engine.begin() as connection:
        poison(connection, "INSERT", "outbox_message", jobs[0], "subject_id")
    monitor = MissingRunMonitor(bench.context)
    await monitor.look()
    await OutboxWorker(bench.context).handle_all()
    assert [bench.job(job).flow_run_id is not None for job in jobs] == [False, True, True]
    assert f"job {jobs[0]} is put aside" in caplog.text
    with bench.ledger.engine.begin() as connection:
        cure(connection, "outbox_message")
    await monitor.look()
    await OutboxWorker(bench.context).handle_all()
    assert bench.job(jobs[0]).flow_run_id is not None


async def test_silent_jobs_are_given_up_beside_one_that_can_not_be_written(
    bench: Bench, caplog: pytest.LogCaptureFixture
) -> None:
    jobs = []
    for _ in range(3):
        job_id, _run = await bench.claimed()
        bench.change(job_id, state="lost")
        with bench.ledger.writing(SERVICE) as session:
            now = session.clock()
            session.add(Lease(job_id=job_id, worker="w", claim_id=uuid4(), directory="",
                              renewed_at=now, ends_by=now - timedelta(seconds=1)))  # fmt: skip
        jobs.append(job_id)
    bench.later()
    with bench.ledger.engine.begin() as connection:
        poison(connection, "UPDATE", "job", jobs[0])
    scheduler = WindowScheduler(bench.ledger)
    scheduler.settle_due()
    assert [bench.job(job).end is not None for job in jobs] == [False, True, True]
    assert f"job {jobs[0]} is put aside" in caplog.text
    with bench.ledger.engine.begin() as connection:
        cure(connection, "job")
    scheduler.settle_due()
    assert bench.job(jobs[0]).end is not None


async def flow_apps(bench: Bench) -> list[tuple[int, UUID]]:
    """Three applications and their flows, each of which lost its tags in Prefect."""
    with bench.ledger.writing(SERVICE) as session:
        first, now = session.get_one(RunTemplate, bench.template).app, session.clock()
        for _ in range(3):
            name = own_name("flow")
            document = {**first.document, "name": name, "uuid": str(uuid4()), "topics": ["a"]}
            app = App(name=name, uuid=document["uuid"], source=first.source, document=document,
                      topics=["a"], created_at=now, updated_at=now)  # fmt: skip
            session.add(app)
            session.flush()
            enqueue(session, OutboxKind.APPLY_APP, app.id)
    await OutboxWorker(bench.context).handle_all()
    with bench.ledger.reading() as session:
        apps = session.query(App).filter(App.uuid != None).order_by(App.id.desc()).limit(3)  # noqa: E711
        found = [(app.id, app.flow_id) for app in apps if app.flow_id is not None]
    for _, flow in found:
        await bench.prefect.patch(f"/flows/{flow}", {"tags": ["somebody's"]})
    return sorted(found)


def to_be_applied(bench: Bench) -> set[int]:
    return {message.subject_id for message in fetch_all(bench.ledger, OutboxMessage)}


async def test_drift_is_corrected_beside_what_can_not_be_written(
    bench: Bench, caplog: pytest.LogCaptureFixture
) -> None:
    (poisoned, _), *sound = await flow_apps(bench)
    with bench.ledger.engine.begin() as connection:
        poison(connection, "INSERT", "outbox_message", poisoned, "subject_id")
    corrections, _ = await FlowComparison(bench.context).correct()
    assert {each.id for each in corrections} == {app_id for app_id, _ in sound}
    assert f"app {poisoned} is put aside" in caplog.text
    with bench.ledger.engine.begin() as connection:
        cure(connection, "outbox_message")
    corrections, _ = await FlowComparison(bench.context).correct()
    assert [each.id for each in corrections] == [poisoned]


async def test_drift_is_corrected_beside_records_and_objects_that_can_not_be_read(
    bench: Bench, prefect_folder: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (odd, _), (lost, its_flow), (sound, _) = await flow_apps(bench)
    with bench.ledger.engine.begin() as connection:
        connection.exec_driver_sql(f"UPDATE app SET document = '[7]' WHERE id = {odd}")
    with unreadable_in_prefect(prefect_folder, "flow", "labels", its_flow):
        await DriftMonitor(bench.context).check_next()
    assert to_be_applied(bench) == {sound}
    assert f"app {odd} is put aside" in caplog.text
    assert f"skipped {its_flow}" in caplog.text
    await DriftMonitor(bench.context).check_next()
    assert to_be_applied(bench) == {lost, sound}


async def test_what_is_to_come_is_shown_beside_templates_that_nothing_can_be_done_with(
    bench: Bench, prefect_folder: Path, caplog: pytest.LogCaptureFixture
) -> None:
    templates = [await other_template(bench) for _ in range(3)]
    with bench.ledger.writing(SERVICE) as session:
        for number in templates:
            template = session.get_one(RunTemplate, number)
            # Prefect's own scheduler knows no delay of seconds: such runs are made for it.
            template.interv, template.cron, template.delay = "c", "0 * * * *", 7
            keep_windows(session, template, bench.context.settings)
        session.get_one(RunTemplate, templates[0]).kept_schedule = "0 * * * *|UTC|999999999999"
    deployments = [deployment_of(bench, template) for template in templates]
    outlooks = UpcomingRuns(bench.context)

    async def coming() -> list[int]:
        counted = []
        for deployment in deployments:
            body = {"deployments": {"id": {"any_": [str(deployment)]}}}
            counted.append(await bench.prefect.post("/flow_runs/count", body))
        return counted

    poisoned: dict[object, int] = {deployments[1]: 500}
    with poisoned_prefect(prefect_folder, "INSERT", "flow_run", poisoned, "deployment_id"):
        await look_ahead(bench.context, outlooks)
        odd, held, sound = await coming()
    assert (odd, held) == (0, 0)
    assert sound > 0
    assert f"run template {templates[0]} is put aside" in caplog.text
    assert f"run template {templates[1]} is put aside" in caplog.text
    await look_ahead(bench.context, outlooks)
    assert await coming() == [0, sound, sound]


async def test_ends_are_shown_beside_a_run_that_prefect_can_not_read(
    bench: Bench, prefect_folder: Path, caplog: pytest.LogCaptureFixture
) -> None:
    ended, waiting = [], []
    for _ in range(2):
        job_id, run = await bench.claimed()
        bench.end(job_id)
        ended.append(run)
    for _ in range(2):
        job_id, run = await bench.claimed()
        bench.change(job_id, state="scheduled")
        await flow_runs.propose(bench.prefect, run, "CRASHED")
        waiting.append((job_id, run))
    bench.later(timedelta(minutes=10))
    with (
        unreadable_in_prefect(prefect_folder, "flow_run", "parameters", ended[0]),
        unreadable_in_prefect(prefect_folder, "flow_run", "parameters", waiting[0][1]),
    ):
        await Reconciler(bench.context).reconcile()
    assert await bench.state(ended[1]) == "COMPLETED"
    assert [bench.job(job_id).state for job_id, _ in waiting] == ["scheduled", "lost"]
    assert f"skipped {ended[0]}" in caplog.text
    bench.later(timedelta(minutes=10))
    await Reconciler(bench.context).reconcile()
    assert await bench.state(ended[0]) == "COMPLETED"
    assert bench.job(waiting[0][0]).state == "lost"


async def test_prefect_is_told_beside_what_it_fails_on(bench: Bench, prefect_folder: Path) -> None:
    """Of two ends, one run can't be written: it comes again, and Prefect counts as there."""
    (first, run), (second, other) = [await bench.claimed() for _ in range(2)]
    for job_id in (first, second):
        bench.end(job_id)
        with bench.ledger.writing(SERVICE) as session:
            enqueue(session, OutboxKind.SHOW_JOB, job_id)
    worker = OutboxWorker(bench.context)
    with poisoned_prefect(prefect_folder, "UPDATE", "flow_run", {run: 500}):
        await worker.handle_all()
    assert worker.prefect_away is None
    assert await bench.state(other) == "COMPLETED"
    assert to_be_applied(bench) == {first}
    bench.later(timedelta(minutes=10))
    await OutboxWorker(bench.context).handle_all()
    assert await bench.state(run) == "COMPLETED"


async def test_lines_are_shown_beside_one_that_prefect_fails_on(
    bench: Bench, prefect_folder: Path, caplog: pytest.LogCaptureFixture
) -> None:
    run = await run_of(bench, "RUNNING")
    logs = LogShipper(bench.prefect)
    texts = ["one", "poison", "two"]
    logs.add(run, OutputLines(seq=1, stream="stdout", texts=texts, at=utc_now()))
    with poisoned_prefect(prefect_folder, "INSERT", "log", {"poison": 500}, "message"):
        await logs.flush()
    body = {"logs": {"flow_run_id": {"any_": [str(run)]}}}
    shown = {line["message"] for line in await bench.prefect.post("/logs/filter", body)}
    assert shown == {"one", "two"}
    assert f"1 lines of flow run {run} are not in Prefect's log" in caplog.text


async def test_a_page_leaves_out_what_prefect_can_not_read(
    bench: Bench, prefect_folder: Path
) -> None:
    runs = [await run_of(bench, "COMPLETED") for _ in range(3)]
    query: dict[str, Any] = {"flow_runs": {"id": {"any_": [*map(str, runs)]}}, "sort": "ID_DESC"}
    with unreadable_in_prefect(prefect_folder, "flow_run", "parameters", runs[1]):
        pages = [page async for page in bench.prefect.pages("/flow_runs/filter", query)]
    assert {run["id"] for page in pages for run in page} == {str(runs[0]), str(runs[2])}


async def test_drift_is_corrected_beside_a_block_type_that_can_not_be_read(
    bench: Bench, prefect_folder: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with (
        facade(bench.context.settings, bench.ledger) as url,
        client(f"{url}/api/v1", user_token(bench.ledger, "anna")) as rest,
    ):
        for code in ("first", "second"):
            body = MAIL_TYPE | {"code": code, "uuid": str(uuid4()), "name": own_name(code)}
            rest.post("/credential_type/", json=body).raise_for_status()
    bench.later()
    await OutboxWorker(bench.context).handle_all()
    types = fetch_all(bench.ledger, CredentialType)
    (lost, its_type), (sound, other) = [(each.id, each.block_type_id) for each in types[-2:]]
    for block_type in (its_type, other):
        await bench.prefect.patch(f"/block_types/{block_type}", {"description": "somebody's"})
    with unreadable_in_prefect(prefect_folder, "block_type", "created", its_type):
        await DriftMonitor(bench.context).check_next()
    assert to_be_applied(bench) == {sound}
    assert f"skipped jobauto-{types[-2].code}-{lost}" in caplog.text
    await DriftMonitor(bench.context).check_next()
    assert to_be_applied(bench) == {lost, sound}


async def test_drift_is_corrected_beside_run_templates_that_can_not_be_read(
    bench: Bench, prefect_folder: Path, caplog: pytest.LogCaptureFixture
) -> None:
    odd, lost, sound = templates = [await other_template(bench) for _ in range(3)]
    deployments = [deployment_of(bench, template) for template in templates]
    for deployment in deployments:
        await bench.prefect.patch(f"/deployments/{deployment}", {"tags": ["somebody's"]})
    with bench.ledger.engine.begin() as connection:
        change = "cron = '0 * * * *', interv = 'c', timezone = 'No/Where'"
        connection.exec_driver_sql(f"UPDATE runtemplate SET {change} WHERE id = {odd}")
    with unreadable_in_prefect(prefect_folder, "deployment", "parameters", deployments[1]):
        await DriftMonitor(bench.context).check_next()
    assert to_be_applied(bench) == {sound}
    assert f"run template {odd} is put aside" in caplog.text
    assert f"skipped {deployments[1]}" in caplog.text
    await DriftMonitor(bench.context).check_next()
    assert to_be_applied(bench) == {lost, sound}


async def test_kinds_are_compared_beside_one_that_fails_as_a_whole(
    bench: Bench,
    prefect_folder: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    monkeypatch.setattr("jobauto_prefect.engine.api.MOST_UNREADABLE", 0)  # as if it were all
    (_, flow), *_ = await flow_apps(bench)
    template = await other_template(bench)
    path = f"/deployments/{deployment_of(bench, template)}"
    await bench.prefect.patch(path, {"tags": ["somebody's"]})
    with unreadable_in_prefect(prefect_folder, "flow", "labels", flow):
        await DriftMonitor(bench.context).check_next()
    assert to_be_applied(bench) == {template}
    assert "the drift of app after number 0 is put aside" in caplog.text


async def test_runs_are_named_beside_one_that_prefect_does_not_name(
    bench: Bench, prefect_folder: Path, caplog: pytest.LogCaptureFixture
) -> None:
    templates = [await other_template(bench) for _ in range(2)]
    with bench.ledger.writing(SERVICE) as session:
        for number in templates:
            template = session.get_one(RunTemplate, number)
            template.interv, template.cron, template.timezone = "c", "0 * * * *", "UTC"
            keep_windows(session, template, bench.context.settings)
            enqueue(session, OutboxKind.APPLY_TEMPLATE, number)
    await OutboxWorker(bench.context).handle_all()
    deployments = [str(deployment_of(bench, template)) for template in templates]
    query = {"deployments": {"id": {"any_": deployments}}, "sort": "EXPECTED_START_TIME_ASC"}

    async def first_runs() -> list[dict[str, Any]]:
        runs = await bench.prefect.post("/flow_runs/filter", query)
        by_deployment = {run["deployment_id"]: run for run in reversed(runs)}
        return [by_deployment[each] for each in deployments if each in by_deployment]

    for _ in range(300):  # until Prefect's own scheduler has made them
        if len(runs := await first_runs()) == 2:
            break
        await asyncio.sleep(0.2)
    outlooks = UpcomingRuns(bench.context)
    with poisoned_prefect(prefect_folder, "UPDATE", "flow_run", {runs[0]["id"]: 500}):
        await look_ahead(bench.context, outlooks)
    held, named = await first_runs()
    assert held["name"] == runs[0]["name"]
    assert named["name"] != runs[1]["name"]
    assert f"the name of flow run {runs[0]['id']} is put aside" in caplog.text
    await look_ahead(bench.context, outlooks)
    held, _ = await first_runs()
    assert held["name"] != runs[0]["name"]
