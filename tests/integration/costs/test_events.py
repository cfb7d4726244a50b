"""What it costs to tell Prefect of ends of jobs that no rule asks for."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from jobauto_prefect.engine.api import PrefectApi
from jobauto_prefect.engine.services.event_emitter import EventEmitter
from jobauto_prefect.ledger.audit.trail import SERVICE
from jobauto_prefect.ledger.records import RunTemplate
from tests.support.claims import DEPLOYMENT, own_run_of
from tests.support.counted_facade import CountedFacade
from tests.support.counting_proxy import Counted as Calls
from tests.support.counting_proxy import counted as prefect_counted


async def _end_jobs(counted: CountedFacade, number: int) -> None:
    template = await counted.template()
    with counted.ledger.writing(SERVICE) as session:
        record = session.get_one(RunTemplate, template)
        record.deployment_id, record.applied_parameters = DEPLOYMENT, {}
    for _ in range(number):
        job = await counted.made("/job/", {"runtemplate_id": template})
        run = own_run_of(counted.ledger, job["id"])
        await counted.reported(await counted.claimed(**run))


async def _emit(counted: CountedFacade, calls: Calls) -> None:
    async with PrefectApi(calls.url) as prefect:
        emitter = EventEmitter(counted.ledger, prefect)
        calls.calls.clear()
        with counted.asked.during():
            await emitter.emit_all()


@pytest.fixture
def calls(prefect_server: str, tmp_path: Path) -> Iterator[Calls]:
    with prefect_counted(prefect_server, tmp_path) as calls:
        yield calls


async def test_the_end_of_a_job(counted: CountedFacade, calls: Calls) -> None:
    await _end_jobs(counted, 1)
    await _emit(counted, calls)
    assert calls.calls == ["POST /events"]
    assert len(counted.asked.counted) <= 3, counted.asked.shown()
    assert counted.asked.commits == 2


async def test_ends_in_a_burst_cost_what_one_costs(counted: CountedFacade, calls: Calls) -> None:
    await _end_jobs(counted, 10)
    await _emit(counted, calls)
    assert calls.calls == ["POST /events"]
    assert len(counted.asked.counted) <= 3, counted.asked.shown()
    assert counted.asked.commits == 2
    await _emit(counted, calls)
    assert calls.calls == []
    assert counted.asked.commits == 1
