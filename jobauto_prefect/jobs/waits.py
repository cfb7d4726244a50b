"""Reasons why jobs that are due do not start."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from jobauto_prefect.jobs.windows.closed_time import freeze_message
from jobauto_prefect.ledger.audit.trail import WritingSession
from jobauto_prefect.ledger.jobs import waits
from jobauto_prefect.ledger.jobs.waits import LivingWorker
from jobauto_prefect.ledger.records import Job
from jobauto_prefect.ledger.service_status import PrefectStatus
from jobauto_prefect.ledger.states import JobState
from jobauto_prefect.ledger.store import ReadingSession
from jobauto_prefect.runtime.fitness import NEEDED_BY_ALL
from jobauto_prefect.settings import Settings
from jobauto_prefect.wording import pluralize


@dataclass(frozen=True, slots=True)
class WaitContext:
    """What jobs wait for. `workers`: work pool -> its live workers, at least one.

    `run_errors`: job whose flow run is missing -> why it could not be created; None: not tried yet.
    `frozen` is why nothing starts at all; None: there is no freeze.
    """

    prefect: PrefectStatus = field(default_factory=PrefectStatus)
    workers: Mapping[str, Sequence[LivingWorker]] = field(default_factory=dict)
    run_errors: Mapping[int, str | None] = field(default_factory=dict)
    frozen: str | None = None


def wait_reasons(
    session: ReadingSession, jobs: Iterable[Job], settings: Settings, now: datetime
) -> dict[int, str]:
    """Return job -> what it waits for, for due jobs; many need no more queries than one."""
    waiting = [job for job in jobs if job.state == JobState.SCHEDULED and job.schedule <= now]
    if not waiting:
        return {}
    starts = _starts(session, waiting)
    pools = {job_id: start.pool or settings.pool for job_id, start in starts.items()}
    alive_since = now - timedelta(seconds=settings.lease_seconds)
    found = waits.surroundings_of(session, set(pools.values()), alive_since, now)
    around = WaitContext(
        found.prefect,
        found.workers,
        {job_id: start.run_error for job_id, start in starts.items()},
        None if found.freeze is None else freeze_message(found.freeze),
    )
    by_job = {job.id: wait_reason(job, pools[job.id], around) for job in waiting}
    return {job_id: why for job_id, why in by_job.items() if why is not None}


def _starts(session: ReadingSession, waiting: Sequence[Job]) -> Mapping[int, waits.Start]:
    """Return how jobs start; jobs that this transaction creates need no query."""
    written = session.written() if isinstance(session, WritingSession) else ()
    created = [change.record for change in written if change.action == "create"]
    if all(job in created for job in waiting):
        return {job.id: waits.Start(job.runtemplate.pool) for job in waiting}
    return waits.starts_of(session, [job.id for job in waiting])


def wait_reason(job: Job, pool: str, around: WaitContext) -> str | None:
    """Return what a due job waits for; None if it may start at any moment."""
    return around.frozen or _in_prefect(job, pool, around) or _at_workers(job, pool, around)


def _in_prefect(job: Job, pool: str, around: WaitContext) -> str | None:
    if around.prefect.away is not None:
        return "Prefect does not answer; the job starts when it is back"
    if pool in around.prefect.paused:
        return f"work pool {pool} is paused in Prefect"
    if around.run_errors.get(job.id):
        return f"its flow run can't be created yet: {around.run_errors[job.id]}"
    return None


def _at_workers(job: Job, pool: str, around: WaitContext) -> str | None:
    living = around.workers.get(pool)
    if not living and pool in around.prefect.foreign:
        return job.message
    if not living:
        start = f"jobauto worker start --pool {pool}"
        return f"no worker is alive in work pool {pool}; start one: {start}"
    needed = NEEDED_BY_ALL | {job.executor}
    hindrances = {
        worker.name: next((why for part, why in worker.hindrances.items() if part in needed), None)
        for worker in living
    }
    able = [worker for worker in living if hindrances[worker.name] is None]
    if not able:
        causes = "; ".join(f"{name}: {why}" for name, why in hindrances.items())
        return f"no worker of work pool {pool} can start it: {causes}"
    if job.message:
        return job.message  # the answer to its last claim was: try again
    if all(worker.is_full for worker in able):
        running = sum(worker.running for worker in able)
        return f"the workers of work pool {pool} are full: they run {pluralize(running, 'job')}"
    return None
