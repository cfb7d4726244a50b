"""When to ask Prefect for waiting flow runs, and which of them to start."""

import asyncio
import contextlib
import logging
from collections import deque
from collections.abc import Awaitable, Callable, Collection, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any
from urllib.parse import quote
from uuid import UUID

from jobauto_prefect.clock import Clock
from jobauto_prefect.engine.api import PAGE_SIZE, PrefectApi
from jobauto_prefect.errors import JobautoError, NotFound
from jobauto_prefect.jobs.isolation import apart

logger = logging.getLogger(__name__)

FRESH_SECONDS = 1.0
"""How long an answer of Prefect is used before polling again: a burst of runs must not cost one
request each."""

CLAIM_AHEAD_SECONDS = 0.25
"""How early a run is claimed; its process then waits until the run is due. Claim and Running take
70 ms, twice that if several runs are due at once. Less than the ledger grants."""

ASK_AHEAD_SECONDS = 0.4
"""How long before a claim Prefect is polled again, so that the answer is there when the run is due.
"""

CROWD_SECONDS = 0.1
"""Minimum poll interval while runs are active: a burst's announcements must not cost one request
each."""

UNSEEN_SECONDS = (0.02, 0.1, 0.4, 2.0)
"""Delays before polling again for an announced run that can't be read yet."""

AWAY_SECONDS = 1.0  # until the next poll after Prefect did not answer
AT_LEAST = 50  # runs asked for at once


@dataclass(frozen=True, slots=True)
class WaitingRun:
    """A scheduled flow run as its work pool offers it.

    `due` is when it may start, `scheduled_for` when it was first meant to: a retry is due later.
    `changed_at` is when Prefect last changed it; None: not known. `deployment_id` is None for a run
    that nobody made from a deployment. Only the ids of an `announced` run are known.
    """

    id: UUID
    deployment_id: UUID | None
    run_count: int
    due: datetime
    scheduled_for: datetime
    auto_scheduled: bool
    idempotency_key: str | None
    name: str
    parameters: Mapping[str, Any] = field(repr=False)
    labels: Mapping[str, Any] = field(repr=False)
    tags: tuple[str, ...] = ()
    announced: bool = False
    changed_at: datetime | None = None


async def waiting_runs(
    api: PrefectApi, pool: str, queues: Collection[str], before: datetime, limit: int
) -> list[WaitingRun]:
    """Return what a worker of the pool may start up to an instant, the most urgent first.

    At most `limit` runs, and no more than the free slots of pool and queues; without `queues`,
    those of all queues.

    Raises:
        NotFound: there is no such work pool.
    """
    query = {"scheduled_before": before.isoformat(), "limit": limit}
    if queues:
        query["work_queue_names"] = sorted(queues)
    path = f"/work_pools/{quote(pool, safe='')}/get_scheduled_flow_runs"
    runs = list[WaitingRun]()
    for entry in await api.post(path, query):
        with apart(f"flow run {entry['flow_run']['id']}"):
            runs.append(_run(entry["flow_run"]))
    return runs


def _run(flow_run: Mapping[str, Any]) -> WaitingRun:
    due = datetime.fromisoformat(flow_run["next_scheduled_start_time"])
    first = flow_run.get("expected_start_time")
    changed = flow_run.get("updated")
    return WaitingRun(
        id=UUID(flow_run["id"]),
        deployment_id=UUID(flow_run["deployment_id"]) if flow_run.get("deployment_id") else None,
        run_count=flow_run["run_count"],
        due=due,
        scheduled_for=datetime.fromisoformat(first) if first else due,
        auto_scheduled=bool(flow_run.get("auto_scheduled")),
        idempotency_key=flow_run.get("idempotency_key"),
        name=flow_run.get("name") or "",
        parameters=flow_run.get("parameters") or {},
        labels=flow_run.get("labels") or {},
        tags=tuple(flow_run.get("tags") or ()),
        changed_at=datetime.fromisoformat(changed) if changed else None,
    )


Handle = Callable[[WaitingRun], Awaitable[float]]
"""Drives a run to its end; returns how many seconds not to retry it, or `UNKNOWN`."""

UNKNOWN = -1.0
"""The ids of an announced run are not enough: poll Prefect for it."""


@dataclass(frozen=True, slots=True)
class PollTarget:
    """What a worker serves. No queues: all of the pool; no limit: any number of runs.

    `lookahead_seconds` is how far ahead it looks, to know when to wake up.
    """

    pool: str
    queues: Collection[str] = ()
    limit: int | None = None
    lookahead_seconds: float = 20


class Dispatcher:
    """Runs as many runs as the limit allows. `wake`, `announce` and `drop` never block.

    While not `is_able` to start runs, it does not poll either; `wake` it afterwards. While it
    `hears_all`, events announce all waiting runs, so the end of a run is no reason to poll. A run
    that `is_stray` only has to be ended: it does not count towards the limit.
    """

    def __init__(
        self,
        api: PrefectApi,
        target: PollTarget,
        handle: Handle,
        clock: Clock,
        *,
        is_able: Callable[[], bool] = lambda: True,
        hears_all: Callable[[], bool] = lambda: False,
        is_stray: Callable[[WaitingRun], bool] = lambda _: False,
    ) -> None:
        self._api = api
        self._target = target
        self._handle = handle
        self._clock = clock
        self._is_able = is_able
        self._hears_all = hears_all
        self._is_stray = is_stray
        self._wanted = asyncio.Event()
        self._looking = asyncio.Lock()
        self._offered: deque[WaitingRun] = deque()
        self._asked_at = self._ended_at = float("-inf")
        self._answer_was_full = False
        self._next_due: datetime | None = None
        self._unseen: set[UUID] = set()
        self._unseen_looks = 0
        self._avoided: dict[UUID, float] = {}
        self._paused_until = float("-inf")
        self._in_hand: dict[UUID, asyncio.Task[None]] = {}
        self._ended_meanwhile: set[UUID] = set()  # since the last poll began
        self._aside: set[UUID] = set()
        self._complained = False
        self.stopped = False

    def wake(self) -> None:
        """Poll now."""
        self._asked_at = float("-inf")
        self._wanted.set()

    def announce(self, flow_run_id: UUID) -> None:
        """Note that this run waits, now or later, and poll for it."""
        if flow_run_id not in self._in_hand:
            self._unseen.add(flow_run_id)
            self._unseen_looks = 0
            self._wanted.set()

    def start(self, run: WaitingRun) -> None:
        """Start an announced run; if that is not possible, poll for it.

        Runs that already wait come first: Prefect decides which is next.
        """
        if run.id in self._in_hand:
            return
        now = self._clock()
        others = any(other.due <= now for other in self._offered)
        if self._may_start() and not others and run.id not in self._avoided:
            self.drop(run.id)
            self._begin(run)
        else:
            self.announce(run.id)

    def drop(self, flow_run_id: UUID) -> None:
        """Forget a run that no longer waits."""
        kept = [run for run in self._offered if run.id != flow_run_id]
        self._offered = deque(kept)
        self._unseen.discard(flow_run_id)

    def pause(self, seconds: float) -> None:
        """Start no runs for this many seconds."""
        self._paused_until = max(self._paused_until, self._time() + seconds)

    def stop(self) -> None:
        """Stop starting runs; let active runs finish."""
        self.stopped = True
        self._wanted.set()

    async def run(self) -> None:
        """Look whenever there is a reason, until stopped."""
        while not self.stopped:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(self._seconds_to_next()):
                    await self._wanted.wait()
            self._wanted.clear()
            await self.start_due()

    async def start_due(self) -> None:
        """Start what is due, up to the limit, from a fresh answer of Prefect."""
        async with self._looking:
            while self._may_start():
                if self._must_ask():
                    await self._poll()
                self._start_offered()
                if not self._more_may_wait():
                    return

    async def poll(self) -> None:
        """Poll Prefect even if nothing can be started: its UI then shows the queue as polled."""
        if not self._is_able():
            return
        async with self._looking:
            await self._poll()
            if self._may_start():
                self._start_offered()
        self._wanted.set()

    async def wait_until_idle(self) -> None:
        """Return when no runs are active."""
        while self._in_hand:
            await asyncio.wait(list(self._in_hand.values()))

    async def abandon(self) -> None:
        """Cancel the active runs."""
        tasks = list(self._in_hand.values())
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def _time(self) -> float:
        return asyncio.get_running_loop().time()

    def _free(self) -> bool:
        limit = self._target.limit
        return limit is None or len(self._in_hand) - len(self._aside) < limit

    def _paused_for(self) -> float:
        return self._paused_until - self._time()

    def _may_start(self) -> bool:
        return not self.stopped and self._paused_for() <= 0 and self._free() and self._is_able()

    def _must_ask(self) -> bool:
        if self._more_may_wait():
            return True
        if self._time() - self._asked_at > FRESH_SECONDS:
            is_woken = self._asked_at == float("-inf")
            return is_woken or bool(self._unseen or self._offered) or not self._hears_all()
        if self._in_hand and self._time() - self._asked_at < CROWD_SECONDS:
            return False
        now = self._clock()
        return bool(self._unseen) and not any(run.due <= now for run in self._offered)

    def _more_may_wait(self) -> bool:
        """Whether the last answer was truncated by its limit, and all of it has been used."""
        return self._answer_was_full and not self._offered

    def _seconds_to_next(self) -> float | None:
        """Return the seconds until there is something to do; None: only when woken."""
        if self._paused_for() > 0:
            return self._paused_for()
        moments = []
        if self._free() and self._is_able():
            if self._unseen:
                looks = min(self._unseen_looks, len(UNSEEN_SECONDS) - 1)
                pause = max(UNSEEN_SECONDS[looks], CROWD_SECONDS if self._in_hand else 0)
                moments.append(self._asked_at + pause - self._time())
            if self._ended_at > self._asked_at and not self._hears_all():
                moments.append(self._asked_at + FRESH_SECONDS - self._time())
            if self._next_due is not None:
                # Poll once more before claiming a run that has been known for long.
                seconds = (self._next_due - self._clock()).total_seconds() - CLAIM_AHEAD_SECONDS
                age = self._time() - self._asked_at
                moments.append(
                    seconds if age + seconds <= FRESH_SECONDS else seconds - ASK_AHEAD_SECONDS
                )
        return max(0.0, min(moments)) if moments else None

    async def _poll(self) -> None:
        limit = min(PAGE_SIZE, AT_LEAST + len(self._in_hand) + len(self._avoided))
        before = self._clock() + timedelta(seconds=self._target.lookahead_seconds)
        self._ended_meanwhile.clear()
        try:
            answer = await waiting_runs(
                self._api, self._target.pool, self._target.queues, before, limit
            )
        except JobautoError as error:
            if not isinstance(error, NotFound) and not self._complained:
                logger.warning("can't ask for waiting flow runs: %s", error)
                self._complained = True
            self._answer_was_full = False
            self.pause(AWAY_SECONDS)
            return
        self._complained = False
        self._asked_at = self._time()
        waiting = [run for run in answer if run.id not in self._ended_meanwhile]
        self._offered = deque(waiting)
        told = {run.id for run in waiting}
        has_new = bool(told - self._in_hand.keys() - self._avoided.keys())
        self._answer_was_full = has_new and len(answer) >= limit
        self._unseen -= told | self._in_hand.keys()
        self._unseen_looks += 1
        if self._unseen_looks > len(UNSEEN_SECONDS):
            self._unseen.clear()  # they wait for a later time, or another worker has them

    def _start_offered(self) -> None:
        """Start what is due; use free slots for what is due in a moment."""
        self._avoided = {run: until for run, until in self._avoided.items() if until > self._time()}
        now = self._clock()
        self._start_offered_until(now)
        self._start_offered_until(now + timedelta(seconds=CLAIM_AHEAD_SECONDS))
        self._next_due = min((run.due for run in self._offered), default=None)

    def _start_offered_until(self, instant: datetime) -> None:
        later: list[WaitingRun] = []
        while self._offered and self._free():
            run = self._offered.popleft()
            if run.id in self._in_hand or run.id in self._avoided:
                continue
            if run.due > instant:
                later.append(run)
            else:
                self._begin(run)
        self._offered.extendleft(reversed(later))

    def _begin(self, run: WaitingRun) -> None:
        task = asyncio.create_task(self._work(run))
        self._in_hand[run.id] = task
        if self._is_stray(run):
            self._aside.add(run.id)

    async def _work(self, run: WaitingRun) -> None:
        try:
            avoid_seconds = await self._handle(run)
        except Exception:
            logger.exception("flow run %s failed in this worker", run.id)
            avoid_seconds = 60
        finally:
            del self._in_hand[run.id]
            # Answers older than this end still list the run: it would be claimed a second time.
            self.drop(run.id)
            self._ended_meanwhile.add(run.id)
            self._aside.discard(run.id)
            self._ended_at = self._time()
            self._wanted.set()
        if avoid_seconds == UNKNOWN:
            self.announce(run.id)
        elif avoid_seconds:
            self._avoided[run.id] = self._time() + avoid_seconds
