"""Flow runs that are created together: a real ledger, and a real Prefect on either database."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable, Iterator
from typing import Any
from urllib.parse import urlsplit
from uuid import UUID

import pytest
from sqlalchemy import make_url

from jobauto_prefect.engine.api import PrefectApi
from jobauto_prefect.engine.batches import MOST_TOGETHER
from jobauto_prefect.engine.context import EngineContext
from jobauto_prefect.engine.flow_runs import NewRun, create_runs
from jobauto_prefect.engine.outbox_worker import OutboxWorker
from jobauto_prefect.engine.prefect_server.process import prefect_command, wait_ready
from jobauto_prefect.errors import JobautoError
from jobauto_prefect.ledger.audit.trail import SERVICE
from jobauto_prefect.ledger.jobs.attempts import new_job
from jobauto_prefect.ledger.outbox import WRITER_SPAN, OutboxKind, enqueue
from jobauto_prefect.ledger.records import Job, OutboxMessage, RunTemplate
from jobauto_prefect.ledger.store import Ledger
from jobauto_prefect.settings import Settings
from tests.support.breakable import LossyRelay
from tests.support.databases import database
from tests.support.ports import free_port
from tests.support.prefect_server import SERVICES, STARTS_WITHIN
from tests.support.processes import clean_environment, running
from tests.support.records import make_template, own_name
from tests.support.servers import client, facade, user_token
from tests.support.waits import until

SINGLE, BULK = "/create_flow_run", "/create_flow_run/bulk"
COUNT = 7  # jobs that wait while a call is under way


@pytest.fixture(scope="module")
def prefect_on_postgresql(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The API address of a Prefect server whose database is PostgreSQL."""
    home, port = tmp_path_factory.mktemp("prefect"), free_port()
    url = f"http://127.0.0.1:{port}/api"
    settings = Settings(home=home, prefect_port=port, prefect_api_url=url)
    with database("postgresql", home) as name:
        argv, environment = prefect_command(settings, clean_environment())
        target = make_url(name).set(drivername="postgresql+asyncpg")
        connection = target.render_as_string(hide_password=False)
        environment |= SERVICES | {"PREFECT_SERVER_DATABASE_CONNECTION_URL": connection}
        with running(argv, environment, home / "server.log"):
            asyncio.run(wait_ready(url, STARTS_WITHIN))
            yield url


@pytest.fixture(params=["sqlite", "postgresql"])
def prefect_url(request: pytest.FixtureRequest) -> str:
    """A real Prefect on either database."""
    fixture = "prefect_server" if request.param == "sqlite" else "prefect_on_postgresql"
    url: str = request.getfixturevalue(fixture)
    return url


class HandOver:
    """Jobs of one deployment, and an outbox worker that reaches Prefect through a relay."""

    def __init__(self, context: EngineContext, relay: LossyRelay, template: int) -> None:
        self.context, self.relay, self.template = context, relay, template
        self.worker = OutboxWorker(context)

    def jobs(self, count: int) -> tuple[list[int], list[OutboxMessage]]:
        """New jobs, with the messages that this process handles itself."""
        with self.context.ledger.writing(SERVICE) as session:
            template = session.get_one(RunTemplate, self.template)
            schedule = session.clock()
            jobs = [
                new_job(template, schedule=schedule, schedule_type="adhoc") for _ in range(count)
            ]
            session.add_all(jobs)
            session.flush()
            messages = [enqueue(session, OutboxKind.CREATE_RUN, job.id, own=True) for job in jobs]
            return [job.id for job in jobs], messages

    async def handed_over(self, count: int) -> list[int]:
        """A job whose call is under way until so many others wait; then all are handed over."""
        first, (message,) = self.jobs(1)
        self.relay.hold(SINGLE)
        self.worker.accept([message])
        await until(lambda: self.relay.count(SINGLE) == 1)
        others, messages = await asyncio.to_thread(self.jobs, count)
        self.worker.accept(messages)
        await until(lambda: self.waiting() == count)
        self.relay.go_on()
        await self.until_bound([*first, *others])
        return [*first, *others]

    def waiting(self) -> int:
        """How many jobs wait for the call that is under way."""
        return sum(map(len, self.context.batches._waiting.values()))

    def bound(self, job_ids: list[int]) -> dict[int, UUID | None]:
        """Job -> flow run."""
        with self.context.ledger.reading() as session:
            return {job_id: session.get_one(Job, job_id).flow_run_id for job_id in job_ids}

    async def until_bound(self, job_ids: list[int]) -> None:
        """Return when each has a flow run."""
        await until(lambda: all(self.bound(job_ids).values()))

    async def runs(self) -> dict[str, Any]:
        """Flow run -> what Prefect has of it, of all runs of the deployment."""
        with self.context.ledger.reading() as session:
            deployment = session.get_one(RunTemplate, self.template).deployment_id
        wanted = {"deployments": {"id": {"any_": [str(deployment)]}}}
        runs = await self.context.prefect.post("/flow_runs/filter", wanted)
        return {run["id"]: run for run in runs}

    async def check(self, job_ids: list[int]) -> None:
        """Each job has its own flow run, which Prefect has once and which names it."""
        runs = await self.runs()
        bound = self.bound(job_ids)
        assert {str(run) for run in bound.values()} == set(runs)
        assert len(runs) == len(job_ids)
        for job_id, run in bound.items():
            assert runs[str(run)]["labels"]["jobauto.job"] == job_id
            assert runs[str(run)]["parameters"]["jobauto"] == {"job": job_id}
            assert runs[str(run)]["state_type"] == "SCHEDULED"
        with self.context.ledger.reading() as session:
            assert session.query(OutboxMessage).all() == []


@pytest.fixture
async def hand_over(
    ledger: Ledger, facade_settings: Settings, prefect_url: str
) -> AsyncIterator[HandOver]:
    """One applied template, and an outbox worker that looks for nothing by itself."""
    settings = facade_settings.model_copy(update={"pool": own_name("pool")})
    with facade(settings, ledger) as url, client(f"{url}/api/v1", user_token(ledger)) as rest:
        template = make_template(rest, name=settings.pool)["id"]
    real = ledger.clock
    ledger.clock = lambda: real() + 2 * WRITER_SPAN  # what the facade put off is due
    with LossyRelay(urlsplit(prefect_url).port or 0) as relay:
        async with PrefectApi(f"http://127.0.0.1:{relay.port}/api") as api:
            made = HandOver(EngineContext(ledger, api, settings), relay, template)
            await made.worker.handle_all()
            relay.calls.clear()
            task = asyncio.create_task(made.worker.run())
            await until(lambda: made.worker.is_running)
            yield made
            task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await task


async def test_what_waits_while_a_call_is_under_way_is_created_together(
    hand_over: HandOver,
) -> None:
    jobs = await hand_over.handed_over(COUNT)
    await hand_over.check(jobs)
    assert (hand_over.relay.count(SINGLE), hand_over.relay.count(BULK)) == (1, 1)


async def test_what_is_alone_is_created_alone_and_at_once(hand_over: HandOver) -> None:
    jobs = []
    for _ in range(3):
        new, messages = hand_over.jobs(1)
        hand_over.worker.accept(messages)
        await hand_over.until_bound(new)
        jobs += new
    await hand_over.check(jobs)
    assert (hand_over.relay.count(SINGLE), hand_over.relay.count(BULK)) == (3, 0)


async def test_no_more_than_twenty_go_together(hand_over: HandOver) -> None:
    jobs = await hand_over.handed_over(MOST_TOGETHER + 3)
    await hand_over.check(jobs)
    assert (hand_over.relay.count(SINGLE), hand_over.relay.count(BULK)) == (1, 2)


async def test_a_lost_answer_has_each_created_alone_under_its_key(hand_over: HandOver) -> None:
    hand_over.relay.lose(BULK)
    jobs = await hand_over.handed_over(COUNT)
    await hand_over.check(jobs)
    assert (hand_over.relay.lost, hand_over.relay.count(BULK)) == (1, 1)
    assert hand_over.relay.count(SINGLE) >= 1 + COUNT  # SQLite may be busy


async def test_two_messages_about_one_job_make_one_run(hand_over: HandOver) -> None:
    first, (message,) = hand_over.jobs(1)
    hand_over.relay.hold(SINGLE)
    hand_over.worker.accept([message])
    await until(lambda: hand_over.relay.count(SINGLE) == 1)
    jobs, messages = hand_over.jobs(2)
    with hand_over.context.ledger.writing(SERVICE) as session:
        messages.append(enqueue(session, OutboxKind.CREATE_RUN, jobs[0], own=True))
    hand_over.worker.accept(messages)
    await until(lambda: hand_over.waiting() == len(messages))
    hand_over.relay.go_on()
    await hand_over.until_bound([*first, *jobs])
    await until(lambda: not hand_over.worker._in_hand)
    await hand_over.check([*first, *jobs])


async def test_what_the_database_refuses_takes_no_other_run_with_it(hand_over: HandOver) -> None:
    """PostgreSQL keeps no NUL, and then takes back what the same call has created before."""
    with hand_over.context.ledger.reading() as session:
        deployment = session.get_one(RunTemplate, hand_over.template).deployment_id
    assert deployment is not None
    now = hand_over.context.ledger.clock()
    asked = [NewRun(f"run {text}", now, {"TEXT": text}) for text in ("a", "\0", "b")]
    first, second, third = await create_runs(hand_over.context.prefect, deployment, asked)
    runs = await hand_over.runs()
    assert (str(first) in runs, str(third) in runs) == (True, True)
    assert isinstance(second, JobautoError) or str(second) in runs
    assert len(runs) == 3 - isinstance(second, JobautoError)


async def test_all_are_bound_in_one_transaction(hand_over: HandOver) -> None:
    transactions = list[object]()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(EngineContext, "write", _noting(EngineContext.write, transactions))
        await hand_over.handed_over(COUNT)
    assert len(transactions) == 2  # the first job's, and that of all others


def _noting(write: Callable[..., Any], transactions: list[object]) -> Callable[..., Any]:
    async def noted(context: EngineContext, work: object, *args: Any, **named: Any) -> Any:
        transactions.append(work)
        return await write(context, work, *args, **named)

    return noted
