"""What goes to Prefect together, new flow runs and states: a real one, on either database."""

import asyncio
import contextlib
import time
from collections import Counter
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator
from datetime import UTC, datetime, timedelta
from typing import Any
from urllib.parse import urlsplit
from uuid import UUID, uuid4, uuid5

import httpx
import psycopg
import pytest
from sqlalchemy import make_url

from jobauto_prefect.engine.api import PrefectApi
from jobauto_prefect.engine.batches import MOST_TOGETHER
from jobauto_prefect.engine.context import EngineContext
from jobauto_prefect.engine.flow_runs import (
    NewRun,
    create_run,
    create_runs,
    propose,
    show_status,
)
from jobauto_prefect.engine.hand_overs import Start
from jobauto_prefect.engine.message_handlers import FRESH, prepare_starts
from jobauto_prefect.engine.outbox_worker import OutboxWorker
from jobauto_prefect.engine.prefect_server.process import prefect_command, wait_ready
from jobauto_prefect.engine.worker.state_reporter import RunMetadata, StateReporter
from jobauto_prefect.errors import JobautoError
from jobauto_prefect.ledger.audit.trail import SERVICE, WritingSession
from jobauto_prefect.ledger.jobs.attempts import new_job
from jobauto_prefect.ledger.outbox import WRITER_SPAN, OutboxKind, enqueue
from jobauto_prefect.ledger.queries.jobs import job_with_context
from jobauto_prefect.ledger.records import Job, OutboxMessage, RunTemplate
from jobauto_prefect.ledger.store import Ledger
from jobauto_prefect.runtime.protocol import PrefectState, RunStatus
from jobauto_prefect.settings import Settings
from tests.support.breakable import LossyRelay
from tests.support.databases import WAITING_FOR_LOCKS, database
from tests.support.ledger_rows import fetch, fetch_all
from tests.support.ports import free_port
from tests.support.prefect_server import SERVICES, STARTS_WITHIN
from tests.support.processes import clean_environment, running
from tests.support.records import make_template, own_name
from tests.support.servers import client, facade, user_token
from tests.support.waits import PATIENCE, until

SINGLE, BULK = "/create_flow_run", "/create_flow_run/bulk"
SET, SET_ALL = "/set_state", "/bulk_set_state"
COUNT = 7  # jobs that wait while a call is under way
DATABASES: dict[str, str] = {}
"""Prefect's address -> its database."""


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
            DATABASES[url] = name
            yield url


@pytest.fixture(params=["sqlite", "postgresql"])
def prefect_url(request: pytest.FixtureRequest) -> str:
    """A real Prefect on either database."""
    fixture = "prefect_server" if request.param == "sqlite" else "prefect_on_postgresql"
    url: str = request.getfixturevalue(fixture)
    return url


class HandOver:
    """Jobs of one deployment, and an outbox worker that reaches Prefect through a relay."""

    def __init__(
        self, context: EngineContext, relay: LossyRelay, template: int, *, on_postgresql: bool
    ) -> None:
        self.context, self.relay, self.template = context, relay, template
        self.on_postgresql = on_postgresql
        self.worker = OutboxWorker(context)

    def jobs(self, count: int) -> tuple[list[int], dict[OutboxMessage, Start]]:
        """New jobs, with their starts, which this process handles itself."""
        with self.context.ledger.writing(SERVICE) as session:
            template = session.get_one(RunTemplate, self.template)
            schedule = session.clock()
            jobs = [
                new_job(template, schedule=schedule, schedule_type="adhoc") for _ in range(count)
            ]
            session.add_all(jobs)
            session.flush()
            return [job.id for job in jobs], self.starts(session, jobs)

    def starts(self, session: WritingSession, jobs: list[Job]) -> dict[OutboxMessage, Start]:
        """New messages that this process handles itself, with what they are to create."""
        box = self.context.ledger.box
        messages = [enqueue(session, OutboxKind.CREATE_RUN, job.id, own=True) for job in jobs]
        return dict(zip(messages, prepare_starts(session, jobs, box), strict=True))

    async def handed_over(self, count: int) -> list[int]:
        """A job whose call is under way until so many others wait; then all are handed over."""
        first, start = self.jobs(1)
        self.relay.hold(SINGLE)
        self.worker.accept(start)
        await until(lambda: self.relay.count(SINGLE) == 1)
        others, starts = await asyncio.to_thread(self.jobs, count)
        self.worker.accept(starts)
        await until(lambda: self.waiting() == count)
        self.relay.go_on()
        await self.until_bound([*first, *others])
        return [*first, *others]

    def waiting(self) -> int:
        """How many jobs wait for the call that is under way."""
        return sum(map(len, self.context.creations._waiting.values()))

    def bound(self, job_ids: list[int]) -> dict[int, UUID | None]:
        """Job -> flow run."""
        return {job_id: fetch(self.context.ledger, Job, job_id).flow_run_id for job_id in job_ids}

    async def until_bound(self, job_ids: list[int]) -> None:
        """Return when each has a flow run."""
        await until(lambda: all(self.bound(job_ids).values()))

    def check_calls(self, *, single: int, bulk: int) -> None:
        """So many calls created the runs; SQLite may have been busy, and was asked again."""
        made = (self.relay.count(SINGLE), self.relay.count(BULK))
        if self.on_postgresql:
            assert made == (single, bulk)
        else:
            assert made[0] >= single
            assert made[1] >= bulk

    async def runs(self) -> dict[str, Any]:
        """Flow run -> what Prefect has of it, of all runs of the deployment."""
        deployment = fetch(self.context.ledger, RunTemplate, self.template).deployment_id
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
        assert fetch_all(self.context.ledger, OutboxMessage) == []


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
            context, on_postgresql = EngineContext(ledger, api, settings), prefect_url in DATABASES
            made = HandOver(context, relay, template, on_postgresql=on_postgresql)
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
    hand_over.check_calls(single=1, bulk=1)


async def test_what_is_alone_is_created_alone_and_at_once(hand_over: HandOver) -> None:
    jobs = []
    for _ in range(3):
        new, start = hand_over.jobs(1)
        hand_over.worker.accept(start)
        await hand_over.until_bound(new)
        jobs += new
    await hand_over.check(jobs)
    hand_over.check_calls(single=3, bulk=0)


async def test_a_start_is_prepared_as_it_would_be_read(hand_over: HandOver) -> None:
    (job,), starts = hand_over.jobs(1)
    ledger = hand_over.context.ledger
    with ledger.reading() as session:
        read = prepare_starts(session, [job_with_context(session, job)], ledger.box)
    assert [*starts.values()] == read


async def test_a_job_that_can_not_be_read_takes_no_other_with_it(hand_over: HandOver) -> None:
    ledger, now = hand_over.context.ledger, hand_over.context.ledger.clock
    jobs, starts = hand_over.jobs(4)
    with ledger.writing(SERVICE) as session:
        session.get_one(Job, jobs[2]).overrides = ["no values"]  # type: ignore[assignment]
    ledger.clock = lambda: now() + 2 * FRESH  # what was prepared is too old
    hand_over.worker.accept(starts)
    await hand_over.until_bound([jobs[0], jobs[1], jobs[3]])
    assert hand_over.bound(jobs)[jobs[2]] is None


async def test_no_more_than_twenty_go_together(hand_over: HandOver) -> None:
    jobs = await hand_over.handed_over(MOST_TOGETHER + 3)
    await hand_over.check(jobs)
    hand_over.check_calls(single=1, bulk=2)


async def test_a_lost_answer_has_each_created_alone_under_its_key(hand_over: HandOver) -> None:
    hand_over.relay.lose(BULK)
    jobs = await hand_over.handed_over(COUNT)
    await hand_over.check(jobs)
    assert (hand_over.relay.lost, hand_over.relay.count(BULK)) == (1, 1)
    assert hand_over.relay.count(SINGLE) >= 1 + COUNT  # SQLite may be busy


async def test_two_messages_about_one_job_make_one_run(hand_over: HandOver) -> None:
    first, start = hand_over.jobs(1)
    hand_over.relay.hold(SINGLE)
    hand_over.worker.accept(start)
    await until(lambda: hand_over.relay.count(SINGLE) == 1)
    jobs, starts = hand_over.jobs(2)
    with hand_over.context.ledger.writing(SERVICE) as session:
        starts |= hand_over.starts(session, [session.get_one(Job, jobs[0])])
    hand_over.worker.accept(starts)
    await until(lambda: hand_over.waiting() == len(starts))
    hand_over.relay.go_on()
    await hand_over.until_bound([*first, *jobs])
    await until(lambda: not hand_over.worker._in_hand)
    await hand_over.check([*first, *jobs])


async def test_what_the_database_refuses_takes_no_other_run_with_it(hand_over: HandOver) -> None:
    """PostgreSQL keeps no NUL, and then takes back what the same call has created before."""
    deployment = fetch(hand_over.context.ledger, RunTemplate, hand_over.template).deployment_id
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


class Runs:
    """Flow runs in a Prefect that is reached through a relay, and who gives them their states."""

    def __init__(
        self, api: PrefectApi, direct: PrefectApi, relay: LossyRelay, deployment: UUID
    ) -> None:
        self.api, self.direct, self.relay, self._deployment = api, direct, relay, deployment
        self.reporter = StateReporter(api)

    async def new(self, count: int, due: datetime | None = None) -> list[UUID]:
        """Flow runs that are due."""
        due = due or datetime.now(UTC)
        made = [NewRun(f"run {number}", due, {}) for number in range(count)]
        return [await create_run(self.api, self._deployment, run) for run in made]

    async def together(
        self, runs: list[UUID], tell: Callable[[UUID], Coroutine[Any, Any, Any]]
    ) -> list[Any]:
        """Tell of one run, and while that call is held of all others; what came of each."""
        self.relay.hold(SET)
        before = self.relay.count(SET)
        first = asyncio.create_task(tell(runs[0]))
        await until(lambda: self.relay.count(SET) > before)
        others = [asyncio.create_task(tell(run)) for run in runs[1:]]
        await asyncio.sleep(0.1)
        self.relay.go_on()
        return await asyncio.gather(first, *others)

    async def running(self, count: int) -> list[UUID]:
        """Flow runs that are Running."""
        runs = await self.new(count)
        for run in runs:
            assert (await propose(self.api, run, "RUNNING")).accepted
        self.relay.calls.clear()
        return runs

    def end(self, run: UUID, message: str = "exit code 0: success") -> Coroutine[Any, Any, None]:
        """Report that the job of a run has succeeded."""
        status = RunStatus(
            state=PrefectState.COMPLETED, message=message, transition_id=uuid5(run, "end")
        )
        return self.reporter.report(run, status, RunMetadata({}))

    async def history(self, run: UUID) -> list[str]:
        """The types of the states a run was in."""
        states = await self.api.get(f"/flow_run_states/?flow_run_id={run}")
        return [state["type"] for state in sorted(states, key=lambda state: state["timestamp"])]

    async def completed_events(self, runs: list[UUID]) -> dict[UUID, int]:
        """Run -> how many events say that it is completed, once all that were sent are kept."""
        last = f"tests.{uuid4()}"
        sent = {"event": last, "resource": {"prefect.resource.id": last}, "id": str(uuid4())}
        sent |= {"occurred": datetime.now(UTC).isoformat()}
        await self.api.post("/events", [sent])
        async with asyncio.timeout(PATIENCE):
            while not await self._events(last, [last]):  # noqa: ASYNC110 - Prefect is asked
                await asyncio.sleep(0.2)
        ids = [f"prefect.flow-run.{run}" for run in runs]
        found = Counter(await self._events("prefect.flow-run.Completed", ids))
        return {run: found[f"prefect.flow-run.{run}"] for run in runs}

    async def _events(self, name: str, ids: list[str]) -> list[str]:
        wanted = {"event": {"name": [name]}, "resource": {"id": ids}}
        answer = await self.direct.post("/events/filter", {"filter": wanted, "limit": 50})
        return [event["resource"]["prefect.resource.id"] for event in answer["events"]]


@pytest.fixture
async def runs(prefect_url: str) -> AsyncIterator[Runs]:
    """A deployment of the test's own; what is lost or held goes through the relay."""
    with LossyRelay(urlsplit(prefect_url).port or 0) as relay:
        async with (
            PrefectApi(f"http://127.0.0.1:{relay.port}/api") as api,
            PrefectApi(prefect_url) as direct,
        ):
            flow = await api.post("/flows/", {"name": own_name("flow")})
            body = {"name": "states", "flow_id": flow["id"]}
            deployment = await api.post("/deployments/", body)
            yield Runs(api, direct, relay, UUID(deployment["id"]))


async def test_states_that_wait_go_together_and_each_has_its_answer(runs: Runs) -> None:
    made = await runs.new(COUNT)
    answers = await runs.together(made, runs.reporter.propose_running)
    assert [answer.accepted for answer in answers] == [True] * COUNT
    assert runs.relay.count(SET_ALL) == 1
    await runs.together(made, runs.end)
    assert runs.relay.count(SET_ALL) == 2
    for run in made:
        assert await runs.history(run) == ["SCHEDULED", "RUNNING", "COMPLETED"]
    assert set((await runs.completed_events(made)).values()) == {1}


async def test_ends_of_different_messages_do_not_go_together(runs: Runs) -> None:
    made = await runs.running(5)
    messages = {run: f"exit code {number % 2}" for number, run in enumerate(made)}
    await runs.together(made, lambda run: runs.end(run, messages[run]))
    for run, message in messages.items():
        shown = await runs.api.get(f"/flow_runs/{run}")
        assert (shown["state_type"], shown["state"]["message"]) == ("COMPLETED", message)


@pytest.mark.parametrize("times", [1, 3])
async def test_a_lost_answer_gives_no_state_twice(runs: Runs, times: int) -> None:
    made = await runs.new(COUNT)
    runs.relay.lose(SET_ALL, times)
    answers = await runs.together(made, runs.reporter.propose_running)
    assert [answer.accepted for answer in answers] == [True] * COUNT
    runs.relay.lose(SET_ALL, times)
    await runs.together(made, runs.end)
    assert runs.relay.lost > times
    for run in made:
        assert await runs.history(run) == ["SCHEDULED", "RUNNING", "COMPLETED"]
    assert set((await runs.completed_events(made)).values()) == {1}


async def told_by_others(runs: Runs, ended: list[UUID]) -> None:
    """The reconciler shows the same ends, by transition ids of its own."""
    for run in ended:
        status = RunStatus(state=PrefectState.COMPLETED, message="exit code 0: success")
        await show_status(runs.direct, run, status)


async def test_an_end_whose_answer_is_lost_is_not_told_again_by_others(runs: Runs) -> None:
    made = await runs.running(COUNT)
    runs.relay.lose(SET_ALL, 10**6)
    ending = asyncio.create_task(runs.together(made, runs.end))
    await until(lambda: runs.relay.lost)
    await told_by_others(runs, made)
    await ending
    assert set((await runs.completed_events(made)).values()) == {1}


async def test_an_end_that_others_told_while_prefect_was_away_is_not_told_again(
    runs: Runs,
) -> None:
    made = await runs.running(COUNT)
    runs.relay.hold(SET)
    ends = [asyncio.create_task(runs.end(run)) for run in made[:1]]
    await until(lambda: runs.relay.count(SET))
    ends += [asyncio.create_task(runs.end(run)) for run in made[1:]]
    await asyncio.sleep(0.1)
    runs.relay.go_on()
    runs.relay.hold(SET_ALL)
    await until(lambda: runs.relay.count(SET_ALL))
    runs.relay.cut()
    runs.relay.go_on()
    await told_by_others(runs, made)
    runs.relay.mend()
    await asyncio.gather(*ends)
    assert set((await runs.completed_events(made)).values()) == {1}


async def test_a_run_that_is_gone_keeps_no_other_from_its_state(runs: Runs) -> None:
    made = await runs.new(4)
    await runs.api.delete(f"/flow_runs/{made[2]}")
    answers = await runs.together(made, runs.reporter.propose_running)
    assert [answer is None for answer in answers] == [False, False, True, False]
    await runs.together(made, runs.end)
    for run in (made[0], made[1], made[3]):
        assert await runs.history(run) == ["SCHEDULED", "RUNNING", "COMPLETED"]


async def test_a_run_that_is_cancelled_meanwhile_does_not_start_and_ends_as_cancelled(
    runs: Runs,
) -> None:
    made = await runs.running(4)
    await propose(runs.api, made[2], "CANCELLING")
    answers = await runs.together(made, runs.reporter.propose_running)
    assert [answer.state for answer in answers] == ["RUNNING", "RUNNING", "CANCELLING", "RUNNING"]
    assert not answers[2].accepted
    await runs.together(made, runs.end)
    shown = [(await runs.api.get(f"/flow_runs/{run}"))["state"] for run in made]
    assert [state["type"] for state in shown] == ["COMPLETED"] * 2 + ["CANCELLED", "COMPLETED"]
    assert shown[2]["message"] == "exit code 0: success"


async def test_a_run_that_is_too_early_waits_by_itself(runs: Runs) -> None:
    early = await runs.new(1, datetime.now(UTC) + timedelta(seconds=8))
    made = await runs.new(3)
    began = time.monotonic()
    waiting = asyncio.create_task(runs.together([*made, *early], runs.reporter.propose_running))
    await until(lambda: runs.relay.count(SET_ALL))
    others = await runs.new(1)
    assert (await runs.reporter.propose_running(others[0])).accepted  # type: ignore[union-attr]
    assert [answer.accepted for answer in await waiting] == [True] * 4
    assert time.monotonic() - began > 1
    assert await runs.history(early[0]) == ["SCHEDULED", "RUNNING"]


@pytest.mark.parametrize("prefect_url", ["postgresql"], indirect=True)
async def test_a_run_that_prefect_fails_at_keeps_no_other_from_its_state(
    runs: Runs, prefect_url: str
) -> None:
    """It is deleted while Prefect gives the state to one after the other, the highest id first."""
    made = await runs.running(5)
    gone = min(made[1:])
    others = [run for run in made if run != gone]
    locked = [run for run in others if run != made[0]]
    url = DATABASES[prefect_url]
    with psycopg.connect(url) as locking, psycopg.connect(url, autocommit=True) as looking:
        locking.execute("SELECT 1 FROM flow_run WHERE id = ANY(%s) FOR UPDATE", (locked,))
        ending = asyncio.create_task(runs.together(made, runs.end))
        await until(lambda: looking.execute(WAITING_FOR_LOCKS).fetchone() != (0,))
        await runs.direct.delete(f"/flow_runs/{gone}")
    await ending
    assert runs.relay.count(f"/flow_runs/{gone}/set_state") == 1
    for run in others:
        assert await runs.history(run) == ["SCHEDULED", "RUNNING", "COMPLETED"]
    assert set((await runs.completed_events(others)).values()) == {1}


class OlderGateway(httpx.AsyncHTTPTransport):
    """The ordinary transport; calls for many at once are refused."""

    def __init__(self, status: int) -> None:
        super().__init__()
        self._status = status
        self.refused = 0

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        if request.url.path.endswith(SET_ALL):
            self.refused += 1
            return httpx.Response(self._status, json={"detail": "not here"})
        return await super().handle_async_request(request)


@pytest.mark.parametrize("status", [403, 404, 405])
async def test_who_refuses_calls_for_many_at_once_is_told_one_by_one_from_then_on(
    runs: Runs, status: int
) -> None:
    made, transport = await runs.new(5), OlderGateway(status)
    async with PrefectApi(runs.api.url, transport=transport) as api:
        reporter = StateReporter(api)
        answers = await runs.together(made, reporter.propose_running)
        assert [answer.accepted for answer in answers] == [True] * 5
        runs.reporter = reporter
        await runs.together(made, runs.end)
    assert transport.refused == 1
    assert set((await runs.completed_events(made)).values()) == {1}
