"""Jobs that are lost: a worker is silent, or nobody claimed a flow run.

Each function works inside the caller's transaction and commits nothing.
"""

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from datetime import timedelta

from jobauto_prefect.definitions import ContactLost
from jobauto_prefect.errors import Conflict
from jobauto_prefect.jobs.cancellation import end_unstarted
from jobauto_prefect.jobs.outcome import record_end, settlement_of
from jobauto_prefect.jobs.retry import Policy, conclude
from jobauto_prefect.ledger import attempts, queries
from jobauto_prefect.ledger.audit import WritingSession
from jobauto_prefect.ledger.records import Job, Lease
from jobauto_prefect.ledger.states import JobState, next_job_state
from jobauto_prefect.ledger.wishes import WishKind, wish
from jobauto_prefect.runtime.protocol import Ending, Report
from jobauto_prefect.settings import Settings


def lose(session: WritingSession, job: Job, report: Report, settings: Settings) -> None:
    """A job's worker has been silent for one lease; `report` says so.

    Its process may live. What was told to go on without contact is waited for; what was told to
    stop has done so one lease later.

    Raises:
        Conflict: it has ended otherwise.
    """
    stops = Policy.read(job.policy).on_contact_lost == ContactLost.STOP
    settlement = settlement_of(job, report, settings.language, heard=stops)
    if stops:
        stopped_by = report.ended_at + timedelta(
            seconds=settings.lease_seconds + settings.stop_seconds
        )
        settlement = replace(settlement, not_before=stopped_by, fenced=True)
    record_end(session, job, settlement)


def lose_for_certain(
    session: WritingSession, held: Sequence[Lease], message: str, settings: Settings
) -> None:
    """Nothing of these jobs lives; what follows a loss follows now, and no report of them counts.

    Those that have ended meanwhile stay as they are.
    """
    jobs = [queries.job_with_context(session, lease.job_id) for lease in held]
    attempts.lock_jobs(session, jobs)
    for job, lease in zip(jobs, held, strict=True):
        if job.claim_id == lease.claim_id:
            with suppress(Conflict):
                _lose_for_certain(session, job, lease, message, settings)


def _lose_for_certain(
    session: WritingSession, job: Job, lease: Lease, message: str, settings: Settings
) -> None:
    report = Report(
        claim_id=lease.claim_id,
        worker=lease.worker,
        ending=Ending.LOST,
        message=message,
        ended_at=session.clock(),
    )
    settlement = settlement_of(job, report, settings.language)
    record_end(session, job, replace(settlement, fenced=True))
    wish(session, WishKind.SHOW_JOB, job.id)


def give_up(session: WritingSession, job: Job) -> None:
    """Nobody has heard of a lost job, and its time is up: what follows a loss follows now.

    Until the next attempt is granted a report may still come, and withdraws it.
    """
    attempts.lock_job(session, job)
    lease = session.get(Lease, job.id)
    if job.state != JobState.LOST or lease is None or lease.ends_by is None:
        return
    job.end = session.clock()
    if job.cancel_reason is not None:
        job.state = next_job_state(JobState.LOST, JobState.CANCELLED)
        job.message = f"cancelled: {job.cancel_reason}; its worker fell silent"
    settles = conclude(session, job, again=True)
    attempts.end_lease(session, lease, may_report=not settles)


def lose_unclaimed(session: WritingSession, job: Job, message: str) -> None:
    """Whoever was to run a scheduled job died before its claim: an attempt is lost."""
    attempts.lock_job(session, job)
    end_unstarted(session, job, JobState.LOST, message)
    if job.task is not None:
        job.task.attempts += 1
    conclude(session, job, again=True)
