"""Running and the end of a flow run reach Prefect in any order; the end counts."""

import asyncio
from collections.abc import AsyncIterator, Iterator
from datetime import timedelta
from urllib.parse import urlsplit
from uuid import UUID, uuid4

import pytest

from jobauto_prefect.engine import flow_runs
from jobauto_prefect.engine.api import PrefectApi
from jobauto_prefect.engine.flow_runs import NewRun, Verdict
from jobauto_prefect.engine.services.reconciler import CLAIM_WITHIN, Reconciler, RunningRuns
from jobauto_prefect.engine.worker.state_reporter import StateReporter
from jobauto_prefect.ledger.records import RunTemplate
from tests.support.bench import Bench
from tests.support.breakable import LossyRelay
from tests.support.ledger_rows import fetch

ROUNDS = 50
ENDS = ["COMPLETED", "FAILED", "CANCELLED", "CRASHED"]


@pytest.fixture
def relay(prefect_server: str) -> Iterator[LossyRelay]:
    with LossyRelay(urlsplit(prefect_server).port or 0) as relay:
        yield relay


@pytest.fixture
async def api(relay: LossyRelay) -> AsyncIterator[PrefectApi]:
    """What the worker calls Prefect by."""
    async with PrefectApi(f"http://127.0.0.1:{relay.port}/api") as api:
        yield api


async def is_answering() -> bool:
    return True


def deployment(bench: Bench) -> UUID:
    found = fetch(bench.ledger, RunTemplate, bench.template).deployment_id
    assert found is not None
    return found


async def new_runs(bench: Bench, number: int) -> list[UUID]:
    """Runs that wait, as the button of Prefect's UI makes them: with its deployment's labels."""
    now = bench.ledger.clock() - 2 * bench.ahead[0]
    made = [
        flow_runs.create_run(bench.prefect, deployment(bench), NewRun("round", now, {}))
        for _ in range(number)
    ]
    return await asyncio.gather(*made)


@pytest.mark.parametrize("end", ENDS)
async def test_running_that_arrives_after_the_end_is_refused(
    bench: Bench, relay: LossyRelay, api: PrefectApi, end: str
) -> None:
    """As from a server that was stopped with the call in its hands; the worker has called again."""
    rounds = ROUNDS if end == "COMPLETED" else 1
    reporter = StateReporter(api)
    for run in await new_runs(bench, rounds):
        relay.delay(f"{run}/set_state")
        answer = await reporter.propose_running(run)
        assert answer is not None
        assert answer.accepted
        assert (await flow_runs.propose(bench.prefect, run, end)).accepted
        await asyncio.to_thread(relay.arrive)
        assert await bench.history(run) == ["SCHEDULED", "RUNNING", end]


@pytest.mark.parametrize("together", [False, True], ids=["singly", "in bulk"])
async def test_running_that_arrives_after_a_persons_cancel_is_refused(
    bench: Bench, *, together: bool
) -> None:
    runs = await new_runs(bench, ROUNDS)
    for run in runs:
        assert await flow_runs.cancel_run(bench.prefect, run)
    if together:
        answers = [
            answer
            for start in range(0, ROUNDS, 10)
            for answer in (
                await flow_runs.propose_together(
                    bench.prefect, runs[start : start + 10], "RUNNING", "", uuid4()
                )
            ).values()
        ]
    else:
        answers = [await flow_runs.propose(bench.prefect, run, "RUNNING") for run in runs]
    assert {(answer.verdict, answer.state) for answer in answers} == {(Verdict.REJECT, "CANCELLED")}
    assert len(answers) == ROUNDS
    assert {await bench.state(run) for run in runs} == {"CANCELLED"}


async def test_a_run_that_is_started_again_runs(bench: Bench) -> None:
    (run,) = await new_runs(bench, 1)
    for state in ("RUNNING", "FAILED", "SCHEDULED", "PENDING", "RUNNING", "COMPLETED"):
        assert (await flow_runs.propose(bench.prefect, run, state)).accepted, state


async def test_runs_of_others_follow_the_rules_of_prefect(bench: Bench) -> None:
    """Infrastructure that starts a crashed program of theirs again makes its run Running."""
    flow = await bench.prefect.post("/flows/", {"name": f"theirs {uuid4()}"})
    body = {"flow_id": flow["id"], "state": {"type": "PENDING"}}
    run = UUID((await bench.prefect.post("/flow_runs/", body))["id"])
    for state in ("RUNNING", "CRASHED", "RUNNING"):
        assert (await flow_runs.propose(bench.prefect, run, state)).accepted, state


async def test_running_after_a_confirmed_end_does_not_stay(bench: Bench) -> None:
    """By force here; a Prefect server that others start takes it from anybody."""
    ended = {"succeeded": "COMPLETED", "failed": "FAILED", "cancelled": "CANCELLED"}
    jobs = {state: await bench.claimed() for state in ended}
    _, still_running = await bench.claimed()
    for state, (job_id, run) in jobs.items():
        bench.end(job_id, state)
        await flow_runs.set_state(bench.prefect, run, bench.run_status(job_id))
    reconciler, runs = Reconciler(bench.context), RunningRuns(bench.context, is_answering)
    for _ in range(3):
        bench.later()
        await reconciler.reconcile()
        for _, run in jobs.values():
            await flow_runs.propose(bench.prefect, run, "RUNNING", force=True)
        bench.transport.calls.clear()
        await runs.look()
        assert bench.transport.calls == ["POST /flow_runs/filter"]
        bench.later(CLAIM_WITHIN)
        await runs.look()
        shown = [await bench.state(run) for _, run in jobs.values()]
        assert shown == list(ended.values())
    assert await bench.state(still_running) == "RUNNING"


async def test_a_run_that_somebody_starts_again_gets_the_time_for_its_claim(bench: Bench) -> None:
    job_id, run = await bench.claimed()
    bench.end(job_id)
    await flow_runs.set_state(bench.prefect, run, bench.run_status(job_id))
    runs = RunningRuns(bench.context, is_answering)
    for _ in range(2):
        for state in ("SCHEDULED", "RUNNING"):
            await flow_runs.propose(bench.prefect, run, state)
        await runs.look()
        bench.later(CLAIM_WITHIN - timedelta(seconds=1))
        await runs.look()
        assert await bench.state(run) == "RUNNING"
