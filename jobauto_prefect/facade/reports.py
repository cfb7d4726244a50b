"""What workers tell of the jobs they run: leases, output, artifacts, ends."""

import mimetypes
from uuid import UUID

from jobauto_prefect.engine.settling import settle, story_of
from jobauto_prefect.errors import Conflict, Forbidden
from jobauto_prefect.facade.service import Service
from jobauto_prefect.ledger import leases, queries
from jobauto_prefect.ledger.audit import WritingSession, write_entry
from jobauto_prefect.ledger.records import Job
from jobauto_prefect.ledger.states import JobState
from jobauto_prefect.ledger.store import ReadingSession
from jobauto_prefect.ledger.wishes import WishKind, wish
from jobauto_prefect.runtime.protocol import (
    Ending,
    LeftOver,
    OutputBatch,
    Renewal,
    RenewalAnswer,
    Report,
    ReportAnswer,
    WorkerHello,
    WorkerWelcome,
)
from jobauto_prefect.settings import Settings


def welcome(session: WritingSession, hello: WorkerHello, settings: Settings) -> WorkerWelcome:
    """A worker starts: it has its name for itself, and hears of its predecessor's jobs.

    Those on another host may still run there: they are left to their leases.

    Raises:
        Conflict: a live worker has this name.
    """
    same_host = leases.register_worker(
        session,
        hello.worker,
        hello.pool,
        hello.host,
        hello.instance,
        run_as=hello.run_as,
        same_place=hello.same_place,
        lease_seconds=settings.lease_seconds,
    )
    left_over = [
        LeftOver(
            job_id=lease.job_id,
            claim_id=lease.claim_id,
            directory=lease.directory,
            flow_run_id=flow_run_id,
        )
        for lease, flow_run_id in queries.leases_of_worker(session, hello.worker)
        if flow_run_id is not None and same_host
    ]
    return WorkerWelcome(lease_seconds=settings.lease_seconds, left_over=left_over)


def renew(session: WritingSession, renewal: Renewal) -> RenewalAnswer:
    """Renew the leases of a worker's jobs, and say which are to be ended."""
    leases.see_worker(session, renewal.worker)
    if not renewal.jobs:
        return RenewalAnswer()
    live = leases.renew(session, renewal.jobs)
    stop = queries.cancelled_among(session, list(renewal.jobs))
    for job_id in renewal.jobs:
        if job_id not in live:
            stop.setdefault(job_id, "the ledger does not hold this job for running")
    return RenewalAnswer(stop=stop)


def job_of_claim(
    session: ReadingSession, job_id: int, claim_id: UUID, pools: tuple[str, ...], settings: Settings
) -> Job:
    """The job a worker speaks of.

    Raises:
        NotFound: there is no such job.
        Forbidden: it is another claim's, or of a pool the token does not name.
    """
    job = queries.job_with_context(session, job_id)
    if job.claim_id != claim_id:
        raise Forbidden(f"job {job_id} was claimed by somebody else")
    if (job.runtemplate.pool or settings.pool) not in pools:
        raise Forbidden(f"this token is not for the work pool of job {job_id}")
    return job


def add_output(session: WritingSession, job: Job, batch: OutputBatch) -> None:
    """Keep lines of output; one sent twice is kept once."""
    leases.add_lines(session, job.id, [line.model_dump() for line in batch.lines])


def add_artifact(
    session: WritingSession, job: Job, *, path: str, name: str, kind: str, content: bytes
) -> None:
    """Keep a file of a job; one sent twice is kept once."""
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


def accept(service: Service, session: WritingSession, job: Job, report: Report) -> ReportAnswer:
    """Settle a job by its report; one that is over otherwise stays as it is."""
    try:
        settle(session, job, report, service.settings.language)
        recorded = True
    except Conflict as error:
        recorded = False
        if job.state == JobState.LOST and report.ending is not Ending.LOST:
            said = {"report": [None, f"{report.ending} {report.exit_code}: {error}"]}
            write_entry(session, "Job", "refuse", said, job.id)
    if recorded and report.ending is Ending.LOST:
        wish(session, WishKind.SHOW_JOB, job.id)  # who reports a loss can't tell Prefect
    artifacts = queries.artifacts_of(session, job.id)
    story = story_of(job, service.settings, artifacts, report.produced)
    return ReportAnswer(recorded=recorded, story=story)
