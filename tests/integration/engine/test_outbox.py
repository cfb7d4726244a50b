"""Starts are not held up by what is being applied: a real ledger and a real Prefect."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable
from datetime import timedelta
from typing import Any
from uuid import uuid4

import httpx
import pytest
from sqlalchemy import select, update

from jobauto_prefect.engine.api import PrefectApi
from jobauto_prefect.engine.context import EngineContext
from jobauto_prefect.engine.outbox_worker import AT_ONCE, OutboxWorker
from jobauto_prefect.ledger import outbox, queues
from jobauto_prefect.ledger.audit.trail import SERVICE
from jobauto_prefect.ledger.jobs.attempts import new_job
from jobauto_prefect.ledger.outbox import OutboxKind, enqueue
from jobauto_prefect.ledger.records import Job, NamedLock, OutboxMessage, RunTemplate
from jobauto_prefect.ledger.store import Ledger
from jobauto_prefect.settings import Settings
from tests.support.databases import both_databases
from tests.support.held_transport import HeldTransport
from tests.support.ledger_rows import count_rows, fetch, fetch_all
from tests.support.records import make_template, own_name
from tests.support.servers import client, facade, user_token

PATIENCE = 90  # seconds
MANY = 2 * AT_ONCE


class RefusingTransport(httpx.AsyncHTTPTransport):
    """Nobody answers, until it is told to go on; then Prefect does, or this."""

    def __init__(self, answer: httpx.Response | None = None) -> None:
        super().__init__()
        self._answer = answer
        self.go_on = asyncio.Event()
        self.tries = self.trying = self.most = 0

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        if self.go_on.is_set():
            return self._answer or await super().handle_async_request(request)
        self.tries += 1
        self.trying += 1
        self.most = max(self.most, self.trying)
        await asyncio.sleep(0.01)  # the others may come too
        self.trying -= 1
        raise httpx.ConnectError("nobody is there")


class ChoosyTransport(httpx.AsyncHTTPTransport):
    """The ordinary transport; a deployment with this in it is refused."""

    def __init__(self, refused: str) -> None:
        super().__init__()
        self._refused = refused.encode()

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        if request.url.path == "/api/deployments/" and self._refused in request.content:
            return httpx.Response(422, json={"detail": "never"})
        return await super().handle_async_request(request)


@contextlib.asynccontextmanager
async def carrying(context: EngineContext) -> AsyncIterator[OutboxWorker]:
    carrier = OutboxWorker(context, 0.05)
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
    return facade_settings.model_copy(update={"pool": own_name("pool")})


async def carry_all(ledger: Ledger, settings: Settings, prefect: str) -> None:
    all_due(ledger)
    async with PrefectApi(prefect) as api:
        await OutboxWorker(EngineContext(ledger, api, settings)).handle_all()


def all_due(ledger: Ledger) -> None:
    """What a facade put off is due at once."""
    with ledger.writing(SERVICE) as session:
        due = {"not_before": ledger.clock(), "taken_until": None, "attempts": 0}
        session.execute(update(OutboxMessage).values(**due))


@pytest.fixture
async def made(ledger: Ledger, settings: Settings, prefect_server: str) -> dict[str, Any]:
    """A run template that is applied; others of its application, `MANY`, wait for that."""
    with facade(settings, ledger) as url, client(f"{url}/api/v1", user_token(ledger)) as rest:
        made = make_template(rest)
    await carry_all(ledger, settings, prefect_server)
    with (
        facade(settings, ledger) as url,
        client(f"{url}/api/v1", user_token(ledger, "eva")) as rest,
    ):
        for number in range(MANY):
            body = {"app_id": made["app_id"], "company": "acme", "name": f"{number} of many"}
            rest.post("/runtemplate/", json=body).raise_for_status()
    all_due(ledger)
    return made


def held_messages(ledger: Ledger) -> int:
    with ledger.reading() as session:
        return outbox.waiting_messages(session, ledger.clock())


def run_id(ledger: Ledger, job_id: int) -> Any:
    return fetch(ledger, Job, job_id).flow_run_id


@both_databases
async def test_a_job_gets_its_run_while_everything_that_is_applied_hangs(
    ledger: Ledger, settings: Settings, prefect_server: str, made: dict[str, Any]
) -> None:
    transport = HeldTransport()
    async with (
        PrefectApi(prefect_server, transport=transport) as api,
        carrying(EngineContext(ledger, api, settings)) as carrier,
    ):
        await eventually(lambda: transport.held >= AT_ONCE // 2)
        job = await asyncio.to_thread(start, ledger, made["id"])
        carrier.wake()
        await eventually(lambda: run_id(ledger, job))
        assert applied(ledger) == 1
        transport.go_on.set()
        await eventually(lambda: applied(ledger) == 1 + MANY)


@both_databases
async def test_who_ends_gives_back_what_is_taken_and_not_begun(
    ledger: Ledger, settings: Settings, prefect_server: str
) -> None:
    enqueue_retirements(ledger, 2 * AT_ONCE)
    transport = HeldTransport("DELETE", "/api/deployments/.*")
    async with (
        PrefectApi(prefect_server, transport=transport) as api,
        carrying(EngineContext(ledger, api, settings)),
    ):
        await eventually(lambda: transport.held)
        assert free(ledger) < 2 * AT_ONCE
    assert free(ledger) == 2 * AT_ONCE


@both_databases
async def test_what_takes_long_stays_with_who_handles_it(
    ledger: Ledger, settings: Settings, prefect_server: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(queues, "HELD_FOR", timedelta(seconds=1))
    monkeypatch.setattr(queues, "RENEWED_EVERY", 0.2)
    enqueue_retirements(ledger, 1)
    transport = HeldTransport("DELETE", "/api/deployments/.*")
    async with (
        PrefectApi(prefect_server, transport=transport) as api,
        carrying(EngineContext(ledger, api, settings)),
        carrying(EngineContext(ledger, api, settings)),
    ):
        await eventually(lambda: transport.held)
        await asyncio.sleep(3 * queues.HELD_FOR.total_seconds())
        assert transport.held == 1
        transport.go_on.set()
        await eventually(lambda: not held_messages(ledger))


@both_databases
@pytest.mark.usefixtures("made")
async def test_who_ends_gives_back_the_run_templates_in_hand(
    ledger: Ledger, settings: Settings, prefect_server: str
) -> None:
    transport = HeldTransport()
    async with (
        PrefectApi(prefect_server, transport=transport) as api,
        carrying(EngineContext(ledger, api, settings)),
    ):
        await eventually(lambda: transport.held == AT_ONCE // 2)
        assert free(ledger) < MANY
    assert free(ledger) == MANY
    assert fetch_all(ledger, select(NamedLock).where(NamedLock.name.startswith("template "))) == []


@both_databases
@pytest.mark.usefixtures("made")
async def test_a_run_template_that_prefect_refuses_is_the_only_one_put_off(
    ledger: Ledger, settings: Settings, prefect_server: str
) -> None:
    transport = ChoosyTransport(" - 5 of many")
    async with PrefectApi(prefect_server, transport=transport) as api:
        await OutboxWorker(EngineContext(ledger, api, settings)).handle_all()
    assert applied(ledger) == MANY
    assert (waiting(ledger), tried(ledger)) == (1, 1)
    await carry_all(ledger, settings, prefect_server)
    assert (applied(ledger), waiting(ledger)) == (1 + MANY, 0)


@both_databases
async def test_while_prefect_is_away_one_message_is_tried_for_all(
    ledger: Ledger, settings: Settings, prefect_server: str
) -> None:
    enqueue_retirements(ledger, 5 * AT_ONCE)
    transport = RefusingTransport()
    async with (
        PrefectApi(prefect_server, transport=transport) as api,
        carrying(EngineContext(ledger, api, settings)) as carrier,
    ):
        await eventually(lambda: carrier.prefect_away is not None and transport.trying == 0)
        first, transport.most = transport.tries, 0
        assert first <= AT_ONCE
        for _ in range(20):
            carrier.wake()
        await eventually(lambda: transport.tries >= first + 2)
        assert transport.most == 1
        transport.go_on.set()
        await eventually(lambda: free(ledger) == 0 and waiting(ledger) == 0)
        assert carrier.prefect_away is None


async def test_who_refuses_is_not_away(ledger: Ledger, settings: Settings) -> None:
    enqueue_retirements(ledger, 5 * AT_ONCE)
    transport = RefusingTransport(httpx.Response(422, json={"detail": "never"}))
    async with (
        PrefectApi("http://prefect.test/api", transport=transport) as api,
        carrying(EngineContext(ledger, api, settings)) as carrier,
    ):
        await eventually(lambda: carrier.prefect_away)
        transport.go_on.set()
        await eventually(lambda: tried(ledger) == 5 * AT_ONCE)
        assert carrier.prefect_away is None


@pytest.mark.parametrize("turns", range(5))
async def test_who_is_told_to_end_while_being_woken_ends(
    ledger: Ledger, settings: Settings, turns: int
) -> None:
    """So many turns of the event loop lie between the two."""
    async with PrefectApi("http://prefect.test/api") as api:
        carrier = OutboxWorker(EngineContext(ledger, api, settings), 60)
        task = asyncio.create_task(carrier.run())
        await asyncio.sleep(0.2)  # it has looked, and waits
        carrier.accept({})
        for _ in range(turns):
            await asyncio.sleep(0)
        task.cancel()
        await asyncio.wait({task}, timeout=60)
        ended = task.done()
        task.cancel()
    assert ended


def tried(ledger: Ledger) -> int:
    """How many messages were put off."""
    return count_rows(ledger, OutboxMessage, OutboxMessage.attempts > 0)


def enqueue_retirements(ledger: Ledger, count: int) -> None:
    """Ask for the end of deployments that are gone already."""
    with ledger.writing(SERVICE) as session:
        for number in range(count):
            enqueue(session, OutboxKind.RETIRE_DEPLOYMENT, number, {"id": str(uuid4())})


def waiting(ledger: Ledger) -> int:
    """How many messages there are."""
    return count_rows(ledger, OutboxMessage)


def free(ledger: Ledger) -> int:
    """How many messages are nobody's."""
    return count_rows(ledger, OutboxMessage, OutboxMessage.taken_until.is_(None))


def start(ledger: Ledger, template_id: int) -> int:
    """A job of a template, as everything that starts one makes it."""
    with ledger.writing(SERVICE) as session:
        template = session.get_one(RunTemplate, template_id)
        job = new_job(template, schedule=session.clock(), schedule_type="adhoc")
        session.add(job)
        session.flush()
        enqueue(session, OutboxKind.CREATE_RUN, job.id)
        return job.id


def applied(ledger: Ledger) -> int:
    """How many templates have a deployment."""
    return count_rows(ledger, RunTemplate, RunTemplate.deployment_id.is_not(None))


@both_databases
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
