"""What runs beside the facade: outbox, window keeper, reaper of leases, reconciler with Prefect."""

import asyncio
import contextlib
import logging
from collections.abc import Awaitable, Callable
from datetime import datetime, timedelta
from uuid import UUID

import httpx

from jobauto_prefect.engine.acting import act_all
from jobauto_prefect.engine.api import PrefectApi, own_authorization
from jobauto_prefect.engine.delivering import deliver_all
from jobauto_prefect.engine.emitting import Emitter
from jobauto_prefect.engine.inspection import Inspection
from jobauto_prefect.engine.keeper import Keeper, Lookout
from jobauto_prefect.engine.neighbours import Neighbours
from jobauto_prefect.engine.opening import follow_zone
from jobauto_prefect.engine.runs import PAGE, states_of
from jobauto_prefect.engine.settling import lose
from jobauto_prefect.engine.wishes import Carrier, show_end
from jobauto_prefect.errors import Conflict, JobautoError
from jobauto_prefect.ledger import jobs, queries
from jobauto_prefect.ledger.answers import forget_old_answers
from jobauto_prefect.ledger.audit import SERVICE
from jobauto_prefect.ledger.records import Lease
from jobauto_prefect.ledger.states import JobState
from jobauto_prefect.ledger.store import Ledger
from jobauto_prefect.ledger.wishes import WishKind, wish
from jobauto_prefect.runtime.protocol import Ending, Report
from jobauto_prefect.settings import Settings

logger = logging.getLogger(__name__)

OUTBOX_SECONDS = 1.0
RECONCILE_SECONDS = 15.0
CLEANING_SECONDS = 600.0
DRIFT_SECONDS = 60.0
EMIT_SECONDS = 0.2
DELIVER_SECONDS = 1.0
ACT_SECONDS = 0.2
SETTLED_FOR = timedelta(seconds=10)
"""How long a worker has to show Prefect the end of its job before the reconciler does."""

REAPS_PER_LEASE = 10
LOOKOUT_SECONDS = 10.0

WAITING_STATES = ("SCHEDULED", "PENDING", "RUNNING", "PAUSED", "CANCELLING")
"""Of a flow run whose job may still be claimed."""


async def run_services(
    settings: Settings, ledger: Ledger, happened: asyncio.Event | None = None
) -> None:
    """Run all services until cancelled; each is safe to run twice at once.

    `happened` is set where there are new events in the ledger; they are looked for anyway.
    """
    await asyncio.to_thread(follow_zone, ledger, settings)
    authorization = own_authorization(ledger.box)
    async with (
        PrefectApi(settings.prefect_api_url, authorization=authorization) as prefect,
        httpx.AsyncClient(base_url=settings.url, timeout=2) as facade,
        asyncio.TaskGroup() as tasks,
    ):
        near = Neighbours(ledger, prefect, settings)
        reaper = Reaper(ledger, settings, facade)
        carrier = Carrier(near, OUTBOX_SECONDS)
        tasks.create_task(carrier.run())
        tasks.create_task(Keeper(ledger, carrier.wake).run())
        tasks.create_task(_every(LOOKOUT_SECONDS, Lookout(near).look))
        tasks.create_task(_every(settings.lease_seconds / REAPS_PER_LEASE, reaper.reap))
        tasks.create_task(_every(RECONCILE_SECONDS, lambda: reconcile(near)))
        tasks.create_task(_every(EMIT_SECONDS, Emitter(ledger, prefect).emit_all, happened))
        tasks.create_task(_every(DELIVER_SECONDS, lambda: deliver_all(near)))
        tasks.create_task(_every(ACT_SECONDS, lambda: act_all(ledger, settings, carrier.wake)))
        tasks.create_task(_every(DRIFT_SECONDS, Inspection(near).go_on))
        tasks.create_task(_every(CLEANING_SECONDS, lambda: asyncio.to_thread(_clean, ledger)))


def _clean(ledger: Ledger) -> None:
    """Let go of answers that are kept no longer."""
    with ledger.writing(SERVICE) as session:
        forget_old_answers(session)


async def _every(
    seconds: float, work: Callable[[], Awaitable[None]], wanted: asyncio.Event | None = None
) -> None:
    """Again and again; sooner where it is wanted."""
    wanted = wanted or asyncio.Event()
    while True:
        wanted.clear()
        try:
            await work()
        except JobautoError as error:
            logger.warning("%s", error)
        except Exception:
            logger.exception("a service failed; it goes on")
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(wanted.wait(), seconds)


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
        if not await self._answers() or self._was_away(now):
            self._answering_since = None
        self._looked_at = now
        if self._answering_since is None:
            self._answering_since = now
        elif now - self._answering_since >= self._lease:
            await self._reap_before(now - self._lease)

    async def _answers(self) -> bool:
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


async def reconcile(near: Neighbours) -> None:
    """Let Prefect and the ledger tell the same story where a driver died in between.

    Runs that Prefect takes for unfinished and whose job is over show its end. Jobs that wait for
    a run somebody cancelled in Prefect are cancelled; a window whose run was deleted gets another
    one; a run that ended before its claim is a lost attempt.

    Raises:
        PrefectUnavailable: Prefect does not answer.
    """
    unfinished = await _unfinished_runs(near.prefect)
    for flow_run_id, job_id in (await asyncio.to_thread(_over, near, unfinished)).items():
        logger.info("flow run %s shows the end of job %s", flow_run_id, job_id)
        await show_end(near, job_id, flow_run_id)
    waiting = await asyncio.to_thread(_overdue, near)
    states = await states_of(near.prefect, waiting)
    for flow_run_id, job_id in waiting.items():
        state = states.get(flow_run_id)
        if state not in WAITING_STATES:
            await asyncio.to_thread(_run_ended, near, job_id, state)


async def _unfinished_runs(prefect: PrefectApi) -> list[UUID]:
    states = {"state": {"type": {"any_": ["RUNNING", "PENDING", "CANCELLING"]}}}
    found: list[UUID] = []
    while True:
        body = {"flow_runs": states, "sort": "ID_DESC", "limit": PAGE, "offset": len(found)}
        page = await prefect.post("/flow_runs/filter", body)
        found += [UUID(run["id"]) for run in page]
        if len(page) < PAGE:
            return found


def _over(near: Neighbours, flow_run_ids: list[UUID]) -> dict[UUID, int]:
    settled_before = near.ledger.clock() - SETTLED_FOR
    with near.ledger.reading() as session:
        ended = queries.ended_jobs_of_runs(session, flow_run_ids)
        return {
            flow_run_id: job.id
            for flow_run_id, job in ended.items()
            if job.end is not None and job.end < settled_before
        }


def _overdue(near: Neighbours) -> dict[UUID, int]:
    with near.ledger.reading() as session:
        return queries.waiting_since(session, near.ledger.clock() - SETTLED_FOR)


def _run_ended(near: Neighbours, job_id: int, state: str | None) -> None:
    """The flow run of a scheduled job is over, or gone (None), and nobody claimed it."""
    with contextlib.suppress(Conflict), near.ledger.writing(SERVICE) as session:
        job = queries.job_with_context(session, job_id)
        jobs.lock(session, job)
        if job.state != JobState.SCHEDULED:
            return
        if state is None and job.task_id is not None:
            job.flow_run_id = None  # the window is owed all the same
            wish(session, WishKind.CREATE_RUN, job.id)
        elif state in (None, "CANCELLED"):
            jobs.cancel(session, job, f"its flow run is {(state or 'deleted').lower()}")
        else:
            ended = f"its flow run was {state.lower()} before a worker claimed it"
            jobs.lose_unclaimed(session, job, ended)
