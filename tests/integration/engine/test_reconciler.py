"""Prefect and the ledger tell the same in the end: a real ledger and a real Prefect."""

from datetime import timedelta

import httpx
import pytest

from jobauto_prefect.engine import flow_runs
from jobauto_prefect.engine.api import PrefectApi
from jobauto_prefect.engine.context import EngineContext
from jobauto_prefect.engine.message_handlers import REFUSED_FOR
from jobauto_prefect.engine.outbox_worker import OutboxWorker
from jobauto_prefect.engine.services.reconciler import DOUBTED, Reconciler
from jobauto_prefect.errors import PrefectUnavailable
from jobauto_prefect.jobs import waits
from jobauto_prefect.ledger.records import Job
from tests.support.bench import Bench
from tests.support.counting_proxy import CountingTransport
from tests.support.poison import poison


async def test_an_end_that_prefect_shows_otherwise_is_told_also_where_the_run_is_over(
    bench: Bench,
) -> None:
    ends = [("succeeded", "CRASHED"), ("failed", "COMPLETED"), ("lost", "COMPLETED")]
    found = []
    for state, shown in ends:
        job_id, run = await bench.claimed()
        await flow_runs.propose(bench.prefect, run, shown)
        bench.end(job_id, state)
        found.append((job_id, run))
    unfinished, still_running = await bench.claimed()
    bench.end(unfinished)
    bench.later()
    await Reconciler(bench.context).reconcile()
    states = [await bench.state(run) for _, run in found]
    assert states == ["COMPLETED", "FAILED", "CRASHED"]
    assert await bench.state(still_running) == "COMPLETED"


async def test_each_end_is_looked_at_once_and_after_an_outage_once_more(bench: Bench) -> None:
    reconciler = Reconciler(bench.context)
    await reconciler.reconcile()
    job_id, run = await bench.claimed()
    bench.end(job_id)
    await flow_runs.set_state(bench.prefect, run, bench.run_status(job_id))
    bench.later()

    async def looks() -> int:
        bench.transport.calls.clear()
        await reconciler.reconcile()
        assert not [call for call in bench.transport.calls if call.endswith("set_state")]
        return bench.transport.count("/flow_runs/filter")

    assert await looks() == 1
    assert await looks() == 0
    address = bench.prefect._client.base_url
    bench.prefect._client.base_url = httpx.URL("http://127.0.0.1:9/api")
    with pytest.raises(PrefectUnavailable):
        await reconciler.reconcile()
    bench.prefect._client.base_url = address
    assert await looks() == 1
    assert await looks() == 0
    bench.later(2 * DOUBTED)
    await reconciler.reconcile()
    bench.prefect._client.base_url = httpx.URL("http://127.0.0.1:9/api")
    with pytest.raises(PrefectUnavailable):
        await reconciler.reconcile()
    bench.prefect._client.base_url = address
    assert await looks() == 0  # it ended long before this outage


@pytest.mark.parametrize("dies", ["before it tells the end", "before it marks the run"])
async def test_a_run_whose_worker_dies_is_marked_by_the_services_with_one_call(
    bench: Bench, dies: str
) -> None:
    job_id, run = await bench.claimed()
    name, tags = await bench.looks(run)
    bench.end(job_id, "warning")
    if dies == "before it marks the run":
        await flow_runs.set_state(bench.prefect, run, bench.run_status(job_id))
    reconciler = Reconciler(bench.context)
    bench.transport.calls.clear()
    for _ in range(3):
        bench.later()
        await reconciler.reconcile()
    assert await bench.looks(run) == (f"{name} (warning)", [*tags, "severity:warning"])
    assert await bench.state(run) == "COMPLETED"
    assert bench.transport.calls.count(f"PATCH /flow_runs/{run}") == 1


async def test_a_mark_that_an_earlier_job_of_the_run_left_is_taken_away(bench: Bench) -> None:
    job_id, run = await bench.claimed()
    name, tags = await bench.looks(run)
    body = {"name": f"{name} (warning)", "tags": [*tags, "severity:warning"]}
    await bench.prefect.patch(f"/flow_runs/{run}", body)
    bench.end(job_id)
    await flow_runs.set_state(bench.prefect, run, bench.run_status(job_id))
    bench.later()
    await Reconciler(bench.context).reconcile()
    assert await bench.looks(run) == (name, tags)


async def test_the_same_end_told_by_worker_and_services_counts_once(bench: Bench) -> None:
    job_id, run = await bench.claimed()
    bench.end(job_id, "lost")
    bench.end(job_id)  # its report came after all, and a message says so
    await flow_runs.set_state(bench.prefect, run, bench.run_status(job_id))
    await flow_runs.set_state(bench.prefect, run, bench.run_status(job_id))
    assert bench.waiting() == ["show_job"]
    await OutboxWorker(bench.context).handle_all()
    assert bench.waiting() == []
    assert await bench.history(run) == ["SCHEDULED", "RUNNING", "COMPLETED"]


async def test_a_run_that_somebody_starts_again_is_not_ended(bench: Bench) -> None:
    job_id, run = await bench.claimed()
    bench.end(job_id)
    await flow_runs.set_state(bench.prefect, run, bench.run_status(job_id))
    await flow_runs.propose(bench.prefect, run, "SCHEDULED")
    bench.later()
    await Reconciler(bench.context).reconcile()
    assert await bench.state(run) == "SCHEDULED"


async def test_what_concerns_a_deleted_run_ends_with_a_line_on_its_job(bench: Bench) -> None:
    job_id, run = await bench.claimed()
    await bench.prefect.delete(f"/flow_runs/{run}")
    bench.end(job_id, "lost")
    bench.end(job_id)
    await OutboxWorker(bench.context).handle_all()
    assert bench.waiting() == []
    (line,) = bench.notices(job_id)
    assert "deleted" in line


class Refusing(CountingTransport):
    """The ordinary transport, but Prefect finds states invalid."""

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        if request.url.path.endswith(("/set_state", "/create_flow_run")):
            return httpx.Response(422, json={"detail": "no such thing"})
        return await super().handle_async_request(request)


async def test_what_prefect_refuses_to_show_ends_with_a_line(
    bench: Bench, prefect_server: str
) -> None:
    job_id, _ = await bench.claimed()
    bench.end(job_id, "lost")
    bench.end(job_id)
    async with PrefectApi(prefect_server, transport=Refusing()) as api:
        await OutboxWorker(EngineContext(bench.ledger, api, bench.context.settings)).handle_all()
    assert bench.waiting() == []
    assert ["no such thing" in line for line in bench.notices(job_id)] == [True]


def waits_for(bench: Bench, job: Job) -> str | None:
    with bench.ledger.reading() as session:
        now = bench.ledger.clock()
        return waits.wait_reasons(session, [job], bench.context.settings, now).get(job.id)


async def test_a_run_that_prefect_refuses_is_made_once_prefect_takes_it(
    bench: Bench, prefect_server: str
) -> None:
    job_id = bench._scheduled()
    async with PrefectApi(prefect_server, transport=Refusing()) as api:
        await OutboxWorker(EngineContext(bench.ledger, api, bench.context.settings)).handle_all()
    waiting = bench.job(job_id)
    assert (waiting.state, waiting.flow_run_id) == ("scheduled", None)
    assert "no such thing" in (waits_for(bench, waiting) or "")
    bench.later()
    await OutboxWorker(bench.context).handle_all()
    assert bench.job(job_id).flow_run_id is not None


async def test_a_run_that_prefect_refuses_for_minutes_blocks_its_job(
    bench: Bench, prefect_server: str
) -> None:
    job_id = bench._scheduled()
    async with PrefectApi(prefect_server, transport=Refusing()) as api:
        context = EngineContext(bench.ledger, api, bench.context.settings)
        await OutboxWorker(context).handle_all()
        bench.later(REFUSED_FOR)
        await OutboxWorker(context).handle_all()
    assert bench.waiting() == []
    blocked = bench.job(job_id)
    assert blocked.state == "blocked"
    assert "no such thing; correct what it names" in (blocked.message or "")


async def test_a_job_that_nothing_can_be_done_with_is_named_and_the_others_are_settled(
    bench: Bench, caplog: pytest.LogCaptureFixture
) -> None:
    ended, waiting = [], []
    for _ in range(2):
        job_id, run = await bench.claimed()
        bench.end(job_id)
        ended.append((job_id, run))
    for _ in range(2):
        job_id, run = await bench.claimed()
        bench.change(job_id, state="scheduled")
        await flow_runs.propose(bench.prefect, run, "CRASHED")
        waiting.append(job_id)
    with bench.ledger.engine.begin() as connection:
        connection.exec_driver_sql(f"UPDATE job SET state = 'odd' WHERE id = {ended[0][0]}")
        poison(connection, "UPDATE", "job", waiting[0])
    bench.later(timedelta(minutes=10))
    await Reconciler(bench.context).reconcile()
    assert await bench.state(ended[1][1]) == "COMPLETED"
    assert bench.job(waiting[1]).state == "lost"
    assert f"the end of job {ended[0][0]} is put aside" in caplog.text
    assert f"job {waiting[0]} is put aside" in caplog.text
