"""What the outbox says and what Prefect then holds: a real facade and a real Prefect."""

import asyncio
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID

import httpx
import pytest

from jobauto_prefect.engine.api import PrefectApi
from jobauto_prefect.engine.context import EngineContext
from jobauto_prefect.engine.message_handlers import handle
from jobauto_prefect.engine.outbox_worker import OutboxWorker
from jobauto_prefect.engine.services.reconciler import Reconciler, RunningRuns
from jobauto_prefect.ledger.audit.trail import SERVICE
from jobauto_prefect.ledger.outbox import TOLD_WITHIN, OutboxKind, enqueue
from jobauto_prefect.ledger.records import Job, OutboxMessage, RunTemplate
from jobauto_prefect.ledger.store import Ledger
from jobauto_prefect.settings import Settings
from tests.support.ledger_rows import fetch, fetch_one, has_no_messages
from tests.support.records import make_template
from tests.support.secrets import SECRET, secret
from tests.support.servers import client, facade, reach_prefect, user_token
from tests.support.waits import eventually


@pytest.fixture
def facade_settings(facade_settings: Settings, prefect_server: str) -> Settings:
    return reach_prefect(facade_settings, prefect_server)


@pytest.fixture
def carry(ledger: Ledger, prefect_server: str, facade_settings: Settings) -> Callable[[], None]:
    """Handle what is due, as the services do."""

    async def handle_all() -> None:
        async with PrefectApi(prefect_server) as api:
            await OutboxWorker(EngineContext(ledger, api, facade_settings)).handle_all()

    return lambda: asyncio.run(handle_all())


def bound_job(ledger: Ledger, job_id: int) -> Job | None:
    with ledger.reading() as session:
        job = session.get_one(Job, job_id)
        return job if job.flow_run_id and job.runtemplate.deployment_id else None


def test_a_template_becomes_a_deployment_and_a_job_a_flow_run(
    rest: httpx.Client, prefect: httpx.Client, ledger: Ledger
) -> None:
    env = {"GREETING": "hi", "PASSWORD": SECRET}
    made = make_template(rest, interv="h", env=env)
    eventually(lambda: has_no_messages(ledger))
    deployment_id = fetch(ledger, RunTemplate, made["id"]).deployment_id
    deployment = prefect.get(f"/deployments/{deployment_id}").json()
    assert deployment["name"] == "acme - daily"
    assert "company:acme" in deployment["tags"]
    assert deployment["parameters"]["GREETING"] == "hi"
    assert deployment["schedules"][0]["schedule"]["cron"] == "0 * * * *"
    assert SECRET not in str(deployment)
    body = {"runtemplate_id": made["id"], "env": {"PASSWORD": secret("other-s3cret")}}
    job = rest.post("/job/", json=body).json()
    bound = eventually(lambda: bound_job(ledger, job["id"]))
    run = prefect.get(f"/flow_runs/{bound.flow_run_id}").json()
    assert run["name"] == f"Acme / daily #{job['id']}"
    assert run["labels"]["jobauto.job"] == job["id"]
    assert run["parameters"]["jobauto"] == {"job": job["id"]}
    assert "s3cret" not in str(run)


def test_prefects_scheduler_makes_the_runs_of_a_template_with_an_interval(
    rest: httpx.Client, prefect: httpx.Client, ledger: Ledger
) -> None:
    made = make_template(rest, name="each minute", interv="i")
    eventually(lambda: has_no_messages(ledger))
    deployment_id = fetch(ledger, RunTemplate, made["id"]).deployment_id
    scheduled = {"deployments": {"id": {"any_": [str(deployment_id)]}}}
    runs = eventually(lambda: prefect.post("/flow_runs/filter", json=scheduled).json())
    assert all(run["auto_scheduled"] for run in runs)

    def none_is_left() -> bool:
        # A round of the scheduler that began before may still add runs: the next change ends them.
        for interval in ("i", "n"):
            rest.post("/runtemplate/", json={"id": made["id"], "interv": interval})
            eventually(lambda: has_no_messages(ledger))
        return not prefect.post("/flow_runs/filter", json=scheduled).json()

    eventually(none_is_left)


def test_what_is_applied_twice_is_written_once(
    rest: httpx.Client, prefect: httpx.Client, ledger: Ledger
) -> None:
    made = make_template(rest)
    eventually(lambda: has_no_messages(ledger))
    deployment_id = fetch(ledger, RunTemplate, made["id"]).deployment_id
    before = prefect.get(f"/deployments/{deployment_id}").json()
    rest.post("/runtemplate/", json={"id": made["id"], "name": "daily"})
    eventually(lambda: has_no_messages(ledger))
    assert prefect.get(f"/deployments/{deployment_id}").json() == before


def test_a_deployment_deleted_in_prefect_is_made_again_for_the_next_job(
    rest: httpx.Client, prefect: httpx.Client, ledger: Ledger
) -> None:
    made = make_template(rest)
    eventually(lambda: has_no_messages(ledger))
    deployment_id = fetch(ledger, RunTemplate, made["id"]).deployment_id
    prefect.delete(f"/deployments/{deployment_id}").raise_for_status()
    job = rest.post("/job/", json={"runtemplate_id": made["id"]}).json()
    bound = eventually(lambda: bound_job(ledger, job["id"]))
    run = prefect.get(f"/flow_runs/{bound.flow_run_id}").json()
    assert run["deployment_id"] != str(deployment_id)


def test_a_new_time_outlasts_a_refusal_that_its_worker_tells_later(
    rest: httpx.Client, prefect: httpx.Client, ledger: Ledger, carry: Callable[[], None]
) -> None:
    made = make_template(rest)
    job = rest.post("/job/", json={"runtemplate_id": made["id"]}).json()
    bound = eventually(lambda: bound_job(ledger, job["id"]))

    def starts_at() -> datetime:
        run = prefect.get(f"/flow_runs/{bound.flow_run_id}").json()
        return datetime.fromisoformat(run["next_scheduled_start_time"])

    moved = {"id": job["id"], "scheduled": "2098-01-01 00:00:00"}
    rest.post("/job/", json=moved).raise_for_status()
    eventually(lambda: starts_at() == datetime(2098, 1, 1, tzinfo=UTC))
    eventually(lambda: rest.get("/status").json()["waiting_for_prefect"] == 0)
    assert fetch_one(ledger, OutboxMessage).kind == OutboxKind.RESCHEDULE_RUN  # said once more
    details = {"scheduled_time": "2099-01-01T00:00:00+00:00"}
    told = {"state": {"type": "SCHEDULED", "state_details": details}}
    prefect.post(f"/flow_runs/{bound.flow_run_id}/set_state", json=told).raise_for_status()
    assert starts_at().year == 2099

    now = ledger.clock
    ledger.clock = lambda: now() + TOLD_WITHIN
    carry()
    assert starts_at() == datetime(2098, 1, 1, tzinfo=UTC)


def test_cancelling_a_waiting_job_cancels_its_flow_run(
    rest: httpx.Client, prefect: httpx.Client, ledger: Ledger
) -> None:
    made = make_template(rest)
    body = {"runtemplate_id": made["id"], "scheduled": "2099-01-01 00:00:00"}
    job = rest.post("/job/", json=body).json()
    run_id = eventually(lambda: bound_job(ledger, job["id"])).flow_run_id
    rest.post("/job/", json={"id": job["id"], "state": "cancelled"})
    eventually(lambda: prefect.get(f"/flow_runs/{run_id}").json()["state_type"] == "CANCELLED")


def test_a_message_handled_twice_makes_one_flow_run(
    rest: httpx.Client, prefect: httpx.Client, ledger: Ledger, carry: Callable[[], None]
) -> None:
    made = make_template(rest)
    job = rest.post("/job/", json={"runtemplate_id": made["id"]}).json()
    run_id = eventually(lambda: bound_job(ledger, job["id"])).flow_run_id
    with ledger.writing(SERVICE) as session:
        session.get_one(Job, job["id"]).flow_run_id = None
        enqueue(session, OutboxKind.CREATE_RUN, job["id"])

    carry()
    assert eventually(lambda: bound_job(ledger, job["id"])).flow_run_id == run_id


def test_with_prefect_away_the_job_is_taken_and_its_run_follows(
    ledger: Ledger, facade_settings: Settings, prefect: httpx.Client, prefect_server: str
) -> None:
    away = facade_settings.model_copy(update={"prefect_api_url": "http://127.0.0.1:9/api"})
    with facade(away, ledger) as url, client(f"{url}/api/v1", user_token(ledger)) as rest:
        made = make_template(rest)
        job = rest.post("/job/", json={"runtemplate_id": made["id"]})
        assert job.status_code == 201
    assert bound_job(ledger, job.json()["id"]) is None

    async def services() -> None:
        async with PrefectApi(prefect_server) as api:
            carrying = asyncio.create_task(
                OutboxWorker(EngineContext(ledger, api, facade_settings), 0.1).run()
            )
            await asyncio.to_thread(eventually, lambda: bound_job(ledger, job.json()["id"]))
            carrying.cancel()

    asyncio.run(services())
    run_id = eventually(lambda: bound_job(ledger, job.json()["id"])).flow_run_id
    assert prefect.get(f"/flow_runs/{run_id}").json()["state_type"] == "SCHEDULED"


def test_the_reconciler_makes_both_sides_tell_the_same(
    rest: httpx.Client,
    prefect: httpx.Client,
    prefect_server: str,
    ledger: Ledger,
    facade_settings: Settings,
) -> None:
    made = make_template(rest)
    jobs = [rest.post("/job/", json={"runtemplate_id": made["id"]}).json()["id"] for _ in range(2)]
    over, cancelled = (eventually(lambda one=one: bound_job(ledger, one)) for one in jobs)
    _set_state(prefect, over.flow_run_id, "RUNNING")
    _set_state(prefect, cancelled.flow_run_id, "CANCELLED")
    hour_ago = ledger.clock().replace(year=2020)
    with ledger.writing(SERVICE) as session:
        ended = session.get_one(Job, over.id)
        ended.state, ended.severity, ended.message = "succeeded", "success", "all is well"
        ended.end = hour_ago
        session.get_one(Job, cancelled.id).schedule = hour_ago

    async def once() -> None:
        async with PrefectApi(prefect_server) as api:
            await Reconciler(EngineContext(ledger, api, facade_settings)).reconcile()

    now = ledger.clock
    ledger.clock = lambda: now() + timedelta(seconds=11)  # a worker has had time to show it
    asyncio.run(once())
    shown = prefect.get(f"/flow_runs/{over.flow_run_id}").json()["state"]
    assert (shown["type"], shown["message"]) == ("COMPLETED", "all is well")
    assert fetch(ledger, Job, cancelled.id).state == "cancelled"


def test_a_running_run_that_nobody_claims_becomes_crashed_after_a_minute(
    rest: httpx.Client,
    prefect: httpx.Client,
    prefect_server: str,
    ledger: Ledger,
    facade_settings: Settings,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    made = make_template(rest)
    jobs = [rest.post("/job/", json={"runtemplate_id": made["id"]}).json()["id"] for _ in range(2)]
    waiting, claimed = (eventually(lambda one=one: bound_job(ledger, one)) for one in jobs)
    path = f"/deployments/{waiting.runtemplate.deployment_id}/create_flow_run"
    jobless = prefect.post(path, json={"state": {"type": "RUNNING"}}).json()["id"]
    flow = prefect.post("/flows/", json={"name": "of somebody else"}).json()["id"]
    body = {"flow_id": flow, "state": {"type": "RUNNING"}}
    foreign = prefect.post("/flow_runs/", json=body).json()["id"]
    for job in (waiting, claimed):
        _set_state(prefect, job.flow_run_id, "RUNNING")
    with ledger.writing(SERVICE) as session:
        session.get_one(Job, claimed.id).state = "running"

    def state_of(run_id: Any) -> Any:
        return prefect.get(f"/flow_runs/{run_id}").json()["state_type"]

    answering = False

    async def is_answering() -> bool:
        return answering

    async def looks() -> None:
        nonlocal answering
        async with PrefectApi(prefect_server) as api:
            unclaimed = RunningRuns(EngineContext(ledger, api, facade_settings), is_answering)
            await unclaimed.look()
            answering = True
            await unclaimed.look()
            assert state_of(jobless) == "RUNNING"
            monkeypatch.setattr(
                "jobauto_prefect.engine.services.reconciler.CLAIM_WITHIN", timedelta(0)
            )
            answering = False
            await unclaimed.look()
            assert state_of(jobless) == "RUNNING"
            answering = True
            await unclaimed.look()

    asyncio.run(looks())
    assert state_of(jobless) == state_of(waiting.flow_run_id) == "CRASHED"
    assert "claimed" in prefect.get(f"/flow_runs/{jobless}").json()["state"]["message"]
    assert state_of(claimed.flow_run_id) == state_of(foreign) == "RUNNING"
    for run_id in (foreign, claimed.flow_run_id):
        _set_state(prefect, run_id, "COMPLETED")


def _set_state(prefect: httpx.Client, run_id: UUID | None, state: str) -> None:
    body = {"state": {"type": state}, "force": True}
    prefect.post(f"/flow_runs/{run_id}/set_state", json=body).raise_for_status()


def test_a_name_prefect_refuses_and_a_name_that_is_taken_are_made_fit(
    rest: httpx.Client, prefect: httpx.Client, ledger: Ledger
) -> None:
    first = make_template(rest, name="in & out")
    second = rest.post(
        "/runtemplate/", json={"app_id": first["app_id"], "company": "acme", "name": "in % out"}
    ).json()
    eventually(lambda: has_no_messages(ledger))
    ids = [fetch(ledger, RunTemplate, one["id"]).deployment_id for one in (first, second)]
    names = [prefect.get(f"/deployments/{one}").json()["name"] for one in ids]
    assert len(set(names)) == 2
    assert not any(character in "".join(names) for character in "/%&<>")


async def test_a_message_about_something_gone_is_no_error(
    ledger: Ledger, prefect_server: str, facade_settings: Settings
) -> None:
    async with PrefectApi(prefect_server) as api:
        context = EngineContext(ledger, api, facade_settings)
        for kind in OutboxKind:
            gone = {"id": "00000000-0000-4000-8000-000000000000"}
            await handle(context, OutboxMessage(kind=kind, subject_id=4711, payload=gone))


async def test_an_outbox_worker_that_is_stopped_gives_its_message_back(
    ledger: Ledger, facade_settings: Settings
) -> None:
    async def never(_reader: asyncio.StreamReader, _writer: asyncio.StreamWriter) -> None:
        reached.set()
        await asyncio.sleep(60)

    reached = asyncio.Event()
    silent = await asyncio.start_server(never, "127.0.0.1", 0)
    port = silent.sockets[0].getsockname()[1]
    with ledger.writing(SERVICE) as session:
        enqueue(session, OutboxKind.DELETE_RUN, 1, {"id": "00000000-0000-4000-8000-000000000000"})
    async with PrefectApi(f"http://127.0.0.1:{port}/api") as api:
        carrying = asyncio.create_task(
            OutboxWorker(EngineContext(ledger, api, facade_settings)).run()
        )
        await reached.wait()
        carrying.cancel()
        await asyncio.gather(carrying, return_exceptions=True)
    silent.close()
    assert fetch_one(ledger, OutboxMessage).taken_until is None
