"""The window scheduler: opens a task for each window, and brings each task to its end."""

import asyncio
from collections.abc import Callable, Sequence
from datetime import datetime, timedelta
from functools import partial
from typing import Any, TypeVar
from uuid import UUID

from jobauto_prefect.engine.api import PAGE_SIZE
from jobauto_prefect.engine.context import EngineContext
from jobauto_prefect.engine.sync.deployment_drift import adopt_pauses
from jobauto_prefect.jobs.isolation import apart
from jobauto_prefect.jobs.outcome.loss import close_lost
from jobauto_prefect.jobs.windows import tasks
from jobauto_prefect.jobs.windows.due_windows import SPREAD, open_windows
from jobauto_prefect.ledger.audit.trail import SERVICE, WritingSession
from jobauto_prefect.ledger.jobs import attempts, windows
from jobauto_prefect.ledger.jobs.flow_runs import awaits_run
from jobauto_prefect.ledger.outbox import OutboxKind, enqueue
from jobauto_prefect.ledger.queries.jobs import job_with_context
from jobauto_prefect.ledger.records import Job, RunTemplate, Task
from jobauto_prefect.ledger.store import Ledger

BATCH = 500  # templates, or tasks, in one transaction
GRACE = timedelta(seconds=10)
"""How long Prefect's own scheduler and workers have for a window before we look for its run."""

SECOND = timedelta(seconds=1)
DEFERRED = timedelta(seconds=60)
"""When to retry a run template whose windows could not be opened."""

Item = TypeVar("Item", RunTemplate, Task)


class WindowScheduler:
    """Uses the ledger alone; calls `wake` when there is a message for Prefect.

    Several may run at once: each skips what another one has locked.
    """

    def __init__(self, ledger: Ledger, wake: Callable[[], None] = lambda: None) -> None:
        self._ledger = ledger
        self._wake = wake

    def tick(self) -> None:
        """Open windows and settle tasks that are due."""
        with self._ledger.reading() as session:
            now = self._ledger.clock()
            due = windows.next_due(session)
        if due is not None and due <= now:
            self.open_due()
        with self._ledger.reading() as session:
            more = windows.has_other_work(session, now)  # including tasks that were just opened
        if more:
            self.settle_due()

    def open_due(self) -> None:
        while self._open():
            pass
        self._wake()

    def settle_due(self) -> None:
        """Start catch-up attempts, close overdue tasks, and give up silent jobs."""
        self._catch_up()
        self._together(partial(windows.lock_lapsed_tasks, limit=BATCH), tasks.close_lapsed)
        self._give_up()
        self._wake()

    def _open(self) -> bool:
        """Open a batch of due windows; return whether there may be more."""
        now, more = self._ledger.clock(), False

        def work(session: WritingSession, held: Sequence[RunTemplate]) -> None:
            nonlocal more
            if held:
                open_windows(session, held, now)
            more |= len(held) == BATCH
            more |= any(each.next_schedule and each.next_schedule <= now for each in held)

        self._together(partial(windows.lock_due_templates, now=now, limit=BATCH), work, self._defer)
        return more

    def _catch_up(self) -> None:
        def work(session: WritingSession, held: Sequence[Task]) -> None:
            now = self._ledger.clock()
            for number, task in enumerate(held):
                tasks.start_catch_up(session, task, now + number * SPREAD)

        self._together(partial(windows.lock_tasks_to_catch_up, limit=BATCH), work)

    def _together(
        self,
        lock: Callable[[WritingSession], Sequence[Item]],
        work: Callable[[WritingSession, Sequence[Item]], object],
        put_aside: Callable[[int], None] = lambda _id: None,
    ) -> None:
        """Process a locked batch together; if that fails, each item alone."""
        with apart("a batch of windows, now handled one by one,"):
            with self._ledger.writing(SERVICE) as session:
                work(session, lock(session))
            return
        with self._ledger.writing(SERVICE) as session:
            names = {each.id: f"{each.entity_name} {each.id}" for each in lock(session)}
        for number, name in names.items():
            with (
                apart(name, lambda _reason, number=number: put_aside(number)),
                self._ledger.writing(SERVICE) as session,
            ):
                work(session, [each for each in lock(session) if each.id == number])

    def _defer(self, template_id: int) -> None:
        """Postpone the windows of a run template; they stay as they are."""
        with self._ledger.writing(SERVICE) as session:
            windows.defer(session, template_id, self._ledger.clock() + DEFERRED)

    def _give_up(self) -> None:
        with self._ledger.reading() as session:
            unheard = [job.id for job in windows.unheard_jobs(session, self._ledger.clock(), BATCH)]
        for job_id in unheard:
            with apart(f"job {job_id}"), self._ledger.writing(SERVICE) as session:
                close_lost(session, job_with_context(session, job_id))


class MissingRunMonitor:
    """Finds flow runs for due windows, and creates those Prefect's scheduler has not made."""

    def __init__(self, context: EngineContext) -> None:
        self._context = context

    async def look(self) -> None:
        """Bind waiting attempts to the flow runs of Prefect's scheduler, or create new ones.

        Raises:
            PrefectUnavailable: Prefect does not answer.
        """
        before = self._context.ledger.clock() - GRACE
        waiting = await self._context.read(windows.jobs_without_run, before, PAGE_SIZE)
        if not waiting:
            return
        paused = await adopt_pauses(self._context, {job.runtemplate_id for job in waiting})
        waiting = [job for job in waiting if job.runtemplate_id not in paused]
        runs = await self._scheduled_runs(waiting)
        await asyncio.to_thread(self._bind, waiting, runs)

    async def _scheduled_runs(self, waiting: Sequence[Job]) -> dict[tuple[UUID, datetime], UUID]:
        """Return the waiting flow run of each deployment and due time."""
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
        }
        return {
            (
                UUID(run["deployment_id"]),
                datetime.fromisoformat(run["expected_start_time"]),
            ): UUID(run["id"])
            async for page in self._context.prefect.pages("/flow_runs/filter", query)
            for run in page
            if run["auto_scheduled"]
        }

    def _bind(self, waiting: Sequence[Job], runs: dict[tuple[UUID, datetime], UUID]) -> None:
        for waiting_job in sorted(waiting, key=lambda job: (job.task_id or 0, job.id)):
            with (
                apart(f"job {waiting_job.id}"),
                self._context.ledger.writing(SERVICE) as session,
            ):
                job = job_with_context(session, waiting_job.id)
                attempts.lock_job(session, job)
                if not awaits_run(job):
                    continue
                deployment = job.runtemplate.deployment_id
                run = runs.get((deployment, job.schedule)) if deployment else None
                if run is not None:
                    job.flow_run_id = run
                else:
                    enqueue(session, OutboxKind.CREATE_RUN, job.id)
