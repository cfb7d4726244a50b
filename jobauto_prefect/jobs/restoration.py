"""A ledger restored from a backup: it is frozen, and earlier workers are not trusted."""

from collections.abc import Collection
from dataclasses import dataclass
from datetime import datetime, timedelta
from uuid import UUID

from jobauto_prefect.jobs.outcome.loss import mark_lost
from jobauto_prefect.jobs.windows.freezes import begin_freeze
from jobauto_prefect.ledger.audit.trail import WritingSession, write_entry
from jobauto_prefect.ledger.jobs import confirmations, restoration
from jobauto_prefect.ledger.jobs.attempts import lock_job
from jobauto_prefect.ledger.outbox import OutboxKind, enqueue
from jobauto_prefect.ledger.queries.jobs import job_with_context
from jobauto_prefect.ledger.records import Job, Lease
from jobauto_prefect.ledger.states import JobState
from jobauto_prefect.runtime.protocol import Ending, Report
from jobauto_prefect.settings import Settings

SECOND = timedelta(seconds=1)


@dataclass(frozen=True, slots=True)
class LostJob:
    """A job that was running when the backup was made."""

    job_id: int
    runtemplate: str
    worker: str
    ends_by: datetime | None


@dataclass(frozen=True, slots=True)
class RestorationResult:
    """Changes made to a restored ledger."""

    frozen_since: datetime
    revoked: int
    lost: tuple[LostJob, ...]
    new_runs: tuple[int, ...]
    told_again: int


def prepare_restored(
    session: WritingSession,
    settings: Settings,
    taken_at: datetime,
    prefect_taken_at: datetime | None,
    unknown_runs: Collection[UUID],
) -> RestorationResult:
    """Freeze a restored ledger, and settle outdated state; one transaction, one audit entry.

    - Worker tokens are revoked, and their workers count as silent.
    - Running jobs are lost like those of a silent worker: their processes may still run, so the
      next
      attempts wait until a worker of that name reports, until `jobauto worker lost`, or until the
      timeout (`on_contact_lost`).
    - Jobs that wait for flow runs missing in Prefect's copy (`unknown_runs`) get new ones.
    - What was written or ended since that copy is sent to Prefect again. Otherwise its old state
      would look like somebody's changes there. None: there is no copy of Prefect.
    """
    reason = f"restored from a backup of {taken_at.isoformat(timespec='seconds')}"
    freeze = begin_freeze(session, reason, None)
    revoked = restoration.revoke_worker_tokens(session)
    lease = timedelta(seconds=settings.lease_seconds)
    restoration.silence_workers(session, session.clock() - lease - SECOND)
    lost = tuple(
        _lose(session, held, reason, settings) for held in restoration.running_leases(session)
    )
    # Jobs that wait for a run that Prefect no longer knows get a new one.
    waiting = [job for job in restoration.waiting_jobs(session) if job.flow_run_id in unknown_runs]
    for job in waiting:
        lock_job(session, job)
        if job.state == JobState.SCHEDULED:
            job.flow_run_id = None
            enqueue(session, OutboxKind.CREATE_RUN, job.id)
    new_runs = tuple([job.id for job in waiting])
    told_again = 0
    if prefect_taken_at is not None:
        since = prefect_taken_at - restoration.MARGIN
        told_again = restoration.enqueue_changed_since(session, since)
        confirmations.require_confirmation_since(session, since)
    changes = {
        "taken_at": [None, taken_at.isoformat()],
        "worker_tokens_revoked": [None, revoked],
        "lost": [None, [lost_job.job_id for lost_job in lost]],
    }
    write_entry(session, "Backup", "restore", changes)
    return RestorationResult(freeze.since, revoked, lost, new_runs, told_again)


def _lose(session: WritingSession, held: Lease, reason: str, settings: Settings) -> LostJob:
    job = job_with_context(session, held.job_id)
    report = Report(
        claim_id=held.claim_id,
        worker=held.worker,
        ending=Ending.LOST,
        message=f"it ran when the backup was made ({reason})",
        ended_at=session.clock(),
    )
    shown = LostJob(job.id, name_of(job), held.worker, held.ends_by)
    mark_lost(session, job, report, settings)
    enqueue(session, OutboxKind.SHOW_JOB, job.id)
    return shown


def name_of(job: Job) -> str:
    """Return the run template of a job, as the command line names it."""
    return f"{job.runtemplate.company.slug}/{job.runtemplate.name}"
