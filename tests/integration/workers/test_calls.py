"""What a job costs in calls to Prefect, and what happens between claim and start."""

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from uuid import UUID

import pytest
from prefect.settings import PREFECT_API_URL, temporary_settings

from jobauto_prefect.engine import hand_overs
from jobauto_prefect.engine.api import PrefectApi
from jobauto_prefect.engine.worker.dispatcher import PollTarget
from jobauto_prefect.engine.worker.session import SessionOptions, WorkerSession
from jobauto_prefect.runtime.facade_client import FacadeClient
from jobauto_prefect.runtime.protocol import Claim, ClaimAnswer
from jobauto_prefect.runtime.worker_config import WorkerConfig
from jobauto_prefect.runtime.worker_context import open_worker
from tests.support.counting_proxy import CountingTransport
from tests.support.waits import PATIENCE, eventually, until
from tests.support.workers import Plant

QUIET = {"QUIET": "yes"}


@pytest.fixture
def transport() -> CountingTransport:
    return CountingTransport()


@pytest.fixture
def prefect_settings(prefect_server: str) -> Iterator[None]:
    with temporary_settings({PREFECT_API_URL: prefect_server}):
        yield


@asynccontextmanager
async def shift(
    plant: Plant, transport: CountingTransport, limit: int
) -> AsyncIterator[WorkerSession]:
    """A worker's shift in this process, without Prefect's worker around it."""
    plan = WorkerConfig(
        url=plant.settings.url,
        token=plant.token,
        worker="counted",
        pool=plant.pool,
        host="here",
        directory=plant.home / "work",
        stop_seconds=1,
    )
    terms = SessionOptions("counted", PollTarget(plant.pool, limit=limit), grace_seconds=10)
    pool = plant.prefect.get(f"/work_pools/{plant.pool}").json()
    async with (
        PrefectApi(plant.settings.prefect_api_url, transport=transport) as api,
        open_worker(plan) as opened,
        WorkerSession(api, opened, terms) as at_work,
    ):
        at_work.listen_to(UUID(pool["id"]))
        limits = at_work._pool_limits
        await until(lambda: at_work._is_connected and limits.is_known, PATIENCE)
        await asyncio.sleep(1)  # that its queue is ready is an event, too
        transport.calls.clear()
        yield at_work
        await at_work.end()


def for_runs(transport: CountingTransport) -> list[str]:
    """The calls that are not about the work pool, which may change at any time."""
    return [call for call in transport.calls if "/work_pools/" not in call]


@pytest.mark.usefixtures("prefect_settings")
async def test_a_quiet_success_costs_two_states_and_no_question(
    plant: Plant, transport: CountingTransport
) -> None:
    jobs = 5
    async with shift(plant, transport, limit=4):
        for _ in range(jobs):
            job_id = await asyncio.to_thread(plant.post_job, **QUIET)
            await asyncio.to_thread(plant.ended, job_id)
            run = await asyncio.to_thread(plant.run_of, job_id)
            shown = await asyncio.to_thread(plant.run_in, run, "COMPLETED")
            assert shown["labels"]["jobauto.job"] == job_id
    assert transport.count("/set_state") == 2 * jobs
    assert len(for_runs(transport)) == 2 * jobs, transport.calls
    assert transport.count("/get_scheduled_flow_runs") < jobs, transport.calls


@pytest.mark.usefixtures("prefect_settings")
async def test_a_run_is_claimed_once_though_prefect_announces_it_before_it_is_bound(
    plant: Plant, transport: CountingTransport, monkeypatch: pytest.MonkeyPatch
) -> None:
    claimed: list[UUID] = []
    ask = FacadeClient.claim

    async def note(client: FacadeClient, claim: Claim) -> ClaimAnswer:
        claimed.append(claim.flow_run_id)
        return await ask(client, claim)

    monkeypatch.setattr(FacadeClient, "claim", note)
    monkeypatch.setattr(hand_overs, "WAIT_SECONDS", PATIENCE)
    async with shift(plant, transport, limit=4):
        jobs = [await asyncio.to_thread(plant.post_job, **QUIET) for _ in range(5)]
        for job_id in jobs:
            await asyncio.to_thread(plant.ended, job_id)
    assert len(claimed) == len(set(claimed)) == len(jobs)


@pytest.mark.usefixtures("prefect_settings")
async def test_a_warning_costs_one_call_for_name_and_tag_after_the_end_and_no_question(
    plant: Plant, transport: CountingTransport
) -> None:
    async with shift(plant, transport, limit=4):
        warned = await asyncio.to_thread(plant.post_job, EXIT_WITH=3, **QUIET)
        run = await asyncio.to_thread(plant.run_of, warned)
        shown = await asyncio.to_thread(plant.run_named, run, f"#{warned} (warning)")
        others = [
            await asyncio.to_thread(plant.post_job, EXIT_WITH=code, **QUIET) for code in (4, 7)
        ]
        for job_id in others:
            await asyncio.to_thread(plant.ended, job_id)
    assert shown["tags"] == [f"company:{plant.pool}", "severity:warning"]
    assert (shown["state_type"], shown["state_name"]) == ("COMPLETED", "Completed")
    of_run = [call for call in transport.calls if run in call]
    assert of_run == [
        *[f"POST /flow_runs/{run}/set_state"] * 2,
        f"PATCH /flow_runs/{run}",
        f"PATCH /flow_runs/{run}/labels",
    ]
    changed = [call for call in transport.calls if call.startswith("PATCH")]
    assert sorted(call.endswith("/labels") for call in changed) == [False, True, True, True]
    assert not [call for call in for_runs(transport) if call.startswith("GET")]


@pytest.mark.usefixtures("prefect_settings")
@pytest.mark.parametrize("path", ["/work_pools/{pool}", "/work_pools/{pool}/queues/default"])
async def test_what_is_announced_does_not_start_in_a_paused_pool_or_queue(
    plant: Plant, transport: CountingTransport, path: str
) -> None:
    path = path.format(pool=plant.pool)
    async with shift(plant, transport, limit=4):
        await asyncio.to_thread(plant.prefect.patch, path, json={"is_paused": True})
        job_id = await asyncio.to_thread(plant.post_job, **QUIET)
        await asyncio.to_thread(plant.run_of, job_id)
        await asyncio.sleep(4)  # longer than it is looked for after its announcement
        assert plant.marked("starts") == []
        await asyncio.to_thread(plant.prefect.patch, path, json={"is_paused": False})
        await asyncio.to_thread(plant.ended, job_id)


@pytest.mark.usefixtures("prefect_settings")
@pytest.mark.parametrize("path", ["/work_pools/{pool}", "/work_pools/{pool}/queues/default"])
async def test_what_is_announced_heeds_a_limit_that_was_just_set(
    plant: Plant, transport: CountingTransport, path: str
) -> None:
    path = path.format(pool=plant.pool)
    async with shift(plant, transport, limit=4) as at_work:
        await asyncio.to_thread(plant.prefect.patch, path, json={"concurrency_limit": 1})
        first = await asyncio.to_thread(plant.post_job, SECONDS_TO_SLEEP=60, **QUIET)
        await asyncio.to_thread(eventually, lambda: plant.marked("starts"))
        second = await asyncio.to_thread(plant.post_job, **QUIET)
        await asyncio.to_thread(plant.run_of, second)
        await asyncio.sleep(1)
        assert len(plant.marked("starts")) == 1
        run = await asyncio.to_thread(plant.run_of, first)
        await asyncio.to_thread(plant.set_state, run, "CANCELLING")
        await asyncio.to_thread(plant.run_in, run, "CANCELLED")
        await at_work.tick()
        await asyncio.to_thread(plant.ended, second)


@pytest.mark.usefixtures("prefect_settings")
async def test_what_somebody_else_made_is_asked_for(
    plant: Plant, transport: CountingTransport
) -> None:
    async with shift(plant, transport, limit=4):
        run = await asyncio.to_thread(plant.click_run)
        (job,) = await asyncio.to_thread(plant.until_jobs_of, run)
        await asyncio.to_thread(plant.ended, job["id"])
    assert transport.count("/get_scheduled_flow_runs") > 0
    assert transport.count("/set_state") == 2


@pytest.mark.usefixtures("prefect_settings")
async def test_a_burst_does_not_cost_a_question_each(
    plant: Plant, transport: CountingTransport
) -> None:
    jobs = [await asyncio.to_thread(plant.post_job, **QUIET) for _ in range(25)]
    for job_id in jobs:
        await asyncio.to_thread(plant.run_of, job_id)
    async with shift(plant, transport, limit=2) as at_work:
        await at_work.tick()
        for job_id in jobs:
            await asyncio.to_thread(plant.ended, job_id)
    assert transport.count("/get_scheduled_flow_runs") < len(jobs)
    assert len(plant.marked("starts")) == len(jobs)
    assert plant.marked("overlaps") == []


@pytest.mark.usefixtures("prefect_settings")
async def test_a_run_that_is_cancelled_while_it_is_claimed_starts_no_process(
    plant: Plant, transport: CountingTransport
) -> None:
    async with shift(plant, transport, limit=2) as at_work:
        active = at_work._driver._active_runs
        await asyncio.to_thread(plant.serving.stop)
        run = await asyncio.to_thread(plant.click_run)
        await until(lambda: active, PATIENCE)  # the claim is on its way and finds nobody
        await asyncio.to_thread(plant.set_state, run, "CANCELLING")
        await asyncio.to_thread(plant.run_in, run, "CANCELLED")
        # The worker hears of it.
        await until(lambda: active and all(run.end for run in active.values()), PATIENCE)
        await asyncio.to_thread(plant.serving.start)
        (job,) = await asyncio.to_thread(plant.until_jobs_of, run)
        ended = await asyncio.to_thread(plant.ended, job["id"])
        await asyncio.to_thread(plant.run_in, run, "CANCELLED")
    assert ended["state"] == "cancelled"
    assert plant.marked("starts") == []
