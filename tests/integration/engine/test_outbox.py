"""Starts are not held up by what is being applied: a real ledger and a real Prefect."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable
from typing import Any

import httpx
import pytest
from sqlalchemy import update

from jobauto_prefect.engine.api import PrefectApi
from jobauto_prefect.engine.neighbours import Neighbours
from jobauto_prefect.engine.wishes import AT_ONCE, Carrier
from jobauto_prefect.ledger.attempts import new_job
from jobauto_prefect.ledger.audit import SERVICE
from jobauto_prefect.ledger.records import Job, RunTemplate, Wish
from jobauto_prefect.ledger.store import Ledger
from jobauto_prefect.ledger.wishes import WishKind, wish
from jobauto_prefect.settings import Settings
from tests.integration.test_facade import make_template
from tests.servers import client, facade, user_token

PATIENCE = 30  # seconds


class HeldTransport(httpx.AsyncHTTPTransport):
    """The ordinary transport; deployments are made only once it is told to go on."""

    def __init__(self) -> None:
        super().__init__()
        self.go_on = asyncio.Event()
        self.held = 0

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        if request.method == "POST" and request.url.path == "/api/deployments/":
            self.held += 1
            await self.go_on.wait()
        return await super().handle_async_request(request)


@contextlib.asynccontextmanager
async def carrying(near: Neighbours) -> AsyncIterator[Carrier]:
    carrier = Carrier(near, 0.05)
    task = asyncio.create_task(carrier.run())
    try:
        yield carrier
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


async def eventually(look: Callable[[], Any]) -> Any:
    async with asyncio.timeout(PATIENCE):
        while not (found := await asyncio.to_thread(look)):  # noqa: ASYNC110 - the ledger is asked
            await asyncio.sleep(0.02)
        return found


@pytest.fixture
def settings(facade_settings: Settings, prefect_server: str) -> Settings:
    """A facade whose Prefect is away; what carries has this one."""
    pool = f"pool-{facade_settings.url.rpartition(':')[2]}"
    return facade_settings.model_copy(update={"pool": pool})


async def carry_all(ledger: Ledger, settings: Settings, prefect: str) -> None:
    all_due(ledger)
    async with PrefectApi(prefect) as api:
        await Carrier(Neighbours(ledger, api, settings)).carry_all()


def all_due(ledger: Ledger) -> None:
    """What a facade put off is due at once."""
    with ledger.writing(SERVICE) as session:
        due = {"not_before": ledger.clock(), "taken_until": None, "attempts": 0}
        session.execute(update(Wish).values(**due))


def run_id(ledger: Ledger, job_id: int) -> Any:
    with ledger.reading() as session:
        return session.get_one(Job, job_id).flow_run_id


async def test_a_job_gets_its_run_while_everything_that_is_applied_hangs(
    ledger: Ledger, settings: Settings, prefect_server: str
) -> None:
    with facade(settings, ledger) as url, client(f"{url}/api/v1", user_token(ledger)) as rest:
        made = make_template(rest)
    await carry_all(ledger, settings, prefect_server)
    others = [f"{settings.pool} {number}" for number in range(2 * AT_ONCE)]
    with (
        facade(settings, ledger) as url,
        client(f"{url}/api/v1", user_token(ledger, "eva")) as rest,
    ):
        for name in others:
            body = {"app_id": made["app_id"], "company": "acme", "name": name}
            rest.post("/runtemplate/", json=body).raise_for_status()
    all_due(ledger)
    transport = HeldTransport()
    async with (
        PrefectApi(prefect_server, transport=transport) as api,
        carrying(Neighbours(ledger, api, settings)) as carrier,
    ):
        await eventually(lambda: transport.held >= AT_ONCE // 2)
        job = await asyncio.to_thread(start, ledger, made["id"])
        carrier.wake()
        await eventually(lambda: run_id(ledger, job))
        assert applied(ledger) == 1
        transport.go_on.set()
        await eventually(lambda: applied(ledger) == 1 + len(others))


def start(ledger: Ledger, template_id: int) -> int:
    """A job of a template, as everything that starts one makes it."""
    with ledger.writing(SERVICE) as session:
        template = session.get_one(RunTemplate, template_id)
        job = new_job(template, schedule=session.clock(), schedule_type="adhoc")
        session.add(job)
        session.flush()
        wish(session, WishKind.CREATE_RUN, job.id)
        return job.id


def applied(ledger: Ledger) -> int:
    """How many templates have a deployment."""
    with ledger.reading() as session:
        return session.query(RunTemplate).filter(RunTemplate.deployment_id.is_not(None)).count()


async def test_a_start_that_overtakes_a_change_of_its_template_has_the_changed_values(
    ledger: Ledger, settings: Settings, prefect_server: str
) -> None:
    with facade(settings, ledger) as url, client(f"{url}/api/v1", user_token(ledger)) as rest:
        made = make_template(rest, env={"GREETING": "hi"})
    await carry_all(ledger, settings, prefect_server)
    with (
        facade(settings, ledger) as url,
        client(f"{url}/api/v1", user_token(ledger, "eva")) as rest,
    ):
        rest.post("/runtemplate/", json={"id": made["id"], "env": {"GREETING": "hello"}})
        job = rest.post("/job/", json={"runtemplate_id": made["id"]}).json()
    await carry_all(ledger, settings, prefect_server)
    async with PrefectApi(prefect_server) as api:
        run = await api.get(f"/flow_runs/{run_id(ledger, job['id'])}")
    assert run["parameters"]["GREETING"] == "hello"
