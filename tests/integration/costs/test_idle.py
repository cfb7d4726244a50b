"""What an installation asks of PostgreSQL while nothing happens."""

import asyncio
import contextlib

from jobauto_prefect.engine.services.background import run_services
from jobauto_prefect.jobs.timetable import timetable_of
from jobauto_prefect.ledger.queries.agenda import Topic
from jobauto_prefect.sources.notices import NoticeSender
from jobauto_prefect.sources.poller import Poller
from jobauto_prefect.sources.webhooks import WebhookSender
from tests.support.counted_facade import CountedFacade

SECONDS = 20
WINDOWS = 4
A_SECOND = 2  # statements, of all processes that have the ledger open


async def test_idle_services(counted: CountedFacade, prefect_server: str) -> None:
    settings = counted.settings.model_copy(update={"prefect_api_url": prefect_server})
    timetable = timetable_of(counted.ledger, settings)
    wanted = timetable.wanted
    poller = Poller(counted.ledger, settings, wanted[Topic.EVENTS], wanted[Topic.SOURCES])
    services = [
        asyncio.create_task(run_services(settings, counted.ledger, timetable)),
        asyncio.create_task(poller.run()),
        asyncio.create_task(WebhookSender(counted.ledger, settings, wanted[Topic.WEBHOOKS]).run()),
        asyncio.create_task(NoticeSender(counted.ledger, settings, wanted[Topic.NOTICES]).run()),
    ]
    found: list[int] = []
    for _ in range(WINDOWS):  # the first ones see the beginning of it all
        with counted.asked.during():
            await asyncio.sleep(SECONDS)
            found.append(len(counted.asked.executed))
        if found[-1] <= A_SECOND * SECONDS:
            break
    for service in services:
        service.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await service
    # The outbox was looked at:
    assert any("FROM outbox_message" in text for text in counted.asked.executed)
    assert found[-1] <= A_SECOND * SECONDS, f"{found}{counted.asked.shown()}"
