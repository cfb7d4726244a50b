"""What it costs to register a run template in Prefect, and to open its windows."""

import asyncio

from sqlalchemy.orm import joinedload

from jobauto_prefect.jobs import windows
from jobauto_prefect.ledger.audit import SERVICE
from jobauto_prefect.ledger.records import RunTemplate
from tests.claims import DEPLOYMENT
from tests.integration.costs.conftest import Counted
from tests.plant import eventually
from tests.proxy import Counted as Calls

LOOKS = ("count(wish.id)", "SELECT wish.id, wish.priority ")
"""The test looks whether all is done, the facade whether there is more; how often, time decides."""


async def test_a_run_template_that_is_applied(carrying: tuple[Counted, Calls]) -> None:
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
    assert len(calls.calls) <= 5, calls.calls
    looks = [text for text in counted.asked.counted if any(look in text for look in LOOKS)]
    own = len(counted.asked.counted) - len(looks)
    assert own <= 31, counted.asked.shown()
    assert counted.asked.commits <= 6, counted.asked.shown()


async def _until_applied(counted: Counted) -> None:
    await asyncio.to_thread(eventually, lambda: counted.ledger_wishes() == 0)


async def test_a_window_that_opens(counted: Counted) -> None:
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
            windows.open_until(session, record, record.next_schedule)
    assert any(text.startswith("INSERT INTO task") for text in counted.asked.executed)
    assert len(counted.asked.counted) <= 11, counted.asked.shown()
    assert counted.asked.commits == 1
