"""What a job that runs alone costs from its request to the word about its end, step by step."""

import asyncio

from jobauto_prefect.engine.api import PrefectApi
from jobauto_prefect.engine.services.event_emitter import EventEmitter
from jobauto_prefect.ledger.records import Job, RunTemplate
from tests.support.claims import own_run_of, renewal_of
from tests.support.counted_facade import CountedFacade
from tests.support.counting_proxy import Counted as Calls
from tests.support.waits import eventually

STATEMENTS = {"post and hand-over": 10, "claim": 6, "renewal": 6, "report": 7, "event": 3}
"""At most, without that of the token, which is remembered for a second."""

COMMITS = {"post and hand-over": 2, "claim": 1, "renewal": 1, "report": 1, "event": 2}
LEDGER = 32  # statements in all


async def test_a_whole_job(carrying: tuple[CountedFacade, Calls]) -> None:
    counted, calls = carrying
    template = await counted.template()

    async def post() -> int:
        """Post a job, and wait until its flow run is bound and the outbox is empty."""
        job: int = (await counted.made("/job/", {"runtemplate_id": template}))["id"]
        await asyncio.to_thread(eventually, lambda: counted.ledger_messages() == 0)
        return job

    await post()  # applies the run template
    found: dict[str, list[str]] = {}
    commits: dict[str, int] = {}
    called: list[str] = []

    def note(step: str) -> None:
        uncounted = (
            "SELECT token.id",
            "SELECT count(outbox_message.id)",
        )  # the latter: this test's
        found[step] = [text for text in counted.asked.counted if not text.startswith(uncounted)]
        commits[step] = counted.asked.commits
        called.extend(f"{step}: {call.split('/')[-1]}" for call in calls.calls)
        calls.calls.clear()

    calls.calls.clear()
    with counted.asked.during():
        job_id = await post()
        note("post and hand-over")
    with counted.ledger.reading() as session:
        run = session.get_one(Job, job_id).flow_run_id
        deployment = session.get_one(RunTemplate, template).deployment_id
    own = own_run_of(counted.ledger, job_id, flow_run_id=run, deployment_id=str(deployment))
    with counted.asked.during():
        launch = await counted.claimed(**own | {"flow_run_id": str(run)})
        note("claim")
    renewal = renewal_of(1, jobs={str(job_id): launch["claim_id"]})
    with counted.asked.during():
        (await counted.claims.post("/renewals", json=renewal)).raise_for_status()
        note("renewal")
    with counted.asked.during():
        await counted.reported(launch)
        note("report")
    async with PrefectApi(calls.url) as prefect:
        with counted.asked.during():
            await EventEmitter(counted.ledger, prefect).emit_all()
            note("event")
    beyond = {step: texts for step, texts in found.items() if len(texts) > STATEMENTS[step]}
    assert not beyond
    assert commits == COMMITS
    assert sum(map(len, found.values())) <= LEDGER
    assert called == ["post and hand-over: create_flow_run", "event: events"]
