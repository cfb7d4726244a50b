"""The reconciler: repairs differences between Prefect and the ledger after a process died.

It also ends runs that Prefect shows as Running and that no worker has claimed.
"""

import asyncio
import contextlib
import logging
from collections.abc import Awaitable, Callable, Mapping
from datetime import datetime, timedelta
from typing import NamedTuple
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
from jobauto_prefect.ledger.queries.jobs import job_with_context, newest_jobs, waiting_since
from jobauto_prefect.ledger.queries.run_templates import deployments_of_ours
from jobauto_prefect.ledger.service_status import PrefectStatus, read_status, store_status
from jobauto_prefect.ledger.states import JobState
from jobauto_prefect.ledger.store import ReadingSession
from jobauto_prefect.runtime.protocol import PrefectState

logger = logging.getLogger(__name__)

DOUBTED = timedelta(seconds=60)
"""Before an outage of Prefect: states set this shortly before may be lost with its machine, as the
kernel writes dirty pages within 30 s."""

NO_RUN = UUID(int=0)

WAITING_STATES = ("SCHEDULED", "PENDING", "RUNNING", "PAUSED", "CANCELLING")
"""State types of a flow run whose job may still be claimed."""


class Reconciler:
    """Safe to run in several processes: each end is handled by one of them."""

    def __init__(self, context: EngineContext) -> None:
        self._context = context
        self._answered_at: datetime | None = None
        self._was_away = True  # or this process was away: unknown

    async def reconcile(self) -> None:
        """Compare once.

        It checks ends that are not confirmed yet, after an outage all since shortly before it, and
        corrects Prefect where it shows a different state. A job whose waiting run was cancelled in
        Prefect is cancelled; a window whose run was deleted gets a new one; a run that ended before
        its claim counts as a lost attempt.

        Raises:
            PrefectUnavailable: Prefect does not answer.
        """
        now = self._context.ledger.clock()
        try:
            await self._context.prefect.get("/health")
            with apart("the state of the work pools"):
                await self._keep(await pool_status(self._context.prefect))
        except PrefectUnavailable as error:
            self._was_away = True
            await self._keep(PrefectStatus(away=str(error)))
            raise
        if self._was_away:  # the ends since shortly before that are confirmed again
            since = self._answered_at or await self._context.read(confirmations.last_end)
            if since is not None:
                await self._context.write(confirmations.require_confirmation_since, since - DOUBTED)
        self._answered_at, self._was_away = now, False
        await confirm_ends(self._context)
        await settle_waiting(self._context)

    async def _keep(self, status: PrefectStatus) -> None:
        if _sets(await self._context.read(read_status)) != _sets(status):
            await self._context.write(store_status, status)


async def confirm_ends(context: EngineContext) -> None:
    """Check the ends that are due, 200 per query."""
    while ends := await asyncio.to_thread(confirmations.claim_due, context.ledger, PAGE_SIZE):
        runs = [end.flow_run_id for end in ends if end.flow_run_id]
        present = await read_runs(context.prefect, runs)
        confirmed: list[End] = []
        for end in ends:
            status = present.get(run := end.flow_run_id or NO_RUN)
            if run in present and status is None:
                continue  # Prefect can't read it; check it again later
            with apart(f"the end of job {end.job_id}"):
                confirmed += [end] if await _is_settled(context, end, status) else []
        if confirmed:
            await context.write(confirmations.confirm, confirmed)


async def _is_settled(context: EngineContext, end: End, status: PrefectRun | None) -> bool:
    """Correct Prefect if it does not show an end; return whether it is settled. None: no run."""
    if status is None:
        return True
    if judge(end, status.state, status.run_count) is Verdict.DIFFERS:
        return await _is_given_up(context, end, status)
    # The worker of its newest job may have died before it changed the appearance.
    looks = status.appearance.ended(with_warning=end.state == JobState.WARNING)
    if looks != status.appearance and is_shown(end, status.state):
        try:
            await change_appearance(context.prefect, end.flow_run_id or NO_RUN, looks)
        except (Conflict, PrefectRefuses) as error:
            logger.warning("can't correct the look of flow run %s: %s", end.flow_run_id, error)
    return True


async def _is_given_up(context: EngineContext, end: End, status: PrefectRun) -> bool:
    """Show Prefect the end; return whether retrying is pointless. If not, it is checked again."""
    if end.flow_run_id is None:
        return True
    if end.looks >= MOST_LOOKS:
        await _note(context, end.job_id, f"Prefect keeps its flow run {status.state.lower()}")
        return True
    logger.info("showing the end of job %s in flow run %s", end.job_id, end.flow_run_id)
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
    """Settle due jobs whose run no longer waits."""
    waiting = await context.read(waiting_since, context.ledger.clock() - SETTLED_FOR)
    states = await read_states(context.prefect, waiting)
    for flow_run_id, job_id in waiting.items():
        state = states.get(flow_run_id)
        is_unreadable = flow_run_id in states and state is None
        if state not in WAITING_STATES and not is_unreadable:
            with apart(f"job {job_id}"):
                await context.write(_settle_job, job_id, state)


def _settle_job(session: WritingSession, job_id: int, state: str | None) -> None:
    """Settle an unclaimed scheduled job whose flow run has ended or is gone (None)."""
    job = job_with_context(session, job_id)
    attempts.lock_job(session, job)
    if job.state != JobState.SCHEDULED:
        return
    if state is None and job.task_id is not None:
        job.flow_run_id = None  # the window still needs a run
        enqueue(session, OutboxKind.CREATE_RUN, job.id)
    elif state in (None, "CANCELLED"):
        cancel(session, job, f"its flow run is {(state or 'deleted').lower()}")
    else:
        ended = f"its flow run was {state.lower()} before a worker claimed it"
        mark_unclaimed_lost(session, job, ended)


def _sets(status: PrefectStatus) -> tuple[str | None, set[str], set[str]]:
    return status.away, set(status.paused), set(status.foreign)


async def pool_status(api: PrefectApi) -> PrefectStatus:
    """Return which work pools are paused, and which are served by other types of worker.

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
"""A compiled flow claims right after Running, the jobauto worker before it."""

UNCLAIMED = "no worker has claimed this run in its first minute; start another one"


class RunningState(NamedTuple):
    """A flow run, and the state in which it is Running; each time it has another."""

    flow_run_id: UUID
    state_id: UUID


Unclaimed = Mapping[RunningState, int | None]
"""Flow runs that are Running though no worker has claimed them, and which job was their last."""


class RunningRuns:
    """Ends this ledger's runs that are Running in Prefect though no job runs there.

    Each occupies a slot of its work pool. One that had a job shows its end again: a call that
    arrived after that was confirmed made it Running. Any other is Crashed. Time counts only while
    claims are answered, as `is_answering` says. Runs that have ended are not read, however many.
    """

    def __init__(self, context: EngineContext, is_answering: Callable[[], Awaitable[bool]]) -> None:
        self._context = context
        self._is_answering = is_answering
        self._seen_since: dict[RunningState, datetime] = {}

    async def look(self) -> None:
        """Look once for running runs without a job, and end those that stay without one.

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
        # A run that is being claimed right now has a job by the second look.
        still = await self._unclaimed() if due else {}
        for run in due & still.keys():
            with apart(f"flow run {run.flow_run_id}"), contextlib.suppress(NotFound):
                await self._end(run.flow_run_id, still[run])

    async def _end(self, flow_run_id: UUID, ended_job: int | None) -> None:
        if ended_job is not None:
            logger.info("showing the end of job %s in flow run %s", ended_job, flow_run_id)
            await show_end(self._context, ended_job, flow_run_id)
            return
        answer = await propose(self._context.prefect, flow_run_id, PrefectState.CRASHED, UNCLAIMED)
        if not answer.accepted:
            raise Conflict(f"Prefect does not end it: {answer.reason}")
        logger.warning("flow run %s is Crashed: %s", flow_run_id, UNCLAIMED)

    async def _unclaimed(self) -> Unclaimed:
        query = {"flow_runs": {"state": {"type": {"any_": ["RUNNING"]}}}, "sort": "ID_DESC"}
        running = {
            RunningState(UUID(run["id"]), UUID(run["state_id"])): UUID(run["deployment_id"])
            async for page in self._context.prefect.pages("/flow_runs/filter", query)
            for run in page
            if run["deployment_id"]
        }
        if not running:
            return {}

        def read(session: ReadingSession) -> Unclaimed:
            ours = deployments_of_ours(session, set(running.values()))
            mine = [run for run, deployment in running.items() if deployment in ours]
            jobs = newest_jobs(session, [run.flow_run_id for run in mine])
            unclaimed = dict[RunningState, int | None]()
            for run in mine:
                job = jobs.get(run.flow_run_id)
                if job is None or job.state == JobState.SCHEDULED:
                    unclaimed[run] = None
                elif job.state != JobState.RUNNING:
                    unclaimed[run] = job.id
            return unclaimed

        return await self._context.read(read)
