"""Lost jobs: their worker is silent, or their flow run was never claimed.

Each function works inside the caller's transaction and commits nothing.
"""

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from datetime import timedelta

from jobauto_prefect.definitions import ContactLost
from jobauto_prefect.errors import Conflict
from jobauto_prefect.jobs.outcome.cancellation import end_unstarted
from jobauto_prefect.jobs.outcome.results import record_end, result_of
from jobauto_prefect.jobs.outcome.retry import RetryPolicy, finish_attempt
from jobauto_prefect.ledger.audit.trail import WritingSession
from jobauto_prefect.ledger.jobs import attempts
from jobauto_prefect.ledger.jobs.leases import end_lease
from jobauto_prefect.ledger.outbox import OutboxKind, enqueue
from jobauto_prefect.ledger.queries.jobs import job_with_context
from jobauto_prefect.ledger.records import Job, Lease
from jobauto_prefect.ledger.states import JobState, next_job_state
from jobauto_prefect.runtime.protocol import Ending, Report
from jobauto_prefect.settings import Settings


def mark_lost(session: WritingSession, job: Job, report: Report, settings: Settings) -> None:
    """Mark a job lost whose worker has been silent for one lease; `report` says so.

    Its process may still run. If the policy lets it finish without contact, its end is awaited; if
    the policy stops it, it has stopped one lease later.

    Raises:
        Conflict: it has ended otherwise.
    """
    attempts.lock_job(session, job)
    stops = RetryPolicy.read(job.policy).on_contact_lost == ContactLost.STOP
    result = result_of(job, report, settings.language, heard=stops)
    if stops:
        stopped_by = report.ended_at + timedelta(
            seconds=settings.lease_seconds + settings.stop_seconds
        )
        result = replace(result, not_before=stopped_by, fenced=True)
    record_end(session, job, result)


def mark_certainly_lost(
    session: WritingSession, held: Sequence[Lease], message: str, settings: Settings
) -> None:
    """Mark jobs lost whose processes are gone: the follow-up starts now, no report counts.

    Jobs that have ended meanwhile keep their end.
    """
    jobs = [job_with_context(session, lease.job_id) for lease in held]
    attempts.lock_jobs(session, jobs)
    for job, lease in zip(jobs, held, strict=True):
        if job.claim_id == lease.claim_id:
            with suppress(Conflict):
                report = Report(
                    claim_id=lease.claim_id,
                    worker=lease.worker,
                    ending=Ending.LOST,
                    message=message,
                    ended_at=session.clock(),
                )
                result = result_of(job, report, settings.language)
                record_end(session, job, replace(result, fenced=True))
                enqueue(session, OutboxKind.SHOW_JOB, job.id)


def close_lost(session: WritingSession, job: Job) -> None:
    """Close a lost job that has not reported in time: its follow-up starts now.

    Until the next attempt is granted, a report may still come and withdraw the follow-up.
    """
    attempts.lock_job(session, job)
    lease = session.get(Lease, job.id)
    if job.state != JobState.LOST or lease is None or lease.ends_by is None:
        return
    job.end = session.clock()
    if job.cancel_reason is not None:
        job.state = next_job_state(JobState.LOST, JobState.CANCELLED)
        job.message = f"cancelled: {job.cancel_reason}; its worker fell silent"
    settles = finish_attempt(session, job, again=True)
    end_lease(session, lease, may_report=not settles)


def mark_unclaimed_lost(session: WritingSession, job: Job, message: str) -> None:
    """Mark an attempt lost whose flow run ended before a worker claimed it."""
    attempts.lock_job(session, job)
    end_unstarted(session, job, JobState.LOST, message)
    if job.task is not None:
        job.task.attempts += 1
    finish_attempt(session, job, again=True)
