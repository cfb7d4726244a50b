"""Notices of jobs that run longer than usual and of windows that are late.

One statement finds the running jobs, one the open windows. The usual time is queried once per job.
"""

from datetime import datetime, timedelta

from jobauto_prefect.compiler.scheduling.deadlines import later
from jobauto_prefect.compiler.scheduling.schedule import zone_of
from jobauto_prefect.definitions.records.notices import (
    LEAST_EXCESS,
    Occasion,
    is_wanted,
    slow_after,
)
from jobauto_prefect.jobs.isolation import apart
from jobauto_prefect.jobs.notices import notify_late, notify_slow
from jobauto_prefect.jobs.outcome.retry import has_lapsed
from jobauto_prefect.ledger.audit.trail import SERVICE
from jobauto_prefect.ledger.jobs import attempts, overruns
from jobauto_prefect.ledger.queries.jobs import job_with_context
from jobauto_prefect.ledger.states import LIVE_TASKS, JobState, TaskState
from jobauto_prefect.ledger.store import Ledger
from jobauto_prefect.settings import Settings


class OverrunMonitor:
    """Reports overdue jobs and windows; several instances report each only once."""

    def __init__(self, ledger: Ledger, settings: Settings) -> None:
        self._ledger = ledger
        self._settings = settings
        self._slow_after: dict[int, timedelta | None] = {}

    def look(self) -> None:
        """Check once: notify of jobs that run too long, and of late windows."""
        now = self._ledger.clock()
        for job_id, usual in self._slow(now):
            with apart(f"job {job_id}"), self._ledger.writing(SERVICE) as session:
                job = job_with_context(session, job_id)
                attempts.lock_job(session, job)
                if job.state == JobState.RUNNING:
                    notify_slow(session, job, usual)
        for task_id, due in self._late(now):
            with apart(f"task {task_id}"), self._ledger.writing(SERVICE) as session:
                task = attempts.lock_task(session, task_id)
                # A task that lapses now is reported as missed or failed.
                lapses = task.state == TaskState.OPEN and has_lapsed(task, task.runtemplate, now)
                if task.state in LIVE_TASKS and not lapses:
                    notify_late(session, task, due)

    def _slow(self, now: datetime) -> list[tuple[int, timedelta]]:
        """Return the jobs that have run too long, and the time they may take."""
        with self._ledger.reading() as session:
            running = []
            for job in overruns.running_jobs(session, now - LEAST_EXCESS):
                with apart(f"job {job.id}"):
                    if is_wanted(Occasion.SLOW, job.of_template, job.of_company):
                        running.append(job)
            former = self._slow_after
            self._slow_after = {
                job.id: former[job.id]
                if job.id in former
                else slow_after(overruns.durations(session, job.runtemplate_id))
                for job in running
            }
        allowed = ((job, self._slow_after[job.id]) for job in running)
        return [(job.id, span) for job, span in allowed if span and now - job.begin > span]

    def _late(self, now: datetime) -> list[tuple[int, datetime]]:
        """Return the late windows with a notice for that, and when they were due."""
        with self._ledger.reading() as session:
            windows = overruns.open_windows(session, now)
        late = []
        for window in windows:
            with apart(f"task {window.id}"):
                if not is_wanted(Occasion.LATE, window.of_template, window.of_company):
                    continue
                due = window.deadline
                by = window.of_template.get("finished_by") or window.of_company.get("finished_by")
                if by is not None:
                    due = later(by, window.start, zone_of(window.zone or self._settings.timezone))
                if due < now:
                    late.append((window.id, due))
        return late
