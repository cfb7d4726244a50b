"""Which of the runs that Prefect offers a worker starts, at a time that stands still."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID, uuid4

import pytest

from jobauto_prefect.clock import utc_now
from jobauto_prefect.engine.api import PAGE_SIZE, PrefectApi
from jobauto_prefect.engine.flow_runs import NewRun, create_run
from jobauto_prefect.engine.worker import dispatcher
from jobauto_prefect.engine.worker.dispatcher import (
    CLAIM_AHEAD_SECONDS,
    Dispatcher,
    PollTarget,
    WaitingRun,
)
from tests.support.waits import until

AHEAD = timedelta(seconds=CLAIM_AHEAD_SECONDS)
MILLISECOND = timedelta(milliseconds=1)


class Pool:
    """A work pool of a real Prefect with an urgent queue and one that can wait."""

    def __init__(self, api: PrefectApi) -> None:
        self.api = api
        self.name = f"pool-{uuid4()}"
        self.deployments: dict[str, UUID] = {}

    async def make(self) -> None:
        await self.api.post("/work_pools/", {"name": self.name, "type": "jobauto"})
        flow = await self.api.post("/flows/", {"name": self.name})
        for queue, priority in (("urgent", 5), ("patient", 9)):
            body: dict[str, Any] = {"name": queue, "priority": priority}
            await self.api.post(f"/work_pools/{self.name}/queues", body)
            body = {"name": queue, "flow_id": flow["id"]}
            body |= {"work_pool_name": self.name, "work_queue_name": queue}
            self.deployments[queue] = UUID((await self.api.post("/deployments/", body))["id"])

    async def add_run(self, queue: str, due: datetime) -> UUID:
        return await create_run(self.api, self.deployments[queue], NewRun("run", due, {}))


@pytest.fixture
async def pool(prefect_server: str) -> AsyncIterator[Pool]:
    """A work pool of the test's own."""
    async with PrefectApi(prefect_server) as api:
        made = Pool(api)
        await made.make()
        yield made


class Hands:
    """A dispatcher of a worker with some hands, whose runs go on until they are let go."""

    def __init__(self, pool: Pool, limit: int, now: datetime, avoid_seconds: float = 60) -> None:
        self.begun: list[UUID] = []
        self._avoid_seconds = avoid_seconds
        self._may_end = asyncio.Event()
        target = PollTarget(pool.name, limit=limit)
        self.dispatcher = Dispatcher(pool.api, target, self._handle, lambda: now)

    async def _handle(self, run: WaitingRun) -> float:
        self.begun.append(run.id)
        await self._may_end.wait()
        return self._avoid_seconds

    async def look(self, expected: Sequence[UUID]) -> None:
        """Look for runs; those expected are begun, and no other."""
        await self.dispatcher.poll()
        await until(lambda: len(self.begun) >= len(expected))
        assert self.begun == list(expected)

    async def let_go(self) -> None:
        """Let what goes on come to its end."""
        self._may_end.set()
        await self.dispatcher.wait_until_idle()


class LateApi(PrefectApi):
    """Answers once it may: by then an answer may be old."""

    def __init__(self, url: str) -> None:
        super().__init__(url)
        self.has_answer, self.may_answer = asyncio.Event(), asyncio.Event()

    async def post(self, path: str, body: Any) -> Any:
        answer = await super().post(path, body)
        self.has_answer.set()
        await self.may_answer.wait()
        return answer


async def test_a_run_that_ends_during_a_poll_is_not_begun_again(pool: Pool) -> None:
    now = utc_now()
    run = await pool.add_run("urgent", now)
    begun: list[UUID] = []
    may_end = asyncio.Event()

    async def handle(run: WaitingRun) -> float:
        begun.append(run.id)
        await may_end.wait()
        return 0

    async with LateApi(pool.api.url) as api:
        hands = Dispatcher(api, PollTarget(pool.name), handle, lambda: now)
        api.may_answer.set()
        await hands.poll()
        await until(lambda: begun)
        api.has_answer.clear()
        api.may_answer.clear()
        looking = asyncio.create_task(hands.poll())
        await api.has_answer.wait()
        may_end.set()
        await hands.wait_until_idle()
        api.may_answer.set()
        await looking
        await hands.wait_until_idle()
    assert begun == [run]


async def test_a_run_that_ends_after_a_poll_with_no_free_slot_is_not_begun_again(
    pool: Pool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(dispatcher, "FRESH_SECONDS", 600)
    now = utc_now()
    first = await pool.add_run("urgent", now - MILLISECOND)
    hands = Hands(pool, 1, now, avoid_seconds=0)
    await hands.look([first])
    second = await pool.add_run("urgent", now)
    await hands.dispatcher.poll()  # the answer has both
    await hands.let_go()
    await hands.dispatcher.start_due()
    await hands.let_go()
    assert hands.begun == [first, second]


async def test_a_run_is_begun_a_moment_before_it_is_due_and_no_sooner(pool: Pool) -> None:
    now = utc_now()
    soon = await pool.add_run("urgent", now + AHEAD)
    await pool.add_run("urgent", now + AHEAD + MILLISECOND)
    hands = Hands(pool, 5, now)
    await hands.look([soon])
    await hands.let_go()
    assert hands.begun == [soon]


async def test_what_is_due_comes_before_what_is_due_in_a_moment(pool: Pool) -> None:
    now = utc_now()
    soon = await pool.add_run("urgent", now + AHEAD / 2)
    due = await pool.add_run("patient", now - MILLISECOND)
    hands = Hands(pool, 1, now)
    await hands.look([due])
    await hands.let_go()
    await hands.look([due, soon])


def in_hand(due: datetime) -> WaitingRun:
    """A run that Prefect shows as running, and no longer as one that waits."""
    return WaitingRun(
        id=uuid4(), deployment_id=None, run_count=1, due=due, scheduled_for=due,
        auto_scheduled=False, idempotency_key=None, name="run", parameters={}, labels={},
    )  # fmt: skip


async def test_a_worker_with_more_runs_in_hand_than_prefect_tells_of_at_once_finds_the_next(
    pool: Pool,
) -> None:
    now = utc_now()
    hands = Hands(pool, 2 * PAGE_SIZE, now)
    running = [in_hand(now) for _ in range(PAGE_SIZE)]
    for run in running:
        hands.dispatcher.start(run)
    waiting = await pool.add_run("urgent", now)
    await hands.look([*(run.id for run in running), waiting])
    await hands.let_go()


async def test_where_all_that_prefect_tells_of_is_in_hand_it_is_not_asked_again_at_once(
    pool: Pool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(dispatcher, "PAGE_SIZE", 2)
    now = utc_now()
    known = [await pool.add_run("urgent", now) for _ in range(2)]
    await pool.add_run("patient", now)
    hands = Hands(pool, 5, now)
    await hands.look(known)
    hands.dispatcher.wake()
    await asyncio.wait_for(hands.dispatcher.start_due(), 60)
    await hands.look(known)
    await hands.let_go()


async def test_an_end_asks_for_what_it_gives_room_for_once_the_last_answer_is_old(
    pool: Pool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(dispatcher, "FRESH_SECONDS", 2.0)
    now = utc_now()
    first = await pool.add_run("urgent", now)
    hands = Hands(pool, 2, now)
    hands.dispatcher.wake()
    running = asyncio.create_task(hands.dispatcher.run())
    await until(lambda: hands.begun == [first])
    second = await pool.add_run("urgent", now)  # as if a limit had kept it out of the answer
    await hands.let_go()
    await until(lambda: hands.begun == [first, second])
    hands.dispatcher.stop()
    await running
