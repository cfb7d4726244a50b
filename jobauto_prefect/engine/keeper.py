"""The window keeper: makes sure that each window gets its task, and each task comes to its end."""

import asyncio
from collections.abc import Callable, Sequence
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

from jobauto_prefect.engine import pauses
from jobauto_prefect.engine.neighbours import Neighbours
from jobauto_prefect.engine.runs import PAGE
from jobauto_prefect.jobs import tasks
from jobauto_prefect.jobs.loss import give_up
from jobauto_prefect.jobs.windows import SPREAD, open_windows
from jobauto_prefect.ledger import attempts, keeping, queries
from jobauto_prefect.ledger.audit import SERVICE
from jobauto_prefect.ledger.records import Job
from jobauto_prefect.ledger.store import Ledger
from jobauto_prefect.ledger.wishes import WishKind, wish

BATCH = 500  # templates, or tasks, in one transaction
GRACE = timedelta(seconds=10)
"""How long Prefect's own scheduler and workers have for a window before the keeper looks."""

SECOND = timedelta(seconds=1)
PAGES_AT_ONCE = 5  # of deployments that are compared in one pass


class Keeper:
    """Goes by the ledger alone; `wake` is called where there is something to tell Prefect.

    Several may run at once: what one has in hand the others leave to it.
    """

    def __init__(self, ledger: Ledger, wake: Callable[[], None] = lambda: None) -> None:
        self._ledger = ledger
        self._wake = wake

    def tick(self) -> None:
        """Do what is due."""
        with self._ledger.reading() as session:
            now = self._ledger.clock()
            due = keeping.next_due(session)
        if due is not None and due <= now:
            self.open_due()
        with self._ledger.reading() as session:
            more = keeping.has_other_work(session, now)  # what opened may wait for its turn
        if more:
            self.settle_due()

    def open_due(self) -> None:
        """Open the windows that are due."""
        while self._open():
            pass
        self._wake()

    def settle_due(self) -> None:
        """Tasks have their turn or come too late; jobs of which nobody heard are given up."""
        for work in (self._catch_up, self._let_lapse, self._give_up):
            work()
        self._wake()

    def _open(self) -> bool:
        """Open windows that are due; True: there may be more."""
        with self._ledger.writing(SERVICE) as session:
            now = self._ledger.clock()
            held = keeping.hold_due(session, now, BATCH)
            if held:
                open_windows(session, held, now)
            behind = [
                template
                for template in held
                if template.next_schedule and template.next_schedule <= now
            ]
            return len(held) == BATCH or bool(behind)

    def _catch_up(self) -> None:
        with self._ledger.writing(SERVICE) as session:
            now = self._ledger.clock()
            for number, task in enumerate(keeping.lock_tasks_to_catch_up(session, BATCH)):
                tasks.take_turn(session, task, now + number * SPREAD)

    def _let_lapse(self) -> None:
        with self._ledger.writing(SERVICE) as session:
            tasks.let_lapse(session, keeping.lock_lapsed_tasks(session, BATCH))

    def _give_up(self) -> None:
        with self._ledger.reading() as session:
            unheard = [job.id for job in keeping.unheard_jobs(session, self._ledger.clock(), BATCH)]
        for job_id in unheard:
            with self._ledger.writing(SERVICE) as session:
                give_up(session, queries.job_with_context(session, job_id))


class Lookout:
    """Compares with Prefect: runs its scheduler did not make, pauses somebody clicked there."""

    def __init__(self, near: Neighbours) -> None:
        self._near = near
        self._looked_up_to = 0

    async def look(self) -> None:
        """Look once.

        Raises:
            PrefectUnavailable: Prefect does not answer.
        """
        await self._find_runs()
        for _ in range(PAGES_AT_ONCE):
            self._looked_up_to = await pauses.take_over_some(self._near, self._looked_up_to)
            if not self._looked_up_to:
                return

    async def _find_runs(self) -> None:
        """Attempts that wait for a flow run get the one of Prefect's scheduler, or a new one."""
        waiting = await asyncio.to_thread(self._without_run)
        if not waiting:
            return
        paused = await pauses.take_over(self._near, {job.runtemplate_id for job in waiting})
        waiting = [job for job in waiting if job.runtemplate_id not in paused]
        found = await self._scheduled_runs(waiting)
        await asyncio.to_thread(self._bind, waiting, found)

    def _without_run(self) -> Sequence[Job]:
        ledger = self._near.ledger
        with ledger.reading() as session:
            return keeping.jobs_without_run(session, ledger.clock() - GRACE, PAGE)

    async def _scheduled_runs(self, waiting: Sequence[Job]) -> dict[tuple[UUID, datetime], UUID]:
        """Deployment and due time -> flow run that waits."""
        deployments = {str(job.runtemplate.deployment_id) for job in waiting}
        if not waiting:
            return {}
        due = [job.schedule for job in waiting]
        between = {
            "after_": (min(due) - SECOND).isoformat(),
            "before_": (max(due) + SECOND).isoformat(),
        }
        query: dict[str, Any] = {
            "deployments": {"id": {"any_": sorted(deployments - {"None"})}},
            "flow_runs": {
                "state": {"type": {"any_": ["SCHEDULED", "PENDING", "RUNNING"]}},
                "expected_start_time": between,
            },
            "limit": PAGE,
        }
        found: dict[tuple[UUID, datetime], UUID] = {}
        offset = 0
        while True:
            page = await self._near.prefect.post("/flow_runs/filter", query | {"offset": offset})
            for run in page:
                if run["auto_scheduled"]:
                    due_at = datetime.fromisoformat(run["expected_start_time"])
                    found[UUID(run["deployment_id"]), due_at] = UUID(run["id"])
            offset += len(page)
            if len(page) < PAGE:
                return found

    def _bind(self, waiting: Sequence[Job], found: dict[tuple[UUID, datetime], UUID]) -> None:
        with self._near.ledger.writing(SERVICE) as session:
            for waiting_job in sorted(waiting, key=lambda job: (job.task_id or 0, job.id)):
                job = queries.job_with_context(session, waiting_job.id)
                attempts.lock_job(session, job)
                if not attempts.awaits_run(job):
                    continue
                deployment = job.runtemplate.deployment_id
                run = found.get((deployment, job.schedule)) if deployment else None
                if run is not None:
                    job.flow_run_id = run
                else:
                    wish(session, WishKind.CREATE_RUN, job.id)
