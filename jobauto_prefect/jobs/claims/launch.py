"""A launch: everything a worker needs to run one attempt, from the records."""

import functools
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from jobauto_prefect import __version__
from jobauto_prefect.compiler.helm import HELMS_OWN_SECONDS, helm_argv
from jobauto_prefect.compiler.parameters import parameters
from jobauto_prefect.definitions import (
    EVENT_VARIABLES,
    ContactLost,
    Definition,
    Helm,
    parse_kubernetes,
    parse_text,
    to_text,
)
from jobauto_prefect.errors import Fault, InvalidInput, NotFound
from jobauto_prefect.jobs.appearance import run_name
from jobauto_prefect.jobs.claims.approval import unapproved
from jobauto_prefect.jobs.claims.context import ClaimContext, Refused
from jobauto_prefect.jobs.claims.credentials import provided_layer
from jobauto_prefect.ledger.records import App, Artifact, Company, Job, RunTemplate
from jobauto_prefect.ledger.states import JobState
from jobauto_prefect.ledger.store import ReadingSession
from jobauto_prefect.runtime import Layer, Prepared, prepare
from jobauto_prefect.runtime.executors.registry import executor_faults
from jobauto_prefect.runtime.launch.input_files import input_path
from jobauto_prefect.runtime.protocol import (
    Claim,
    HelmRun,
    InputFile,
    KubernetesTerms,
    Launch,
    PrefectState,
)

MOST_NAMED = 20
"""Names of values left out that a job's output tells of; its record has them all."""

KEPT = 256
"""Definitions, and executors with their settings, of which is kept what follows from them."""

KUBERNETES = "Kubernetes"
TRACEPARENT = "TRACEPARENT"
HELM_AT_MOST = 2  # times its own timeout: for others that install the release, and for itself
HELM_MARGIN_SECONDS = 120.0  # for fetching the chart, rolling back, and creating the Job


@dataclass(frozen=True, slots=True)
class ApplicationTerms:
    """What follows from a definition alone; `parameter_keys` are parameter -> environment key."""

    definition: Definition
    parameter_keys: Mapping[str, str]
    secret_keys: frozenset[str]


def terms_of(app: App, language: str) -> ApplicationTerms:
    """Return an application's terms; one document is looked into once for all templates."""
    return _terms(json.dumps(app.document), language)


@functools.lru_cache(maxsize=KEPT)
def _terms(document: str, language: str) -> ApplicationTerms:
    definition = parse_text(document)
    keys = parameters(definition, language).parameter_keys
    return ApplicationTerms(definition, dict(keys), frozenset(definition.secret_keys))


def settle_executor(template: RunTemplate, job: Job) -> None:
    """Settle the executor of a job: one that waited has one that the run template has now.

    What was accepted once may have changed: the run template, the application, or the packages
    there are.

    Raises:
        Refused: that can't run it.
    """
    if job.executor not in (template.executor, *template.executors):
        job.executor = template.executor
    settings, image = json.dumps(template.executor_settings), template.app.document.get("ociimage")
    faults = _executor_faults(job.executor, settings, image)
    if faults:
        message = "; ".join(fault.message for fault in faults)
        raise Refused("executor", message, PrefectState.FAILED)


@functools.lru_cache(maxsize=KEPT)
def _executor_faults(executor: str, settings: str, image: str | None) -> tuple[Fault, ...]:
    return tuple(executor_faults(executor, json.loads(settings), image))


def take_parameters(
    context: ClaimContext, template: RunTemplate, job: Job, terms: ApplicationTerms
) -> None:
    """Take as overrides the flow-run parameters that differ from the deployment's values."""
    applied: Mapping[str, Any] = template.applied_parameters or {}
    given = {
        key: to_text(context.claim.parameters[name])
        for name, key in terms.parameter_keys.items()
        if name in context.claim.parameters
        and key not in terms.secret_keys
        and context.claim.parameters[name] != applied.get(name)
    }
    job.overrides = {**given, **job.overrides}


def prepare_launch(
    context: ClaimContext, template: RunTemplate, job: Job, definition: Definition
) -> Prepared:
    """Prepare the command and the environment.

    Raises:
        Refused: values are missing, or can't be used; or it needs an administrator.
    """
    _require_approved(context, template, job)
    box = context.box
    directory = job_directory(context.claim, job)
    files = input_files(context.session, job)
    paths = {key: f"{directory}/{file.path}" for key, file in files.items()}
    try:
        return prepare(
            definition,
            directory=directory,
            company=Layer(template.company.env, box.open(template.company.secrets)),
            credentials=provided_layer(template, context.preflight, box, definition.requirements),
            template=Layer(template.env, box.open(template.secrets)),
            overrides=Layer(
                {**paths, **job.overrides}, box.open(job.override_secrets), EVENT_VARIABLES
            ),
            values=_injected(template, job),
            extra=context.settings.extra_env,
        )
    except InvalidInput as error:
        raise Refused("invalid_launch", str(error), PrefectState.FAILED) from None


def _require_approved(context: ClaimContext, template: RunTemplate, job: Job) -> None:
    lacking = unapproved(template, context.settings, job.executor)
    if lacking:
        raise Refused("not_approved", "; ".join(lacking), PrefectState.FAILED)


def _injected(template: RunTemplate, job: Job) -> dict[str, str]:
    app, company = template.app, template.company
    started = job.task.window_start if job.task else None
    waits = job.state == JobState.SCHEDULED  # its number comes with the grant
    attempt = job.task.attempts + 1 if job.task and waits else job.attempt
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


def _trace_of(job: Job) -> dict[str, str]:
    """Return the trace the process goes on with; its definition's value of that name wins."""
    return {TRACEPARENT: job.traceparent} if job.traceparent else {}


def _company_variables(company: Company) -> dict[str, str]:
    return {
        "COMPANY_ID": str(company.id),
        "COMPANY_CODE": company.slug,
        "COMPANY_NAME": company.name,
    }


def launch_of(context: ClaimContext, template: RunTemplate, job: Job, prepared: Prepared) -> Launch:
    """Return the launch a worker gets."""
    settings = context.settings
    return Launch(
        job_id=job.id,
        claim_id=context.claim.claim_id,
        task_id=job.task_id,
        attempt=job.attempt,
        title=run_name(job),
        argv=prepared.argv,
        command_shown=prepared.command_shown,
        environment=_trace_of(job) | prepared.environment,
        secrets=prepared.secrets,
        executor=job.executor,
        executor_settings=template.executor_settings,
        image=prepared.image,
        company=template.company.slug,
        company_id=template.company_id,
        kubernetes=kubernetes_terms(template.app.document, job.executor),
        directory=job_directory(context.claim, job),
        result_file=prepared.result_file,
        artifacts=prepared.artifacts,
        inputs=list(input_files(context.session, job).values()),
        timeout_seconds=timeout_of(context, template),
        deadline=_deadline(job),
        lease_seconds=settings.lease_seconds,
        stop_without_contact=template.on_contact_lost == ContactLost.STOP,
        output_limit_bytes=settings.output_limit_bytes,
        artifact_limit_bytes=settings.artifact_limit_bytes,
        notices=[*_notices(prepared.left_out), *(warning["message"] for warning in job.warnings)],
    )


def _notices(left_out: Sequence[str]) -> list[str]:
    if not left_out:
        return []
    names = ", ".join(left_out[:MOST_NAMED])
    more = f" and {len(left_out) - MOST_NAMED} more" if len(left_out) > MOST_NAMED else ""
    message = "values were left out, for the definition does not declare these names"
    return [f"{message}: {names}{more}"]


def job_directory(claim: Claim, job: Job) -> str:
    """Return the working directory of a job."""
    return f"{claim.work_directory.rstrip('/')}/job-{job.id}"


def timeout_of(context: ClaimContext, template: RunTemplate) -> float:
    """Return how many seconds a job may run."""
    return template.timeout_seconds or context.settings.timeout_seconds


def _deadline(job: Job) -> datetime | None:
    return job.task.deadline if job.task else None


def input_files(session: ReadingSession, job: Job) -> Mapping[str, InputFile]:
    """Return the input files by the environment key that names each.

    Raises:
        Refused: an artifact is not kept any more.
    """
    artifacts = {key: session.get(Artifact, number) for key, number in job.input_files.items()}
    gone = [key for key, artifact in artifacts.items() if artifact is None]
    if gone:
        message = f"the files for {', '.join(gone)} are not kept any more"
        raise Refused("input_gone", message, PrefectState.FAILED)
    return {
        key: InputFile(artifact_id=artifact.id, path=input_path(key, artifact.path))
        for key, artifact in artifacts.items()
        if artifact is not None
    }


def input_content(session: ReadingSession, job: Job, artifact_id: int) -> bytes:
    """Return the content of one of a job's input files.

    Raises:
        NotFound: it is none of this job's, or is not kept any more.
    """
    artifact = session.get(Artifact, artifact_id)
    if artifact is None or artifact_id not in job.input_files.values():
        raise NotFound(f"job {job.id} has no input file {artifact_id}")
    return artifact.content


def kubernetes_terms(document: Mapping[str, Any], executor: str) -> KubernetesTerms | None:
    """Return the terms of a definition's `kubernetes` section; None for another executor."""
    if executor != KUBERNETES:
        return None
    section = parse_kubernetes(document.get("kubernetes", {}))
    helm, artifacts = section.helm, section.artifacts
    return KubernetesTerms(
        namespace=helm.namespace or None,
        helm=_helm_run(helm) if helm.enabled else None,
        copies=artifacts.enabled,
        output_path=artifacts.output_path,
        keep_pod_on_failure=artifacts.keep_pod_on_failure,
    )


def _helm_run(helm: Helm) -> HelmRun:
    return HelmRun(
        release=f"{helm.namespace}/{helm.release_name}",
        argv=helm_argv(helm),
        timeout_seconds=helm.timeout_seconds or HELMS_OWN_SECONDS,
    )


def preparing_seconds(document: Mapping[str, Any], executor: str) -> float:
    """Return how many seconds after its claim a job's own time may begin, at most."""
    terms = kubernetes_terms(document, executor)
    if terms is None or terms.helm is None:
        return 0.0
    return HELM_AT_MOST * terms.helm.timeout_seconds + HELM_MARGIN_SECONDS
