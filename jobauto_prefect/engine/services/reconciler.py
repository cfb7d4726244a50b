"""The reconciler: mends what differs between Prefect and the ledger after a process died.

Beside it, runs that Prefect takes for Running and that no worker has claimed come to their end.
"""

import asyncio
import contextlib
import logging
from collections.abc import Awaitable, Callable
from datetime import datetime, timedelta
from uuid import UUID

from jobauto_prefect.engine.api import PAGE_SIZE, PrefectApi
from jobauto_prefect.engine.context import EngineContext
from jobauto_prefect.engine.flow_runs import (
    PrefectRun,
    change_appearance,
    propose,
    read_runs,
    read_states,
)
from jobauto_prefect.engine.message_handlers import show_end
from jobauto_prefect.engine.work_pools import POOL_TYPE
from jobauto_prefect.errors import Conflict, NotFound, PrefectRefuses, PrefectUnavailable
from jobauto_prefect.jobs.isolation import apart
from jobauto_prefect.jobs.outcome.cancellation import cancel
from jobauto_prefect.jobs.outcome.confirmation import Verdict, is_shown, judge, must_be_forced
from jobauto_prefect.jobs.outcome.loss import mark_unclaimed_lost
from jobauto_prefect.ledger.audit.trail import WritingSession
from jobauto_prefect.ledger.jobs import attempts, confirmations, leases
from jobauto_prefect.ledger.jobs.confirmations import MOST_LOOKS, SETTLED_FOR, End
from jobauto_prefect.ledger.outbox import OutboxKind, enqueue
from jobauto_prefect.ledger.queries.jobs import claimed_runs, job_with_context, waiting_since
from jobauto_prefect.ledger.queries.run_templates import deployments_of_ours
from jobauto_prefect.ledger.service_status import PrefectStatus, read_status, store_status
from jobauto_prefect.ledger.states import JobState
from jobauto_prefect.ledger.store import ReadingSession
from jobauto_prefect.runtime.protocol import PrefectState

logger = logging.getLogger(__name__)

DOUBTED = timedelta(seconds=60)
"""Before an outage of Prefect; what it was told so shortly before may have gone with its machine:
the kernel writes what is dirty within 30 s."""

NO_RUN = UUID(int=0)

WAITING_STATES = ("SCHEDULED", "PENDING", "RUNNING", "PAUSED", "CANCELLING")
"""Of a flow run whose job may still be claimed."""


class Reconciler:
    """Several may run at once: an end is looked at by one of them."""

    def __init__(self, context: EngineContext) -> None:
        self._context = context
        self._answered_at: datetime | None = None
        self._was_away = True  # or this process was: nobody knows

    async def reconcile(self) -> None:
        """Compare once.

        Ends that are not confirmed yet are looked at, after an outage all since shortly before it;
        what Prefect shows otherwise it is told. Jobs that wait for a run somebody cancelled in
        Prefect are cancelled; a window whose run was deleted gets another one; a run that ended
        before its claim is a lost attempt.

        Raises:
            PrefectUnavailable: Prefect does not answer.
        """
        now = self._context.ledger.clock()
        try:
            await self._context.prefect.get("/health")
            with apart("what the work pools are"):
                await self._keep(await pool_status(self._context.prefect))
        except PrefectUnavailable as error:
            self._was_away = True
            await self._keep(PrefectStatus(away=str(error)))
            raise
        if self._was_away:
            await self._doubt()
        self._answered_at, self._was_away = now, False
        await confirm_ends(self._context)
        await settle_waiting(self._context)

    async def _keep(self, status: PrefectStatus) -> None:
        if _sets(await self._context.read(read_status)) != _sets(status):
            await self._context.write(store_status, status)

    async def _doubt(self) -> None:
        """Have the ends since shortly before the outage looked at again."""
        since = self._answered_at or await self._context.read(confirmations.last_end)
        if since is not None:
            await self._context.write(confirmations.require_confirmation_since, since - DOUBTED)


async def confirm_ends(context: EngineContext) -> None:
    """Look at the ends that are due, 200 with one question."""
    while ends := await asyncio.to_thread(confirmations.claim_due, context.ledger, PAGE_SIZE):
        runs = [end.flow_run_id for end in ends if end.flow_run_id]
        present = await read_runs(context.prefect, runs)
        confirmed: list[End] = []
        for end in ends:
            status = present.get(run := end.flow_run_id or NO_RUN)
            if run in present and status is None:
                continue  # Prefect can't read it; it is looked at again
            with apart(f"the end of job {end.job_id}"):
                confirmed += [end] if await _is_settled(context, end, status) else []
        if confirmed:
            await context.write(confirmations.confirm, confirmed)


async def _is_settled(context: EngineContext, end: End, status: PrefectRun | None) -> bool:
    """Show Prefect an end it does not show yet; return whether it is settled. None: no run."""
    if status is None:
        return True
    if judge(end, status.state, status.run_count) is Verdict.DIFFERS:
        return await _is_given_up(context, end, status)
    await _correct_appearance(context, end, status)
    return True


async def _correct_appearance(context: EngineContext, end: End, status: PrefectRun) -> None:
    """Correct the look of a run to its newest job's end, whose worker may have died before."""
    looks = status.appearance.ended(with_warning=end.state == JobState.WARNING)
    if looks == status.appearance or not is_shown(end, status.state):
        return
    try:
        await change_appearance(context.prefect, end.flow_run_id or NO_RUN, looks)
    except (Conflict, PrefectRefuses) as error:
        logger.warning("flow run %s looks wrong: %s", end.flow_run_id, error)


async def _is_given_up(context: EngineContext, end: End, status: PrefectRun) -> bool:
    """Tell Prefect the end; return whether that is of no use. Else it is looked at once more."""
    if end.flow_run_id is None:
        return True
    if end.looks >= MOST_LOOKS:
        await _note(context, end.job_id, f"Prefect keeps its flow run {status.state.lower()}")
        return True
    logger.info("flow run %s shows the end of job %s", end.flow_run_id, end.job_id)
    force = must_be_forced(end, status.state)
    try:
        return not await show_end(context, end.job_id, end.flow_run_id, force=force)
    except (NotFound, PrefectRefuses) as error:
        await _note(context, end.job_id, str(error))
        return True


async def _note(context: EngineContext, job_id: int, text: str) -> None:
    logger.warning("job %s: %s", job_id, text)
    await context.write(leases.add_notice, job_id, text)


async def settle_waiting(context: EngineContext) -> None:
    """Settle jobs that are due and whose run does not wait any more."""
    waiting = await context.read(waiting_since, context.ledger.clock() - SETTLED_FOR)
    states = await read_states(context.prefect, waiting)
    for flow_run_id, job_id in waiting.items():
        state = states.get(flow_run_id)
        is_unreadable = flow_run_id in states and state is None
        if state not in WAITING_STATES and not is_unreadable:
            with apart(f"job {job_id}"):
                await context.write(_settle_job, job_id, state)


def _settle_job(session: WritingSession, job_id: int, state: str | None) -> None:
    """Settle a scheduled job whose flow run is over, or gone (None), and nobody claimed it."""
    job = job_with_context(session, job_id)
    attempts.lock_job(session, job)
    if job.state != JobState.SCHEDULED:
        return
    if state is None and job.task_id is not None:
        job.flow_run_id = None  # the window is owed all the same
        enqueue(session, OutboxKind.CREATE_RUN, job.id)
    elif state in (None, "CANCELLED"):
        cancel(session, job, f"its flow run is {(state or 'deleted').lower()}")
    else:
        ended = f"its flow run was {state.lower()} before a worker claimed it"
        mark_unclaimed_lost(session, job, ended)


def _sets(status: PrefectStatus) -> tuple[str | None, set[str], set[str]]:
    return status.away, set(status.paused), set(status.foreign)


async def pool_status(api: PrefectApi) -> PrefectStatus:
    """Return which work pools are paused, and which are served by other kinds of worker.

    Raises:
        PrefectUnavailable: Prefect does not answer.
    """
    paused: set[str] = set()
    foreign: set[str] = set()
    async for page in api.pages("/work_pools/filter", {}):
        paused |= {pool["name"] for pool in page if pool["is_paused"]}
        foreign |= {pool["name"] for pool in page if pool["type"] != POOL_TYPE}
    return PrefectStatus(paused=paused, foreign=foreign)


CLAIM_WITHIN = timedelta(seconds=60)
"""A compiled flow claims as its first act after Running, the jobauto worker before it."""

UNCLAIMED = "no worker has claimed this run in its first minute; start another one"


class UnclaimedRuns:
    """Sets Crashed the runs of this ledger that are Running and have no job.

    Each takes a place of its work pool for nothing. Time counts only while claims are answered:
    `is_answering` says whether they are.
    """

    def __init__(self, context: EngineContext, is_answering: Callable[[], Awaitable[bool]]) -> None:
        self._context = context
        self._is_answering = is_answering
        self._seen_since: dict[UUID, datetime] = {}

    async def look(self) -> None:
        """Look once for runs that run without a job, and give those that stay so the state Crashed.

        Raises:
            PrefectUnavailable: Prefect does not answer.
        """
        unclaimed = await self._unclaimed()
        if not unclaimed or not await self._is_answering():
            self._seen_since.clear()
            return
        now = self._context.ledger.clock()
        self._seen_since = {run: self._seen_since.get(run, now) for run in unclaimed}
        due = {run for run, since in self._seen_since.items() if now - since >= CLAIM_WITHIN}
        # Who claims just now has a job by the second look.
        for flow_run_id in due & await self._unclaimed() if due else ():
            with apart(f"flow run {flow_run_id}"), contextlib.suppress(NotFound):
                answer = await propose(
                    self._context.prefect, flow_run_id, PrefectState.CRASHED, UNCLAIMED
                )
                if not answer.accepted:
                    raise Conflict(f"Prefect does not end it: {answer.reason}")
                logger.warning("flow run %s is Crashed: %s", flow_run_id, UNCLAIMED)

    async def _unclaimed(self) -> set[UUID]:
        running = await self._running()
        if not running:
            return set()

        def without_job(session: ReadingSession) -> set[UUID]:
            ours = deployments_of_ours(session, set(running.values()))
            mine = [run for run, deployment in running.items() if deployment in ours]
            return set(mine) - claimed_runs(session, mine)

        return await self._context.read(without_job)

    async def _running(self) -> dict[UUID, UUID]:
        """Return flow run -> its deployment, of the runs that Prefect takes for running."""
        query = {"flow_runs": {"state": {"type": {"any_": ["RUNNING"]}}}, "sort": "ID_DESC"}
        return {
            UUID(run["id"]): UUID(run["deployment_id"])
            async for page in self._context.prefect.pages("/flow_runs/filter", query)
            for run in page
            if run["deployment_id"]
        }
