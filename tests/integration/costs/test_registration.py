"""What it costs to register a run template in Prefect, and to open its windows."""

import asyncio
import json
from pathlib import Path

from sqlalchemy.orm import joinedload

from jobauto_prefect.engine.api import PrefectApi
from jobauto_prefect.engine.context import EngineContext
from jobauto_prefect.engine.outbox_worker import OutboxWorker
from jobauto_prefect.jobs.windows import due_windows
from jobauto_prefect.ledger.audit.trail import SERVICE
from jobauto_prefect.ledger.records import RunTemplate
from tests.support.claims import DEPLOYMENT
from tests.support.counted_facade import CountedFacade
from tests.support.counting_proxy import Counted as Calls
from tests.support.counting_proxy import counted as prefect_counted
from tests.support.waits import eventually

MANY = 24

LOOKS = ("count(outbox_message.id)", "SELECT outbox_message.id, outbox_message.priority ")
"""The test looks whether all is done, the facade whether there is more; how often, time decides."""


async def test_a_run_template_that_is_applied(carrying: tuple[CountedFacade, Calls]) -> None:
    counted, calls = carrying
    first = await counted.template()
    await _until_applied(counted)
    calls.calls.clear()
    with counted.asked.during():
        body = {"app_id": 1, "company": "acme", "name": "second"}
        second = await counted.made("/runtemplate/", body)
        await _until_applied(counted)
    assert second["id"] != first
    assert len(calls.writes) == 1, calls.calls
    assert len(calls.calls) <= 3, calls.calls
    looks = [text for text in counted.asked.counted if any(look in text for look in LOOKS)]
    own = len(counted.asked.counted) - len(looks)
    assert own <= 20, counted.asked.shown()
    assert counted.asked.commits <= 4, counted.asked.shown()


async def test_many_run_templates_that_are_applied(
    counted: CountedFacade, prefect_server: str, tmp_path: Path
) -> None:
    """Each is one write of Prefect's, and a share of what the ledger is asked and told for some."""
    await counted.template(name="first")
    async with PrefectApi(prefect_server) as api:  # the application has its flow
        await OutboxWorker(EngineContext(counted.ledger, api, counted.settings)).handle_all()
    files = [{"name": "records.json", "text": json.dumps([*map(_record, range(MANY))])}]
    plan = (await counted.rest.post("/apply.json", json={"files": files})).json()
    body = {"files": files, "digest": plan["digest"]}
    (await counted.rest.post("/apply.json", json=body)).raise_for_status()
    with prefect_counted(prefect_server, tmp_path) as calls:
        async with PrefectApi(calls.url) as api:
            context = EngineContext(counted.ledger, api, counted.settings)
            with counted.asked.during():
                await OutboxWorker(context).handle_all()
    made = [call for call in calls.calls if call == "POST /deployments/"]
    assert len(made) == MANY
    assert len(calls.calls) <= 2 * MANY, calls.calls
    # On a busy machine some are put off, so that none is applied longer than it is locked: each
    # is a write to put it off, and its share of one more look and write.
    put_off = sum("UPDATE outbox_message SET not_before" in text for text in counted.asked.counted)
    assert put_off <= MANY // 4, counted.asked.shown()
    assert len(counted.asked.counted) <= 5 * (MANY + put_off), counted.asked.shown()
    assert counted.asked.commits <= MANY + 4 * put_off, counted.asked.shown()


def _record(number: int) -> dict[str, str]:
    return {"kind": "runtemplate", "company": "acme", "app": "True", "name": f"T{number}"}


async def _until_applied(counted: CountedFacade) -> None:
    await asyncio.to_thread(eventually, lambda: counted.ledger_messages() == 0)


async def test_a_window_that_opens(counted: CountedFacade) -> None:
    """Beside what each look of the keeper costs, a window is a task, a job, and their entries.

    One question is whether it is frozen; the keeper asks that, as all but the entries, once for all
    windows it opens.
    """
    template = await counted.template(interv="h")
    with counted.ledger.writing(SERVICE) as session:
        record = session.get_one(RunTemplate, template)
        record.deployment_id, record.applied_parameters = DEPLOYMENT, {}
    for _ in range(2):
        with counted.asked.during(), counted.ledger.writing(SERVICE) as session:
            with_company = [joinedload(RunTemplate.company)]  # as the keeper reads them
            record = session.get_one(RunTemplate, template, options=with_company)
            assert record.next_schedule is not None
            due_windows.open_until(session, record, record.next_schedule)
    assert any(text.startswith("INSERT INTO task") for text in counted.asked.executed)
    assert len(counted.asked.counted) <= 11, counted.asked.shown()
    assert counted.asked.commits == 1
