"""Claims, renewals and reports: what the ledger answers to workers (design, section 3)."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from jobauto_prefect import __version__
from jobauto_prefect.compiler.parameters import parameters
from jobauto_prefect.compiler.windows import window_launched_at
from jobauto_prefect.definitions import Definition, parse, to_text
from jobauto_prefect.engine.schedules import template_schedule
from jobauto_prefect.engine.settling import run_name
from jobauto_prefect.errors import Forbidden, InvalidInput, NumberTaken
from jobauto_prefect.facade.service import Service
from jobauto_prefect.facade.values import secret_keys
from jobauto_prefect.facade.writes.jobs import inactive
from jobauto_prefect.ledger import jobs, queries
from jobauto_prefect.ledger.audit import WritingSession
from jobauto_prefect.ledger.records import Company, Job, RunTemplate, Task
from jobauto_prefect.ledger.states import JobState, TaskState
from jobauto_prefect.runtime import Layer, Prepared, prepare
from jobauto_prefect.runtime.protocol import (
    Claim,
    ClaimAnswer,
    Launch,
    PrefectState,
    Refusal,
    Story,
)


@dataclass(frozen=True, slots=True)
class ClaimContext:
    """One claim being decided, inside its transaction."""

    service: Service
    session: WritingSession
    claim: Claim
    pools: tuple[str, ...]


class Refused(Exception):
    """The run may not start; Prefect shows why."""

    def __init__(self, reason: str, message: str, state: PrefectState) -> None:
        super().__init__(message)
        self.refusal = Refusal(reason=reason, story=Story(state=state, message=message))


def decide(context: ClaimContext) -> ClaimAnswer:
    """Grant a launch, or refuse with what Prefect shall show.

    Raises:
        NumberTaken: another job of the flow run is live, or has this run number.
        Forbidden: the run is for a pool the worker's token does not name.
    """
    try:
        return ClaimAnswer(launch=_grant(context, *_subject(context)))
    except Refused as refused:
        return ClaimAnswer(refusal=refused.refusal)


def _subject(context: ClaimContext) -> tuple[RunTemplate, Job | None, Sequence[Job]]:
    """The template to run, the job that waits for this run if there is one, and all its jobs."""
    claim = context.claim
    attempts = queries.jobs_of_flow_run(context.session, claim.flow_run_id)
    job = _waiting_job(context, attempts)
    template = job.runtemplate if job else _template(context, attempts)
    if _pool(context.service, template) not in context.pools:
        raise Forbidden(f"this token is not for the work pool {_pool(context.service, template)}")
    granted_before = [one for one in attempts if one.claim_id == claim.claim_id]
    if granted_before:
        return template, granted_before[0], attempts
    if any(one.state == JobState.RUNNING or one.run_number == claim.run_number for one in attempts):
        raise NumberTaken("another job of this flow run is live, or has this run number")
    return template, job, attempts


def _pool(service: Service, template: RunTemplate) -> str:
    return template.pool or service.settings.pool


def _template(context: ClaimContext, attempts: Sequence[Job]) -> RunTemplate:
    if attempts:
        known: RunTemplate = attempts[0].runtemplate
        return known
    template = queries.template_of_deployment(context.session, context.claim.deployment_id)
    if template is None:
        message = "this deployment is none of jobauto's run templates; apply the template first"
        raise Refused("unknown_deployment", message, PrefectState.FAILED)
    return template


def _waiting_job(context: ClaimContext, attempts: Sequence[Job]) -> Job | None:
    """The job the flow run's parameter names, or that was bound to it when it was created."""
    named = context.claim.parameters.get("jobauto")
    job_id = named.get("job") if isinstance(named, dict) else None
    bound = [job for job in attempts if job.state == JobState.WAITING]
    if bound or not isinstance(job_id, int) or attempts:
        return bound[0] if bound else None
    return _bind(context, job_id)


def _bind(context: ClaimContext, job_id: int) -> Job:
    """A flow run names a job: they must belong together."""
    job = context.session.get(Job, job_id)
    claim = context.claim
    if job is None or job.runtemplate.deployment_id != claim.deployment_id:
        message = f"the flow run names job {job_id}, which is none of its run template's"
        raise Refused("foreign_job", message, PrefectState.FAILED)
    if job.flow_run_id not in (None, claim.flow_run_id):
        message = f"job {job_id} has a flow run already"
        raise Refused("duplicate", message, PrefectState.CANCELLED)
    if job.state == JobState.CANCELLED:
        raise Refused("cancelled", job.message or "cancelled", PrefectState.CANCELLED)
    if job.state != JobState.WAITING:
        raise Refused("over", f"job {job_id} is {job.state}", PrefectState.CANCELLED)
    return job


def _grant(
    context: ClaimContext, template: RunTemplate, job: Job | None, attempts: Sequence[Job]
) -> Launch:
    again = job is not None and job.claim_id == context.claim.claim_id
    if job is not None and again:
        return _launch(context, template, job)
    job = job or _new_job(context, template, attempts)
    job.flow_run_id = context.claim.flow_run_id
    context.session.add(job)
    context.session.flush()
    try:
        return _launch_granted(context, template, job)
    except Refused as refused:
        jobs.refuse(context.session, job, str(refused))
        raise


def _new_job(context: ClaimContext, template: RunTemplate, attempts: Sequence[Job]) -> Job:
    """A run that Prefect began by itself: its schedule, or somebody's click on Run or Retry."""
    if attempts:
        return _further_attempt(context, attempts[-1])
    claim = context.claim
    task = _task(context, template) if claim.auto_scheduled and claim.scheduled_for else None
    job = jobs.new_job(
        template,
        schedule=claim.scheduled_for or context.session.clock(),
        schedule_type="scheduled" if task else "adhoc-web",
    )
    job.task = task
    return job


def _further_attempt(context: ClaimContext, former: Job) -> Job:
    """A retry in Prefect: another job on the same flow run, with the same values."""
    job = jobs.new_job(
        former.runtemplate, schedule=context.session.clock(), schedule_type="adhoc-web"
    )
    job.attempt = former.attempt + 1
    job.overrides = dict(former.overrides)
    job.override_secrets = dict(former.override_secrets)
    return job


def _task(context: ClaimContext, template: RunTemplate) -> Task | None:
    """The obligation of the window this run is for; a second run of a window never starts."""
    due = context.claim.scheduled_for or context.session.clock()
    schedule = template_schedule(template, context.service.settings.timezone)
    if schedule is None:
        return None
    window = window_launched_at(schedule, due)
    task, _ = jobs.task_for(context.session, template, (window.start, window.end))
    if task.state != TaskState.OPEN:
        began = window.start.isoformat()
        message = f"the window from {began} has its task {task.id} ({task.state})"
        raise Refused("duplicate_window", message, PrefectState.CANCELLED)
    return task


def _launch_granted(context: ClaimContext, template: RunTemplate, job: Job) -> Launch:
    reason = inactive(template)
    if reason is not None:
        raise Refused("inactive", reason, PrefectState.FAILED)
    definition = parse(template.app.document)
    _take_parameters(context, template, job, definition)
    prepared = _prepared(context, template, job, definition)
    job.run_number = context.claim.run_number
    job.env, job.command = prepared.environment_shown, prepared.command_shown
    job.undeclared = prepared.undeclared
    job.app_version = template.app.version
    job.policy = _policy(template)
    jobs.grant(
        context.session,
        job,
        claim_id=context.claim.claim_id,
        worker=context.claim.worker,
        directory=_directory(context.claim, job),
    )
    return _as_launch(context, template, job, prepared)


def _launch(context: ClaimContext, template: RunTemplate, job: Job) -> Launch:
    """The same claim asked again: the same answer, as long as the job is live."""
    if job.state != JobState.RUNNING:
        raise NumberTaken(f"job {job.id} is {job.state}")
    prepared = _prepared(context, template, job, parse(template.app.document))
    return _as_launch(context, template, job, prepared)


def _directory(claim: Claim, job: Job) -> str:
    return f"{claim.work_directory.rstrip('/')}/job-{job.id}"


def _take_parameters(
    context: ClaimContext, template: RunTemplate, job: Job, definition: Definition
) -> None:
    """A flow-run parameter is an override only where it differs from the deployment's value."""
    schema = parameters(definition, context.service.settings.language)
    applied: Mapping[str, Any] = template.applied_parameters or {}
    secret = secret_keys(definition)
    given = {
        key: to_text(context.claim.parameters[name])
        for name, key in schema.parameter_keys.items()
        if name in context.claim.parameters
        and key not in secret
        and context.claim.parameters[name] != applied.get(name)
    }
    job.overrides = {**given, **job.overrides}


def _prepared(
    context: ClaimContext, template: RunTemplate, job: Job, definition: Definition
) -> Prepared:
    box = context.service.ledger.box
    try:
        return prepare(
            definition,
            directory=_directory(context.claim, job),
            company=Layer(template.company.env, box.open(template.company.secrets)),
            template=Layer(template.env, box.open(template.secrets)),
            overrides=Layer(job.overrides, box.open(job.override_secrets)),
            values=_injected(template, job),
        )
    except InvalidInput as error:
        raise Refused("invalid_launch", str(error), PrefectState.FAILED) from None


def _injected(template: RunTemplate, job: Job) -> dict[str, str]:
    app, company = template.app, template.company
    started = job.task.window_start if job.task else None
    return {
        "JOB_ID": str(job.id),
        "TASK_ID": str(job.task_id or ""),
        "ATTEMPT": str(job.attempt),
        "APPLICATION_ID": str(app.id),
        "APPLICATION_NAME": app.name,
        "APPLICATION_UUID": app.uuid or "",
        **_company_variables(company),
        "RUNTEMPLATE_ID": str(template.id),
        "RUNTEMPLATE_NAME": template.name,
        "EXECUTOR": job.executor,
        "VERSION": __version__,
        "WINDOW_START": started.isoformat() if started else "",
    }


def _company_variables(company: Company) -> dict[str, str]:
    return {
        "COMPANY_ID": str(company.id),
        "COMPANY_CODE": company.slug,
        "COMPANY_NAME": company.name,
    }


def _policy(template: RunTemplate) -> dict[str, Any]:
    """What decides about this job's end, as it is now: a later edit does not change it."""
    return {"exit_codes": template.app.document.get("exitCodes") or {}}


def _timeout(context: ClaimContext, template: RunTemplate) -> float:
    return template.timeout_seconds or context.service.settings.timeout_seconds


def _as_launch(
    context: ClaimContext, template: RunTemplate, job: Job, prepared: Prepared
) -> Launch:
    settings = context.service.settings
    return Launch(
        job_id=job.id,
        claim_id=context.claim.claim_id,
        task_id=job.task_id,
        attempt=job.attempt,
        title=run_name(job),
        argv=prepared.argv,
        command_shown=prepared.command_shown,
        environment=prepared.environment,
        secrets=prepared.secrets,
        executor=job.executor,
        directory=_directory(context.claim, job),
        result_file=prepared.result_file,
        artifacts=prepared.artifacts,
        timeout_seconds=_timeout(context, template),
        deadline=_deadline(job),
        lease_seconds=settings.lease_seconds,
        output_limit_bytes=settings.output_limit_bytes,
        artifact_limit_bytes=settings.artifact_limit_bytes,
    )


def _deadline(job: Job) -> datetime | None:
    return job.task.deadline if job.task else None
