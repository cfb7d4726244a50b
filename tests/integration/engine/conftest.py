"""What tests of the engine share."""

from collections.abc import AsyncIterator
from datetime import timedelta

import pytest

from jobauto_prefect.engine.api import PrefectApi
from jobauto_prefect.engine.context import EngineContext
from jobauto_prefect.engine.outbox_worker import OutboxWorker
from jobauto_prefect.ledger.store import Ledger
from jobauto_prefect.settings import Settings
from tests.support.bench import Bench
from tests.support.counting_proxy import CountingTransport
from tests.support.records import make_template, own_name
from tests.support.servers import client, facade, user_token


@pytest.fixture
async def bench(
    ledger: Ledger, facade_settings: Settings, prefect_server: str
) -> AsyncIterator[Bench]:
    """A ledger whose clock the test sets, beside a real Prefect."""
    pool = own_name("pool")
    settings = facade_settings.model_copy(update={"pool": pool})
    with facade(settings, ledger) as url, client(f"{url}/api/v1", user_token(ledger)) as rest:
        template = make_template(rest, name=pool)["id"]
    transport = CountingTransport()
    async with PrefectApi(prefect_server, transport=transport) as api:
        made = Bench(EngineContext(ledger, api, settings), transport, template)
        real = ledger.clock
        ledger.clock = lambda: real() + made.ahead[0]
        made.later(timedelta(seconds=10))  # what the facade put off is due
        await OutboxWorker(made.context).handle_all()
        yield made
