"""Claims, renewals and reports: what the ledger answers to workers (design, section 3)."""

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from jobauto_prefect import __version__
from jobauto_prefect.compiler.parameters import parameters
from jobauto_prefect.definitions import ContactLost, Definition, parse, to_text
from jobauto_prefect.engine.settling import run_name
from jobauto_prefect.errors import InvalidInput, NumberTaken
from jobauto_prefect.facade.claiming import ClaimContext, Refused
from jobauto_prefect.facade.clusters import kubernetes_terms, preparing_seconds
from jobauto_prefect.facade.inputs import input_files
from jobauto_prefect.facade.mapping import take_event
from jobauto_prefect.facade.provided import provided_layer
from jobauto_prefect.facade.provisions import require_available, require_credentials
from jobauto_prefect.facade.subjects import require_turn, subject
from jobauto_prefect.facade.values import secret_keys
from jobauto_prefect.facade.writes.jobs import inactive
from jobauto_prefect.ledger import deliveries, jobs
from jobauto_prefect.ledger.policy import Policy
from jobauto_prefect.ledger.records import Company, Job, RunTemplate
from jobauto_prefect.ledger.states import JobState
from jobauto_prefect.runtime import Layer, Prepared, prepare
from jobauto_prefect.runtime.executors import executor_faults
from jobauto_prefect.runtime.protocol import Claim, ClaimAnswer, Launch, PrefectState


def decide(context: ClaimContext) -> ClaimAnswer:
    """Grant a launch, or refuse with what Prefect shall show.

    Raises:
        NumberTaken: another job of the flow run is live, or has this run number.
        Forbidden: the run is for a pool the worker's token does not name.
    """
    try:
        return ClaimAnswer(launch=_grant(context, subject(context)))
    except Refused as refused:
        return ClaimAnswer(refusal=refused.refusal)


def _grant(context: ClaimContext, job: Job) -> Launch:
    template = job.runtemplate
    if job.claim_id == context.claim.claim_id:
        return _launch(context, template, job)
    job.flow_run_id = context.claim.flow_run_id
    context.session.add(job)
    context.session.flush()
    require_turn(context, template, job)
    require_available(context, template)
    try:
        return _launch_granted(context, template, job)
    except Refused as refused:
        if refused.refusal.story.state is PrefectState.CANCELLED:
            jobs.skip(context.session, job, str(refused))
        else:
            jobs.block(context.session, job, str(refused))
            deliveries.refused(context.session, job, str(refused))
        raise


def _launch_granted(context: ClaimContext, template: RunTemplate, job: Job) -> Launch:
    reason = inactive(template)
    if reason is not None:
        raise Refused("inactive", reason, PrefectState.FAILED)
    _require_executor(template, job)
    definition = parse(template.app.document)
    require_credentials(context, template, definition)
    take_event(context, job, definition)
    _take_parameters(context, template, job, definition)
    prepared = _prepared(context, template, job, definition)
    job.run_number = context.claim.run_number
    job.env, job.command = prepared.environment_shown, prepared.command_shown
    job.undeclared = prepared.undeclared
    job.app_version = template.app.version
    job.policy = _policy(template)
    grant = jobs.Grant(
        claim_id=context.claim.claim_id,
        worker=context.claim.worker,
        directory=_directory(context.claim, job),
        timeout_seconds=_timeout(context, template)
        + preparing_seconds(template.app.document, job.executor),
    )
    jobs.grant(context.session, job, grant)
    return _as_launch(context, template, job, prepared)


def _require_executor(template: RunTemplate, job: Job) -> None:
    """What was accepted once may have changed: the application, or the packages there are."""
    image = template.app.document.get("ociimage")
    faults = executor_faults(job.executor, template.executor_settings, image)
    if faults:
        message = "; ".join(fault.message for fault in faults)
        raise Refused("executor", message, PrefectState.FAILED)


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
    directory = _directory(context.claim, job)
    files = input_files(context.session, job)
    paths = {key: f"{directory}/{file.path}" for key, file in files.items()}
    try:
        return prepare(
            definition,
            directory=directory,
            company=Layer(template.company.env, box.open(template.company.secrets)),
            credentials=provided_layer(template, context.outside.blocks, box),
            template=Layer(template.env, box.open(template.secrets)),
            overrides=Layer({**paths, **job.overrides}, box.open(job.override_secrets)),
            values=_injected(template, job),
        )
    except InvalidInput as error:
        raise Refused("invalid_launch", str(error), PrefectState.FAILED) from None


def _injected(template: RunTemplate, job: Job) -> dict[str, str]:
    app, company = template.app, template.company
    started = job.task.window_start if job.task else None
    attempt = job.task.attempts + 1 if job.task else job.attempt
    return {
        "JOB_ID": str(job.id),
        "TASK_ID": str(job.task_id or ""),
        "ATTEMPT": str(attempt),
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
    codes = template.app.document.get("exitCodes") or {}
    return {"exit_codes": codes, **Policy.of(template).as_dict()}


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
        executor_settings=template.executor_settings,
        image=prepared.image,
        company=template.company.slug,
        kubernetes=kubernetes_terms(template.app.document, job.executor),
        directory=_directory(context.claim, job),
        result_file=prepared.result_file,
        artifacts=prepared.artifacts,
        inputs=list(input_files(context.session, job).values()),
        timeout_seconds=_timeout(context, template),
        deadline=_deadline(job),
        lease_seconds=settings.lease_seconds,
        stop_without_contact=template.on_contact_lost == ContactLost.STOP,
        output_limit_bytes=settings.output_limit_bytes,
        artifact_limit_bytes=settings.artifact_limit_bytes,
    )


def _deadline(job: Job) -> datetime | None:
    return job.task.deadline if job.task else None
