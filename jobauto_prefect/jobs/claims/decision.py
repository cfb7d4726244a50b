"""The decision about a claim: granted with a launch, or refused (design, section 3)."""

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

from jobauto_prefect.definitions import Misfire
from jobauto_prefect.errors import ClaimOver, Conflict
from jobauto_prefect.jobs.claims.context import ClaimContext, NotDue, Refused, UnknownRun
from jobauto_prefect.jobs.claims.credentials import (
    limited_credentials,
    require_available,
    require_credentials,
    require_room,
)
from jobauto_prefect.jobs.claims.event_jobs import take_event
from jobauto_prefect.jobs.claims.launch import (
    job_directory,
    launch_of,
    prepare_launch,
    preparing_seconds,
    settle_executor,
    take_parameters,
    terms_of,
    timeout_of,
)
from jobauto_prefect.jobs.claims.target import (
    require_startable,
    resolve_job,
    time_of_start,
    time_until_due,
)
from jobauto_prefect.jobs.outcome.cancellation import block, skip
from jobauto_prefect.jobs.outcome.results import PREFECT_STATES, end_transition, transition_of
from jobauto_prefect.jobs.outcome.retry import LIMITS, RetryPolicy
from jobauto_prefect.jobs.windows.closed_time import freeze_message
from jobauto_prefect.ledger.audit.trail import WritingSession
from jobauto_prefect.ledger.events import deliveries
from jobauto_prefect.ledger.jobs import attempts
from jobauto_prefect.ledger.jobs.attempts import inactive_reason
from jobauto_prefect.ledger.jobs.leases import renew_lease
from jobauto_prefect.ledger.records import Freeze, Job, Lease, RunTemplate, Task, WorkerRecord
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
"""How long after its timeout a job of which nothing is heard has ended for certain."""

FREEZE_LOOK = timedelta(minutes=10)
"""How often a job looks whether a freeze has ended: nobody tells it of `until`."""

MOST_AHEAD = timedelta(seconds=0.5)
"""So long before its run is due a claim is granted, to a worker that waits: so long before Prefect
lets it be Running."""


@dataclass(frozen=True, slots=True)
class Grant:
    """Who may start a job, where, when, and for how many seconds."""

    claim_id: UUID
    worker: WorkerRecord
    directory: str
    starts_at: datetime
    timeout_seconds: float


def decide_claim(context: ClaimContext) -> ClaimAnswer:
    """Grant a launch, or refuse with what Prefect shall show.

    A claim that comes before its run is due is not refused: what is in its way may be gone by then.

    Raises:
        NotDue: it is to come again when its run is due.
        NumberTaken: another job of the flow run is live, or has this run number.
        ClaimOver: the claim was granted before, and its job has ended, was lost or superseded.
        Contended: another claim of the flow run was decided meanwhile.
        Conflict: another start of this worker has its name now, or it can't use the executor.
        Forbidden: the run is for a pool the worker's token does not name.
    """
    claim, session = context.claim, context.session
    if time_until_due(claim, session.clock()) > MOST_AHEAD:
        raise NotDue
    attempts.lock_flow_run(session, claim.flow_run_id)
    worker, freeze = attempts.lock_worker(session, claim.worker, claim.instance, context.pools)
    try:
        return ClaimAnswer(launch=_grant(context, resolve_job(context), worker, freeze))
    except UnknownRun as not_known:
        return ClaimAnswer(unheard=not_known.unheard)
    except Refused as refused:
        if time_until_due(claim, session.clock()):
            raise NotDue from refused
        story = refused.refusal.story
        if story.state is not PrefectState.SCHEDULED and story.transition_id is None:
            story.transition_id = transition_of(context.claim.claim_id, story.state)
        return ClaimAnswer(refusal=refused.refusal)


def _grant(context: ClaimContext, job: Job, worker: WorkerRecord, freeze: Freeze | None) -> Launch:
    template = job.runtemplate
    if job.claim_id == context.claim.claim_id:
        return _launch(context, template, job)
    if job.executor in context.claim.without:
        raise Conflict(f"this worker can't use executor {job.executor} just now")
    job.flow_run_id = context.claim.flow_run_id
    if job.id is None:  # a job that is known is written once, with all that is granted
        context.session.add(job)
        context.session.flush()
    try:
        if freeze is not None:
            _refuse_in_freeze(freeze, context.session.clock())
        require_startable(context, template, job)
        require_available(context, template)
        require_room(context, template, job)
    except Refused as refused:
        if refused.refusal.story.state is PrefectState.SCHEDULED:
            job.message = str(refused)  # it waits, and its record says why
        raise
    job.message = None
    try:
        return _launch_granted(context, template, job, worker)
    except Refused as refused:
        job.claim_id = context.claim.claim_id  # asked again, it is refused again
        if refused.refusal.story.state is PrefectState.CANCELLED:
            skip(context.session, job, str(refused))
        else:
            # A retry may have been decided just when its run template was switched off.
            is_inactive = refused.refusal.reason == TaskReason.INACTIVE
            reason = TaskReason.INACTIVE if is_inactive else TaskReason.BLOCKED
            block(context.session, job, str(refused), reason)
            deliveries.mark_refused(context.session, job, str(refused))
        refused.refusal.story.transition_id = end_transition(job)
        raise


def _refuse_in_freeze(freeze: Freeze, now: datetime) -> None:
    at = min(now + FREEZE_LOOK, freeze.until or now + FREEZE_LOOK)
    raise Refused("maintenance", freeze_message(freeze), PrefectState.SCHEDULED, at=at)


def _launch_granted(
    context: ClaimContext, template: RunTemplate, job: Job, worker: WorkerRecord
) -> Launch:
    reason = inactive_reason(template)
    if reason is not None:
        raise Refused(TaskReason.INACTIVE.value, reason, PrefectState.FAILED)
    job.traceparent = job.traceparent or tracing.note("start")
    settle_executor(template, job)
    terms = terms_of(template.app, context.settings.language)
    require_credentials(context, template, terms.definition)
    if job.event_id is not None:
        take_event(context, job, terms.definition)
    take_parameters(context, template, job, terms)
    prepared = prepare_launch(context, template, job, terms.definition)
    job.run_number = context.claim.run_number
    job.env, job.command = prepared.environment_shown, prepared.command_shown
    job.undeclared = prepared.left_out
    job.app_version = template.app.version
    job.policy = _policy(template)
    granted = Grant(
        claim_id=context.claim.claim_id,
        worker=worker,
        directory=job_directory(context.claim, job),
        starts_at=time_of_start(context),
        timeout_seconds=timeout_of(context, template)
        + preparing_seconds(template.app.document, job.executor),
    )
    grant_job(context.session, job, granted)
    return launch_of(context, template, job, prepared)


def grant_job(session: WritingSession, job: Job, granted: Grant) -> None:
    """Grant a job to a worker: it is running, its lease begins, its predecessors' leases end.

    Raises:
        Conflict: the job is not scheduled any more.
    """
    job.state = next_job_state(JobState(job.state), JobState.RUNNING)
    job.claim_id, job.worker = granted.claim_id, granted.worker.name
    job.message = None  # why it waited
    now = session.clock()
    job.begin = granted.starts_at
    if job.task is not None:
        job.task.state = next_task_state(TaskState(job.task.state), TaskState.RUNNING)
        _count(job, job.task, now)
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


def _count(job: Job, task: Task, now: datetime) -> None:
    if job.runtemplate.misfire == Misfire.ALL and now > task.deadline:
        task.deadline = now + (task.window_end - task.window_start)
    task.attempts += 1
    job.attempt = task.attempts


def _launch(context: ClaimContext, template: RunTemplate, job: Job) -> Launch:
    """Return the same launch for a repeated claim, as long as its job runs."""
    if job.state in (JobState.BLOCKED, JobState.SKIPPED):
        raise Refused("refused", job.message or job.state, PREFECT_STATES[job.state])
    if job.state != JobState.RUNNING:
        raise _claim_over(context, job)
    renew_lease(context.session, job)
    terms = terms_of(template.app, context.settings.language)
    prepared = prepare_launch(context, template, job, terms.definition)
    return launch_of(context, template, job, prepared)


def _claim_over(context: ClaimContext, job: Job) -> ClaimOver:
    if attempts.is_superseded(context.session, job):
        return ClaimOver("superseded", f"another attempt has taken the place of job {job.id}")
    if job.state == JobState.LOST:
        return ClaimOver("lost", f"job {job.id} was taken for lost: {job.message}")
    return ClaimOver("ended", f"job {job.id} is {job.state}")


def _policy(template: RunTemplate) -> dict[str, Any]:
    """Return what decides about this job's end, as it is now: a later edit does not change it."""
    codes = template.app.document.get("exitCodes") or {}
    limited = [credential.id for credential in limited_credentials(template)]
    kept = {LIMITS: limited} if limited else {}
    return {"exit_codes": codes, **RetryPolicy.of(template).as_dict(), **kept}
