"""The reconciler: lets Prefect and the ledger tell the same where somebody died in between."""

import asyncio
import contextlib
import logging
from datetime import datetime, timedelta
from uuid import UUID

from jobauto_prefect.engine.neighbours import Neighbours
from jobauto_prefect.engine.pool_status import pool_status
from jobauto_prefect.engine.runs import (
    PAGE,
    RunStatus,
    change_appearance,
    states_of,
    statuses_of,
)
from jobauto_prefect.engine.wishes import add_line, show_end
from jobauto_prefect.errors import Conflict, NotFound, PrefectRefuses, PrefectUnavailable
from jobauto_prefect.jobs.cancellation import cancel
from jobauto_prefect.jobs.confirmation import Verdict, is_shown, judge, must_be_forced
from jobauto_prefect.jobs.loss import lose_unclaimed
from jobauto_prefect.ledger import attempts, confirmations, queries
from jobauto_prefect.ledger.audit import SERVICE
from jobauto_prefect.ledger.confirmations import MOST_LOOKS, SETTLED_FOR, End
from jobauto_prefect.ledger.prefect_status import PrefectStatus, keep_status, read_status
from jobauto_prefect.ledger.states import JobState
from jobauto_prefect.ledger.wishes import WishKind, wish

logger = logging.getLogger(__name__)

DOUBTED = timedelta(seconds=60)
"""Before an outage of Prefect; what it was told so shortly before may have gone with its machine:
the kernel writes what is dirty within 30 s."""

NO_RUN = UUID(int=0)

WAITING_STATES = ("SCHEDULED", "PENDING", "RUNNING", "PAUSED", "CANCELLING")
"""Of a flow run whose job may still be claimed."""


class Reconciler:
    """Several may run at once: an end is looked at by one of them."""

    def __init__(self, near: Neighbours) -> None:
        self._near = near
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
        now = self._near.ledger.clock()
        try:
            await self._near.prefect.get("/health")
            status = await pool_status(self._near.prefect)
        except PrefectUnavailable as error:
            self._was_away = True
            await asyncio.to_thread(self._keep, PrefectStatus(away=str(error)))
            raise
        await asyncio.to_thread(self._keep, status)
        if self._was_away:
            await asyncio.to_thread(self._doubt)
        self._answered_at, self._was_away = now, False
        await confirm_ends(self._near)
        await settle_waiting(self._near)

    def _keep(self, status: PrefectStatus) -> None:
        ledger = self._near.ledger
        with ledger.reading() as session:
            known = read_status(session)
        if _sets(known) != _sets(status):
            with ledger.writing(SERVICE) as session:
                keep_status(session, status)

    def _doubt(self) -> None:
        ledger = self._near.ledger
        with ledger.reading() as session:
            since = self._answered_at or confirmations.last_end(session)
        if since is not None:
            with ledger.writing(SERVICE) as session:
                confirmations.doubt_since(session, since - DOUBTED)


async def confirm_ends(near: Neighbours) -> None:
    """Look at the ends that are due, 200 with one question."""
    while ends := await asyncio.to_thread(confirmations.take_due, near.ledger, PAGE):
        runs = [end.flow_run_id for end in ends if end.flow_run_id]
        found = await statuses_of(near.prefect, runs)
        confirmed = [
            end
            for end in ends
            if await _is_settled(near, end, found.get(end.flow_run_id or NO_RUN))
        ]
        await asyncio.to_thread(_confirm, near, confirmed)


async def _is_settled(near: Neighbours, end: End, status: RunStatus | None) -> bool:
    """Whether Prefect needs to be told nothing more of an end; else it is told. None: no run."""
    if status is None:
        return True
    if judge(end, status.state, status.run_count) is Verdict.DIFFERS:
        return await _is_given_up(near, end, status)
    await _correct_appearance(near, end, status)
    return True


async def _correct_appearance(near: Neighbours, end: End, status: RunStatus) -> None:
    """Let a run look as its newest job ended, whose worker may have died before it said so."""
    looks = status.appearance.ended(with_warning=end.state == JobState.WARNING)
    if looks == status.appearance or not is_shown(end, status.state):
        return
    try:
        await change_appearance(near.prefect, end.flow_run_id or NO_RUN, looks)
    except (Conflict, PrefectRefuses) as error:
        logger.warning("flow run %s looks wrong: %s", end.flow_run_id, error)


async def _is_given_up(near: Neighbours, end: End, status: RunStatus) -> bool:
    """Tell Prefect the end; whether that is of no use. Otherwise it is looked at once more."""
    if end.flow_run_id is None:
        return True
    if end.looks >= MOST_LOOKS:
        await _note(near, end.job_id, f"Prefect keeps its flow run {status.state.lower()}")
        return True
    logger.info("flow run %s shows the end of job %s", end.flow_run_id, end.job_id)
    force = must_be_forced(end, status.state)
    try:
        return not await show_end(near, end.job_id, end.flow_run_id, force=force)
    except (NotFound, PrefectRefuses) as error:
        await _note(near, end.job_id, str(error))
        return True


async def _note(near: Neighbours, job_id: int, text: str) -> None:
    logger.warning("job %s: %s", job_id, text)
    await asyncio.to_thread(add_line, near, job_id, text)


def _confirm(near: Neighbours, ends: list[End]) -> None:
    if ends:
        with near.ledger.writing(SERVICE) as session:
            confirmations.confirm(session, ends)


async def settle_waiting(near: Neighbours) -> None:
    """Jobs that are due and whose run does not wait any more go another way."""
    waiting = await asyncio.to_thread(_overdue, near)
    states = await states_of(near.prefect, waiting)
    for flow_run_id, job_id in waiting.items():
        state = states.get(flow_run_id)
        if state not in WAITING_STATES:
            await asyncio.to_thread(_run_ended, near, job_id, state)


def _overdue(near: Neighbours) -> dict[UUID, int]:
    with near.ledger.reading() as session:
        return queries.waiting_since(session, near.ledger.clock() - SETTLED_FOR)


def _run_ended(near: Neighbours, job_id: int, state: str | None) -> None:
    """The flow run of a scheduled job is over, or gone (None), and nobody claimed it."""
    with contextlib.suppress(Conflict), near.ledger.writing(SERVICE) as session:
        job = queries.job_with_context(session, job_id)
        attempts.lock_job(session, job)
        if job.state != JobState.SCHEDULED:
            return
        if state is None and job.task_id is not None:
            job.flow_run_id = None  # the window is owed all the same
            wish(session, WishKind.CREATE_RUN, job.id)
        elif state in (None, "CANCELLED"):
            cancel(session, job, f"its flow run is {(state or 'deleted').lower()}")
        else:
            ended = f"its flow run was {state.lower()} before a worker claimed it"
            lose_unclaimed(session, job, ended)


def _sets(status: PrefectStatus) -> tuple[str | None, set[str], set[str]]:
    return status.away, set(status.paused), set(status.foreign)
