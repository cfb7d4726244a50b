"""The services beside the facade: outbox worker, window scheduler, lease reaper, reconciler."""

import asyncio
import contextlib
import logging
from collections import Counter
from collections.abc import Awaitable, Callable, Sequence
from datetime import datetime, timedelta
from functools import partial

import httpx

from jobauto_prefect import certificates
from jobauto_prefect.engine.api import PrefectApi, own_authorization
from jobauto_prefect.engine.context import EngineContext
from jobauto_prefect.engine.outbox_worker import OutboxWorker
from jobauto_prefect.engine.services.event_dispatch import dispatch_all
from jobauto_prefect.engine.services.event_emitter import EventEmitter
from jobauto_prefect.engine.services.reconciler import Reconciler, RunningRuns
from jobauto_prefect.engine.services.retention import Pruner
from jobauto_prefect.engine.services.window_scheduler import MissingRunMonitor, WindowScheduler
from jobauto_prefect.engine.sync.application_flows import delete_unused_flows
from jobauto_prefect.engine.sync.drift_monitor import DriftMonitor
from jobauto_prefect.engine.sync.template_deployments import look_ahead
from jobauto_prefect.engine.sync.upcoming_runs import UpcomingRuns
from jobauto_prefect.errors import Conflict, JobautoError
from jobauto_prefect.jobs.actions import run_due_actions
from jobauto_prefect.jobs.isolation import apart
from jobauto_prefect.jobs.outcome.loss import mark_lost
from jobauto_prefect.jobs.overruns import OverrunMonitor
from jobauto_prefect.jobs.timetable import Timetable, timetable_of
from jobauto_prefect.jobs.windows.due_windows import follow_zone
from jobauto_prefect.jobs.windows.schedulers import follow_scheduler
from jobauto_prefect.ledger import notices, parts, service_status
from jobauto_prefect.ledger.audit.seals import Sealer
from jobauto_prefect.ledger.audit.trail import SERVICE, WritingSession
from jobauto_prefect.ledger.idempotency import delete_expired
from jobauto_prefect.ledger.jobs import workers
from jobauto_prefect.ledger.jobs.windows import enqueue_missing_flows
from jobauto_prefect.ledger.outbox import OutboxKind, enqueue
from jobauto_prefect.ledger.queries.agenda import Topic
from jobauto_prefect.ledger.queries.jobs import (
    job_with_context,
    leases_older_than,
    oldest_renewal,
)
from jobauto_prefect.ledger.records import Lease
from jobauto_prefect.ledger.store import Ledger
from jobauto_prefect.ledger.tallies import fold_tallies
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
"""These make sure that an entry is in a seal within 10 seconds of its commit."""

SIGN_SECONDS = 15.0
TALLY_SECONDS = 60.0
REAPS_PER_LEASE = 10
REAPS_PER_LEASE_IDLE = 3
"""While there are no leases: one granted between two looks has not expired by the next."""

SCHEDULER_SECONDS = 60.0
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

    `timetable` says when there is something to do; it is run here. `loops` track the services'
    loops.
    """
    loops = loops or Loops()
    timetable = timetable or timetable_of(ledger, settings)
    wanted = timetable.wanted
    await asyncio.to_thread(follow_zone, ledger, settings)
    authorization = own_authorization(ledger.box)
    verify = await asyncio.to_thread(certificates.verification, settings.facade)
    async with (
        PrefectApi(settings.prefect_api_url, authorization=authorization) as prefect,
        httpx.AsyncClient(base_url=settings.facade, timeout=2, verify=verify) as facade,
        asyncio.TaskGroup() as tasks,
    ):
        context = EngineContext(ledger, prefect, settings)
        await context.write(enqueue_missing_flows)
        reaper = Reaper(ledger, settings, facade)
        outbox_worker = OutboxWorker(context)
        scheduler = WindowScheduler(ledger, outbox_worker.wake)
        tasks.create_task(timetable.run())
        tasks.create_task(outbox_worker.run())
        act = partial(run_due_actions, ledger, settings, outbox_worker.wake)
        wanted_work: dict[Topic, Callable[[], Awaitable[None]]] = {
            Topic.OUTBOX: as_coroutine(outbox_worker.wake),
            Topic.WINDOWS: as_thread_call(scheduler.open_due),
            Topic.TASKS: as_thread_call(scheduler.settle_due),
            Topic.EVENTS: EventEmitter(ledger, prefect).emit_all,
            Topic.DELIVERIES: partial(dispatch_all, context),
            Topic.ACTIONS: act,
        }
        for topic, work in wanted_work.items():
            tasks.create_task(_run_when_wanted(wanted[topic], work, loops.loop(topic)))
        for name, seconds, work in (
            ("scheduler", SCHEDULER_SECONDS, partial(context.write, follow_scheduler, settings)),
            ("lookout", LOOKOUT_SECONDS, MissingRunMonitor(context).look),
            ("ahead", AHEAD_SECONDS, partial(look_ahead, context, UpcomingRuns(context))),
            ("reaper", settings.lease_seconds / REAPS_PER_LEASE, reaper.reap),
            ("reconciler", RECONCILE_SECONDS, Reconciler(context).reconcile),
            ("unclaimed", RECONCILE_SECONDS, RunningRuns(context, reaper.answers).look),
            ("drift", DRIFT_SECONDS, DriftMonitor(context).check_next),
            ("seal", SEAL_SECONDS, partial(_seal, Sealer(ledger))),
            ("tallies", TALLY_SECONDS, as_thread_call(partial(fold_tallies, ledger))),
            ("sign", SIGN_SECONDS, partial(context.write, service_status.record_heartbeat)),
            ("watch", WATCH_SECONDS, as_thread_call(OverrunMonitor(ledger, settings).look)),
            ("clean", CLEANING_SECONDS, partial(context.write, _delete_expired)),
            ("retired", CLEANING_SECONDS, partial(delete_unused_flows, context)),
        ):
            tasks.create_task(_run_every(seconds, work, loops.loop(name)))
        tasks.create_task(_prune(Pruner(context), loops.loop("retention")))


async def _seal(sealer: Sealer) -> None:
    """Seal the audit entries; those of open transactions are left for later."""
    for _ in range(SEAL_LOOKS):
        if await asyncio.to_thread(sealer.seal):
            return
        await asyncio.sleep(SEAL_LOOK_SECONDS)


async def _prune(pruner: Pruner, loop: Loop) -> None:
    """Delete expired data; wait first, so that more urgent work is done before."""
    wait = FIRST_PRUNING_SECONDS

    async def sweep() -> None:
        nonlocal wait
        wait = PRUNING_SECONDS
        tally = await pruner.prune(PRUNING_ROUND_SECONDS)
        gone = Counter(kind for kind, _ in tally.counts.elements())
        if gone:
            logger.info("pruned %s", ", ".join(f"{n} {kind}" for kind, n in gone.items()))
        if not tally.is_complete:
            wait = 0.0

    while True:
        await asyncio.sleep(wait)
        await _run_once(sweep, loop)


def _delete_expired(session: WritingSession) -> None:
    """Delete expired idempotency records, silent workers and parts, and old notices."""
    delete_expired(session)
    workers.forget_silent(session)
    parts.forget_silent(session)
    notices.delete_old(session)


def as_thread_call(work: Callable[[], None]) -> Callable[[], Awaitable[None]]:
    """Wrap blocking work to run in a thread."""
    return lambda: asyncio.to_thread(work)


def as_coroutine(work: Callable[[], None]) -> Callable[[], Awaitable[None]]:
    """Wrap quick work as a coroutine function."""

    async def do() -> None:
        work()

    return do


async def _run_when_wanted(
    wanted: asyncio.Event, work: Callable[[], Awaitable[None]], loop: Loop
) -> None:
    """Run `work` each time `wanted` is set; log errors and continue."""
    while True:
        await wanted.wait()
        wanted.clear()
        await _run_once(work, loop)


async def _run_every(seconds: float, work: Callable[[], Awaitable[None]], loop: Loop) -> None:
    """Run `work` every `seconds`; log errors and continue."""
    while True:
        await _run_once(work, loop)
        await asyncio.sleep(seconds)


async def _run_once(work: Callable[[], Awaitable[None]], loop: Loop) -> None:
    try:
        with loop.round():
            await work()
    except JobautoError as error:
        logger.warning("%s", error)
    except Exception:
        logger.exception("a service failed; it will be retried")


class Reaper:
    """Finds the jobs whose worker has not renewed its lease in time.

    Lease time counts only while the claims API answers: a worker that can't reach it is not at
    fault. After an outage of the facade, of the database or of this process every job gets one full
    lease.
    """

    def __init__(self, ledger: Ledger, settings: Settings, facade: httpx.AsyncClient) -> None:
        self._ledger = ledger
        self._settings = settings
        self._lease = timedelta(seconds=settings.lease_seconds)
        self._facade = facade
        self._answering_since: datetime | None = None
        self._silent_since: datetime | None = None
        self._complained = False
        self._looked_at: datetime | None = None
        self._are_leases_held = True

    async def reap(self) -> None:
        """Mark jobs lost whose lease has expired; look less often while there are no leases."""
        now = self._ledger.clock()
        idle = now - self._looked_at if self._looked_at is not None else None
        pause = self._lease / REAPS_PER_LEASE_IDLE
        if idle is not None and idle < pause and not self._are_leases_held:
            return
        was_away = idle is None or idle > self._lease / 2
        answers = await self.answers()
        if not answers or was_away:
            self._answering_since = None
        self._warn_of_silence(answers, now)
        self._looked_at = now
        if self._answering_since is None:
            self._answering_since = now
        elif now - self._answering_since >= self._lease:
            instant = now - self._lease
            try:
                expired = await asyncio.to_thread(self._expired, instant)
            except JobautoError:
                self._answering_since = None
                raise
            for lease in expired:
                with apart(f"job {lease.job_id}"):
                    await asyncio.to_thread(self._settle_lost, lease, instant)

    def _warn_of_silence(self, answers: bool, now: datetime) -> None:
        if answers:
            self._silent_since, self._complained = None, False
        elif self._silent_since is None:
            self._silent_since = now
        elif now - self._silent_since >= self._lease and not self._complained:
            self._complained = True
            logger.warning(
                "jobs of dead workers stay running: the facade does not answer at %s; set"
                " JOBAUTO_FACADE_URL to an address that the services reach",
                self._settings.facade,
            )

    async def answers(self) -> bool:
        """Whether the claims API answers."""
        try:
            answer = await self._facade.get("/api/v1/ping.json")
        except httpx.HTTPError:
            return False
        return answer.is_success

    def _expired(self, instant: datetime) -> Sequence[Lease]:
        with self._ledger.reading() as session:
            oldest = oldest_renewal(session)
            self._are_leases_held = oldest is not None
            if oldest is None or oldest >= instant:
                return ()
            return leases_older_than(session, instant)

    def _settle_lost(self, lease: Lease, instant: datetime) -> None:
        report = Report(
            claim_id=lease.claim_id,
            worker=lease.worker,
            ending=Ending.LOST,
            message=f"no sign of life of its worker since {lease.renewed_at:%Y-%m-%d %H:%M:%S} UTC",
            ended_at=self._ledger.clock(),
        )
        with contextlib.suppress(Conflict), self._ledger.writing(SERVICE) as session:
            held = session.get(Lease, lease.job_id)
            if held is None or held.renewed_at >= instant:
                return  # the lease was renewed, or the job ended, meanwhile
            job = job_with_context(session, lease.job_id)
            mark_lost(session, job, report, self._settings)
            enqueue(session, OutboxKind.SHOW_JOB, job.id)
            logger.warning("job %s is lost: %s", job.id, report.message)
