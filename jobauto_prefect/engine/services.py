"""What runs beside the facade: outbox, window keeper, reaper of leases, reconciler with Prefect."""

import asyncio
import contextlib
import logging
from collections import Counter
from collections.abc import Awaitable, Callable
from datetime import datetime, timedelta
from functools import partial

import httpx

from jobauto_prefect import certificates
from jobauto_prefect.engine.ahead import Ahead
from jobauto_prefect.engine.api import PrefectApi, own_authorization
from jobauto_prefect.engine.delivering import deliver_all
from jobauto_prefect.engine.emitting import Emitter
from jobauto_prefect.engine.flow_records import clear_retired
from jobauto_prefect.engine.inspection import Inspection
from jobauto_prefect.engine.keeper import Keeper, Lookout
from jobauto_prefect.engine.neighbours import Neighbours
from jobauto_prefect.engine.pruning import Pruner
from jobauto_prefect.engine.reconciler import Reconciler
from jobauto_prefect.engine.unclaimed import UnclaimedRuns
from jobauto_prefect.engine.wishes import Carrier, look_ahead
from jobauto_prefect.errors import Conflict, JobautoError
from jobauto_prefect.jobs.actions import act_all
from jobauto_prefect.jobs.loss import lose
from jobauto_prefect.jobs.timetable import Timetable, timetable_of
from jobauto_prefect.jobs.watch import Watch
from jobauto_prefect.jobs.windows import follow_zone
from jobauto_prefect.ledger import notices, queries, services_status
from jobauto_prefect.ledger.agenda import Topic
from jobauto_prefect.ledger.answers import forget_old_answers
from jobauto_prefect.ledger.audit import SERVICE
from jobauto_prefect.ledger.keeping import wish_missing_flows
from jobauto_prefect.ledger.records import Lease
from jobauto_prefect.ledger.seals import Sealer
from jobauto_prefect.ledger.store import Ledger
from jobauto_prefect.ledger.wishes import WishKind, wish
from jobauto_prefect.ledger.workers import forget_silent
from jobauto_prefect.monitoring.loops import Loop, Loops
from jobauto_prefect.runtime.protocol import Ending, Report
from jobauto_prefect.settings import Settings

logger = logging.getLogger(__name__)

RECONCILE_SECONDS = 15.0
CLEANING_SECONDS = 600.0
DRIFT_SECONDS = 60.0
PRUNING_SECONDS = 3600.0
FIRST_PRUNING_SECONDS = 60.0
PRUNING_ROUND_SECONDS = 20.0
SEAL_SECONDS = 7.0
SEAL_LOOKS = 10
SEAL_LOOK_SECONDS = 0.2
"""An entry is in a seal within 10 seconds of its commit."""

SIGN_SECONDS = 15.0
REAPS_PER_LEASE = 10
LOOKOUT_SECONDS = 10.0
WATCH_SECONDS = 15.0
AHEAD_SECONDS = 30.0


async def run_services(
    settings: Settings,
    ledger: Ledger,
    timetable: Timetable | None = None,
    loops: Loops | None = None,
) -> None:
    """Run all services until cancelled; each is safe to run twice at once.

    `timetable` says when there is something to do; it is run here. `loops` are told what turns.
    """
    loops = loops or Loops()
    timetable = timetable or timetable_of(ledger, settings)
    wanted = timetable.wanted
    await asyncio.to_thread(follow_zone, ledger, settings)
    authorization = own_authorization(ledger.box)
    async with (
        PrefectApi(settings.prefect_api_url, authorization=authorization) as prefect,
        httpx.AsyncClient(
            base_url=settings.url, timeout=2, verify=certificates.are_needed(settings.url)
        ) as facade,
        asyncio.TaskGroup() as tasks,
    ):
        near = Neighbours(ledger, prefect, settings)
        await asyncio.to_thread(_wish_missing_flows, ledger)
        reaper = Reaper(ledger, settings, facade)
        carrier = Carrier(near)
        keeper = Keeper(ledger, carrier.wake)
        tasks.create_task(timetable.run())
        tasks.create_task(carrier.run())
        act = partial(act_all, ledger, settings, carrier.wake)
        wanted_work: dict[Topic, Callable[[], Awaitable[None]]] = {
            Topic.OUTBOX: in_loop(carrier.wake),
            Topic.WINDOWS: in_thread(keeper.open_due),
            Topic.TASKS: in_thread(keeper.settle_due),
            Topic.EVENTS: Emitter(ledger, prefect).emit_all,
            Topic.DELIVERIES: partial(deliver_all, near),
            Topic.ACTIONS: act,
        }
        for topic, work in wanted_work.items():
            tasks.create_task(_whenever(wanted[topic], work, loops.loop(topic)))
        for name, seconds, work in (
            ("lookout", LOOKOUT_SECONDS, Lookout(near).look),
            ("ahead", AHEAD_SECONDS, partial(look_ahead, near, Ahead(near))),
            ("reaper", settings.lease_seconds / REAPS_PER_LEASE, reaper.reap),
            ("reconciler", RECONCILE_SECONDS, Reconciler(near).reconcile),
            ("unclaimed", RECONCILE_SECONDS, UnclaimedRuns(near, reaper.answers).look),
            ("drift", DRIFT_SECONDS, Inspection(near).go_on),
            ("seal", SEAL_SECONDS, partial(_seal, Sealer(ledger))),
            ("sign", SIGN_SECONDS, in_thread(partial(_sign, ledger))),
            ("watch", WATCH_SECONDS, in_thread(Watch(ledger, settings).look)),
            ("clean", CLEANING_SECONDS, in_thread(partial(_clean, ledger))),
            ("retired", CLEANING_SECONDS, partial(clear_retired, near)),
        ):
            tasks.create_task(_every(seconds, work, loops.loop(name)))
        tasks.create_task(_prune(Pruner(near), loops.loop("retention")))


async def _seal(sealer: Sealer) -> None:
    """Seal what is in the audit trail; entries of transactions that go on are left for later."""
    for _ in range(SEAL_LOOKS):
        if await asyncio.to_thread(sealer.seal):
            return
        await asyncio.sleep(SEAL_LOOK_SECONDS)


def _wish_missing_flows(ledger: Ledger) -> None:
    with ledger.writing(SERVICE) as session:
        wish_missing_flows(session)


def _sign(ledger: Ledger) -> None:
    with ledger.writing(SERVICE) as session:
        services_status.sign(session)


async def _prune(pruner: Pruner, loop: Loop) -> None:
    """Let go of what is kept no longer, once those who wait for the services have been served."""
    wait = FIRST_PRUNING_SECONDS

    async def sweep() -> None:
        nonlocal wait
        wait = PRUNING_SECONDS
        tally = await pruner.prune(PRUNING_ROUND_SECONDS)
        gone = Counter(kind for kind, _ in tally.counts.elements())
        if gone:
            logger.info("kept no longer: %s", ", ".join(f"{n} {kind}" for kind, n in gone.items()))
        if not tally.is_complete:
            wait = 0.0

    while True:
        await asyncio.sleep(wait)
        await _attempt(sweep, loop)


def _clean(ledger: Ledger) -> None:
    """Let go of what is kept no longer."""
    with ledger.writing(SERVICE) as session:
        forget_old_answers(session)
        forget_silent(session)
        notices.forget_old(session)


def in_thread(work: Callable[[], None]) -> Callable[[], Awaitable[None]]:
    """The same work, where it holds nothing else up."""
    return lambda: asyncio.to_thread(work)


def in_loop(work: Callable[[], None]) -> Callable[[], Awaitable[None]]:
    """The same work, for those who wait for what they call."""

    async def do() -> None:
        work()

    return do


async def _whenever(wanted: asyncio.Event, work: Callable[[], Awaitable[None]], loop: Loop) -> None:
    """Each time it is wanted; what fails is wanted again soon."""
    while True:
        await wanted.wait()
        wanted.clear()
        await _attempt(work, loop)


async def _every(seconds: float, work: Callable[[], Awaitable[None]], loop: Loop) -> None:
    """Again and again."""
    while True:
        await _attempt(work, loop)
        await asyncio.sleep(seconds)


async def _attempt(work: Callable[[], Awaitable[None]], loop: Loop) -> None:
    try:
        with loop.round():
            await work()
    except JobautoError as error:
        logger.warning("%s", error)
    except Exception:
        logger.exception("a service failed; it goes on")


class Reaper:
    """Finds the jobs whose worker has given no sign of life for one lease.

    Lease time counts only while the claims API answers: a worker that can't reach it is not
    silent by its own fault. After an outage of the facade, of the database or of this process
    every job has one full lease again.
    """

    def __init__(self, ledger: Ledger, settings: Settings, facade: httpx.AsyncClient) -> None:
        self._ledger = ledger
        self._settings = settings
        self._lease = timedelta(seconds=settings.lease_seconds)
        self._facade = facade
        self._answering_since: datetime | None = None
        self._looked_at: datetime | None = None

    async def reap(self) -> None:
        """Look once."""
        now = self._ledger.clock()
        if not await self.answers() or self._was_away(now):
            self._answering_since = None
        self._looked_at = now
        if self._answering_since is None:
            self._answering_since = now
        elif now - self._answering_since >= self._lease:
            await self._reap_before(now - self._lease)

    async def answers(self) -> bool:
        """Whether the claims API answers."""
        try:
            answer = await self._facade.get("/api/v1/ping.json")
        except httpx.HTTPError:
            return False
        return answer.is_success

    def _was_away(self, now: datetime) -> bool:
        return self._looked_at is None or now - self._looked_at > self._lease / 2

    async def _reap_before(self, instant: datetime) -> None:
        try:
            expired = await asyncio.to_thread(self._expired, instant)
        except JobautoError:
            self._answering_since = None
            raise
        for lease in expired:
            await asyncio.to_thread(self._settle_lost, lease, instant)

    def _expired(self, instant: datetime) -> list[Lease]:
        with self._ledger.reading() as session:
            return list(queries.leases_older_than(session, instant))

    def _settle_lost(self, lease: Lease, instant: datetime) -> None:
        report = Report(
            claim_id=lease.claim_id,
            worker=lease.worker,
            ending=Ending.LOST,
            message=f"no sign of life of its worker since {lease.renewed_at.isoformat()}",
            ended_at=self._ledger.clock(),
        )
        with contextlib.suppress(Conflict), self._ledger.writing(SERVICE) as session:
            held = session.get(Lease, lease.job_id)
            if held is None or held.renewed_at >= instant:
                return  # it was renewed, or its job ended, since we looked
            job = queries.job_with_context(session, lease.job_id)
            lose(session, job, report, self._settings)
            wish(session, WishKind.SHOW_JOB, job.id)
            logger.warning("job %s is lost: %s", job.id, report.message)
