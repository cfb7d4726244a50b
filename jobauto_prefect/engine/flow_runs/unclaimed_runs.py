"""Flow runs that Prefect takes for Running and that no worker has claimed."""

import asyncio
import contextlib
import logging
from collections.abc import Awaitable, Callable
from datetime import datetime, timedelta
from uuid import UUID

from jobauto_prefect.engine.api import PAGE_SIZE
from jobauto_prefect.engine.context import EngineContext
from jobauto_prefect.engine.flow_runs.operations import propose
from jobauto_prefect.errors import NotFound
from jobauto_prefect.jobs.isolation import apart
from jobauto_prefect.ledger.queries.jobs import claimed_runs
from jobauto_prefect.ledger.queries.run_templates import deployments_of_ours
from jobauto_prefect.runtime.protocol import PrefectState

logger = logging.getLogger(__name__)

CLAIM_WITHIN = timedelta(seconds=60)
"""A compiled flow claims as its first act after Running, the jobauto worker before it."""

MESSAGE = "no worker has claimed this run in its first minute; start another one"


class UnclaimedRuns:
    """Gives the state Crashed to runs of ours that are Running and have no job.

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
            with apart(f"flow run {flow_run_id}"):
                await self._crash(flow_run_id)

    async def _unclaimed(self) -> set[UUID]:
        running = await self._running()
        if not running:
            return set()

        def without_job() -> set[UUID]:
            with self._context.ledger.reading() as session:
                ours = deployments_of_ours(session, set(running.values()))
                mine = [run for run, deployment in running.items() if deployment in ours]
                return set(mine) - claimed_runs(session, mine)

        return await asyncio.to_thread(without_job)

    async def _running(self) -> dict[UUID, UUID]:
        """Return flow run -> its deployment, of the runs that Prefect takes for running."""
        wanted = {"state": {"type": {"any_": ["RUNNING"]}}}
        deployments: dict[UUID, UUID] = {}
        offset = 0
        while True:
            body = {"flow_runs": wanted, "sort": "ID_DESC", "limit": PAGE_SIZE, "offset": offset}
            page = await self._context.prefect.post("/flow_runs/filter", body)
            deployments |= {
                UUID(run["id"]): UUID(run["deployment_id"]) for run in page if run["deployment_id"]
            }
            offset += len(page)
            if len(page) < PAGE_SIZE:
                return deployments

    async def _crash(self, flow_run_id: UUID) -> None:
        logger.warning("flow run %s is Crashed: %s", flow_run_id, MESSAGE)
        with contextlib.suppress(NotFound):
            await propose(self._context.prefect, flow_run_id, PrefectState.CRASHED, MESSAGE)
