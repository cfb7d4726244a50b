"""The decision about a claim: granted with a launch, or refused."""

from dataclasses import dataclass
from datetime import datetime, timedelta
from uuid import UUID

from jobauto_prefect.definitions import Misfire
from jobauto_prefect.errors import ClaimOver, Conflict
from jobauto_prefect.jobs.claims.claim import NotDue, OpenClaim, Refused, UnknownRun
from jobauto_prefect.jobs.claims.conditions import StartConditions
from jobauto_prefect.jobs.claims.credentials import limited_credentials
from jobauto_prefect.jobs.claims.event_jobs import EventJob
from jobauto_prefect.jobs.claims.launch import JobLaunch, settle_executor
from jobauto_prefect.jobs.claims.target import Target
from jobauto_prefect.jobs.outcome.cancellation import block, skip
from jobauto_prefect.jobs.outcome.results import PREFECT_STATES
from jobauto_prefect.jobs.outcome.retry import LIMITS, RetryPolicy
from jobauto_prefect.ledger.audit.trail import WritingSession
from jobauto_prefect.ledger.events import deliveries
from jobauto_prefect.ledger.jobs import attempts
from jobauto_prefect.ledger.jobs.attempts import inactive_reason
from jobauto_prefect.ledger.jobs.leases import renew_lease
from jobauto_prefect.ledger.records import Freeze, Job, Lease, WorkerRecord
from jobauto_prefect.ledger.states import (
    JobState,
    TaskReason,
    TaskState,
    next_job_state,
    next_task_state,
)
from jobauto_prefect.monitoring import tracing
from jobauto_prefect.runtime.protocol import ClaimAnswer, Launch, PrefectState

UNHEARD = timedelta(seconds=60)
"""Time after its timeout at which a silent job has certainly ended."""

MOST_AHEAD = timedelta(seconds=0.5)
"""How early a waiting worker's claim may be granted: Prefect lets its run be Running only then."""


def decide_claim(claim: OpenClaim) -> ClaimAnswer:
    """Grant a launch, or refuse with the state that Prefect is to show.

    A claim that comes before its run is due is not refused: the obstacle may be gone when it is.

    Raises:
        NotDue: it must come again when its run is due.
        NotAsked: it needs a preflight, and had none.
        NumberTaken: another job of the flow run is live, or has this run number.
        ClaimOver: the claim was granted before, and its job has ended, was lost or superseded.
        Contended: another claim of the flow run was decided meanwhile.
        Conflict: another start of this worker now has its name, or it can't use the executor.
        Forbidden: the run is for a pool the worker's token does not name.
    """
    asked, session = claim.asked, claim.session
    if claim.time_until_due > MOST_AHEAD:
        raise NotDue
    attempts.lock_flow_run(session, asked.flow_run_id)
    claimant = attempts.lock_worker(
        session, asked.worker, asked.instance, claim.pools, claim.subject
    )
    try:
        job = Target(claim).resolve(concerns_task=claimant.concerns_task)
        return ClaimAnswer(launch=JobStart(claim, job).launch(claimant.worker, claimant.freeze))
    except UnknownRun as not_known:
        return ClaimAnswer(unheard=not_known.unheard)
    except Refused as refused:
        if claim.time_until_due:
            raise NotDue from refused
        return ClaimAnswer(refusal=refused.answer(asked.claim_id))


@dataclass(frozen=True, slots=True)
class Grant:
    """Who may start a job, where, when, and for how many seconds."""

    claim_id: UUID
    worker: WorkerRecord
    directory: str
    starts_at: datetime
    timeout_seconds: float


class JobStart:
    """The start of a job by the claim of its flow run; both are locked."""

    def __init__(self, claim: OpenClaim, job: Job) -> None:
        self._claim = claim
        self._asked = claim.asked
        self._session = claim.session
        self._job = job

    def launch(self, worker: WorkerRecord, freeze: Freeze | None) -> Launch:
        """Grant the job to the worker, and return its launch.

        Raises:
            Refused: it may not start, or not yet; the record says why.
        """
        job = self._job
        if job.claim_id == self._asked.claim_id:
            return self._repeated()
        if job.executor in self._asked.without:
            raise Conflict(f"this worker can't use executor {job.executor} at the moment")
        job.flow_run_id = self._asked.flow_run_id
        if job.id is None:  # a known job is written once, with everything the grant adds
            self._session.add(job)
            self._session.flush()
        try:
            StartConditions(self._claim, job).require(freeze)
        except Refused as refused:
            if refused.state is PrefectState.SCHEDULED:
                job.message = str(refused)  # the job waits, and its record says why
            raise
        job.message = None
        try:
            return self._granted(worker)
        except Refused as refused:
            self._end_refused(refused)
            raise

    def _repeated(self) -> Launch:
        """Return the same launch for a repeated claim while its job is running."""
        job = self._job
        if job.state in (JobState.BLOCKED, JobState.SKIPPED):
            raise Refused("refused", job.message or job.state, PREFECT_STATES[job.state])
        if job.state != JobState.RUNNING:
            if attempts.is_superseded(self._session, job):
                message = f"another attempt has replaced job {job.id}"
                raise ClaimOver("superseded", message)
            if job.state == JobState.LOST:
                raise ClaimOver("lost", f"job {job.id} was considered lost: {job.message}")
            raise ClaimOver("ended", f"job {job.id} is {job.state}")
        renew_lease(self._session, job)
        launch = JobLaunch(self._claim, job)
        return launch.answer(launch.prepare())

    def _granted(self, worker: WorkerRecord) -> Launch:
        job, template = self._job, self._job.runtemplate
        reason = inactive_reason(template)
        if reason is not None:
            raise Refused(TaskReason.INACTIVE.value, reason, PrefectState.FAILED)
        job.traceparent = job.traceparent or tracing.note("start")
        settle_executor(template, job)
        launch = JobLaunch(self._claim, job)
        launch.require_credentials()
        if job.event_id is not None:
            EventJob(self._claim, job, launch.terms.definition).take_values()
        launch.take_parameters()
        prepared = launch.prepare()
        job.run_number = self._asked.run_number
        job.env, job.command = prepared.environment_shown, prepared.command_shown
        job.undeclared = prepared.left_out
        job.app_version = template.app.version
        # The rules for the job's end are stored now, so that later edits do not change them.
        codes = template.app.document.get("exitCodes") or {}
        limited = [credential.id for credential in limited_credentials(template)]
        kept = {LIMITS: limited} if limited else {}
        job.policy = {"exit_codes": codes, **RetryPolicy.of(template).as_dict(), **kept}
        granted = Grant(
            claim_id=self._asked.claim_id,
            worker=worker,
            directory=launch.directory,
            starts_at=self._claim.starts_at,
            timeout_seconds=launch.timeout_seconds + launch.preparing_seconds,
        )
        grant_job(self._session, job, granted)
        return launch.answer(prepared)

    def _end_refused(self, refused: Refused) -> None:
        """End the job that can't start; repeated claims get the same refusal."""
        self._job.claim_id = self._asked.claim_id  # a repeated claim is refused again
        if refused.state is PrefectState.CANCELLED:
            skip(self._session, self._job, str(refused))
            return
        # A retry may have been decided just before its run template was switched off.
        is_inactive = refused.reason == TaskReason.INACTIVE
        reason = TaskReason.INACTIVE if is_inactive else TaskReason.BLOCKED
        block(self._session, self._job, str(refused), reason)
        deliveries.mark_refused(self._session, self._job, str(refused))


def grant_job(session: WritingSession, job: Job, granted: Grant) -> None:
    """Grant a job to a worker: it is running, its lease begins, its predecessors' leases end.

    Raises:
        Conflict: the job is no longer scheduled.
    """
    job.state = next_job_state(JobState(job.state), JobState.RUNNING)
    job.claim_id, job.worker = granted.claim_id, granted.worker.name
    job.message = None  # the reason for waiting no longer applies
    now = session.clock()
    job.begin = granted.starts_at
    task = job.task
    if task is not None:
        task.state = next_task_state(TaskState(task.state), TaskState.RUNNING)
        if job.runtemplate.misfire == Misfire.ALL and now > task.deadline:
            task.deadline = now + (task.window_end - task.window_start)
        task.attempts += 1
        job.attempt = task.attempts
    session.flush()
    attempts.fence_others(session, job)
    session.add(
        Lease(
            job_id=job.id,
            worker=granted.worker.name,
            instance=granted.worker.instance,
            granted_renewal=granted.worker.renewal,
            claim_id=granted.claim_id,
            directory=granted.directory,
            renewed_at=now,
            ends_by=now + timedelta(seconds=granted.timeout_seconds) + UNHEARD,
        )
    )
