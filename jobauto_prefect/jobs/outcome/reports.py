"""Reports of workers about the jobs they run: output, artifacts, ends."""

import logging
import mimetypes
from collections.abc import Sequence
from uuid import UUID

from jobauto_prefect.bounded_process import TooExpensive
from jobauto_prefect.errors import Conflict, Fault, Forbidden
from jobauto_prefect.jobs.outcome.event_values import findings_of
from jobauto_prefect.jobs.outcome.results import record_result, run_status_of
from jobauto_prefect.ledger.audit.trail import WritingSession, write_entry
from jobauto_prefect.ledger.jobs import leases
from jobauto_prefect.ledger.jobs.attempts import lock_reported_job
from jobauto_prefect.ledger.jobs.confirmations import require_confirmation
from jobauto_prefect.ledger.outbox import OutboxKind, enqueue
from jobauto_prefect.ledger.queries.jobs import artifacts_of, job_with_context
from jobauto_prefect.ledger.records import Job, Lease
from jobauto_prefect.ledger.states import LIVE_JOBS, JobState
from jobauto_prefect.ledger.store import ReadingSession
from jobauto_prefect.runtime.protocol import (
    Ending,
    OutputBatch,
    Report,
    ReportAnswer,
)
from jobauto_prefect.settings import Settings

logger = logging.getLogger(__name__)


def job_of_claim(
    session: ReadingSession, job_id: int, claim_id: UUID, pools: tuple[str, ...], settings: Settings
) -> Job:
    """Return the job of a worker's claim.

    Raises:
        NotFound: there is no such job.
        Forbidden: another claim has it, or the token does not name its pool.
    """
    job = job_with_context(session, job_id)
    _require_claim(job, claim_id, pools, settings)
    return job


def _require_claim(job: Job, claim_id: UUID, pools: tuple[str, ...], settings: Settings) -> None:
    if job.claim_id != claim_id:
        raise Forbidden(f"job {job.id} was claimed by somebody else")
    if (job.runtemplate.pool or settings.pool) not in pools:
        raise Forbidden(f"this token is not for the work pool of job {job.id}")


def open_job_of_claim(
    session: ReadingSession, job_id: int, claim_id: UUID, pools: tuple[str, ...], settings: Settings
) -> Job:
    """Return the job of a worker's claim whose report still counts.

    Raises:
        NotFound: there is no such job.
        Forbidden: another claim has it, or the token does not name its pool.
        Conflict: it has ended, and its record is complete.
    """
    job = job_of_claim(session, job_id, claim_id, pools, settings)
    if job.state != JobState.RUNNING and session.get(Lease, job_id) is None:
        raise Conflict(f"job {job_id} has ended ({job.state}); nothing more can be added or read")
    return job


def add_output(session: WritingSession, job: Job, batch: OutputBatch) -> None:
    """Store lines of output; a line sent twice is stored once."""
    leases.add_output(session, job.id, [dict(lines) for lines in batch.output])


def add_artifact(
    session: WritingSession, job: Job, *, path: str, name: str, kind: str, content: bytes
) -> None:
    """Store a file of a job; a file sent twice is stored once."""
    guessed, _ = mimetypes.guess_type(path)
    leases.put_artifact(
        session,
        job.id,
        path=path,
        name=name or path,
        type=kind,
        content_type=guessed or "application/octet-stream",
        content=content,
    )


def accept_report(
    session: WritingSession,
    job_id: int,
    report: Report,
    pools: tuple[str, ...],
    settings: Settings,
    judged: Sequence[Fault] | Exception | None = None,
) -> ReportAnswer:
    """Record the result in a worker's report; a job that has already ended otherwise is unchanged.

    `pools` are those of the worker's token. `judged` is the check of the job's products, if it had
    to run before the transaction.

    Raises:
        NotFound: there is no such job.
        Forbidden: another claim has it, or the token does not name its pool.
        NotLight: the check of its products must run before the transaction.
    """
    job, left_artifacts = lock_reported_job(session, job_id)
    _require_claim(job, report.claim_id, pools, settings)
    try:
        record_result(session, job, report, settings.language)
        recorded = True
        _judge_produced(session, job, judged)
    except Conflict as error:
        recorded = False
        if job.state not in LIVE_JOBS:
            require_confirmation(session, job.id)  # the reporter may have told Prefect the same end
        if job.state == JobState.LOST and report.ending is not Ending.LOST:
            shown = {"report": [None, f"{report.ending} {report.exit_code}: {error}"]}
            write_entry(session, "Job", "refuse", shown, job.id)
    if recorded and report.ending is Ending.LOST:
        enqueue(session, OutboxKind.SHOW_JOB, job.id)  # the reporter of a loss can't tell Prefect
    artifacts = artifacts_of(session, job.id) if left_artifacts else ()
    run_status = run_status_of(job, settings, artifacts, report.produced)
    return ReportAnswer(recorded=recorded, run_status=run_status)


def _judge_produced(
    session: WritingSession, job: Job, judged: Sequence[Fault] | Exception | None
) -> None:
    """Add warnings if a completed job's products deviate from its definition."""
    if job.state in (JobState.SUCCEEDED, JobState.WARNING):
        try:
            if isinstance(judged, Exception):
                raise judged
            findings = findings_of(session, job) if judged is None else judged
        except TooExpensive as error:
            message = f"what it produced can't be checked: {error}; narrow the paths in `produces`"
            findings = [Fault("/produces", "not-judged", message)]
        except (ArithmeticError, LookupError, RecursionError, TypeError, ValueError):
            logger.exception("what job %s produced can't be judged", job.id)
            findings = [Fault("/produces", "not-judged", "what it produced can't be checked")]
        if findings:
            job.warnings = [*job.warnings, *(finding.as_dict() for finding in findings)]
