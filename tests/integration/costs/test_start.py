"""What the start of a posted job costs until Prefect has its flow run."""

import asyncio

from jobauto_prefect.ledger.records import Job, RunTemplate
from tests.support.counted_facade import CountedFacade
from tests.support.counting_proxy import Counted as Calls
from tests.support.ledger_rows import fetch
from tests.support.waits import eventually


async def _until_run(counted: CountedFacade, job_id: int) -> None:
    """Return when the flow run of a job is known."""

    def known() -> bool:
        return fetch(counted.ledger, Job, job_id).flow_run_id is not None

    await asyncio.to_thread(eventually, known)


async def test_a_posted_job_is_one_call_of_prefect_with_name_and_labels(
    carrying: tuple[CountedFacade, Calls],
) -> None:
    counted, calls = carrying
    template = await counted.template()
    first = await counted.made("/job/", {"runtemplate_id": template})  # applies the template
    await _until_run(counted, first["id"])
    deployment = fetch(counted.ledger, RunTemplate, template).deployment_id
    await asyncio.to_thread(eventually, lambda: counted.ledger_messages() == 0)
    calls.calls.clear()
    with counted.asked.during():
        job = await counted.made("/job/", {"runtemplate_id": template})
        await _until_run(counted, job["id"])
    assert calls.calls == [f"POST /deployments/{deployment}/create_flow_run"]
    looks = [text for text in counted.asked.counted if text.startswith("SELECT job.id AS")]
    own = len(counted.asked.counted) - len(looks)
    assert own <= 15, counted.asked.shown()
    assert counted.asked.commits == 2
    assert counted.ledger_messages() == 0
