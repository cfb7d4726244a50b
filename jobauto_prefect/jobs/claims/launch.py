"""A launch: everything a worker needs to run one attempt, from the records."""

import functools
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from jobauto_prefect import __version__
from jobauto_prefect.compiler.helm import HELMS_OWN_SECONDS, helm_argv
from jobauto_prefect.compiler.parameters import parameters
from jobauto_prefect.definitions import (
    EVENT_VARIABLES,
    ContactLost,
    Definition,
    cache_by_text,
    parse_kubernetes,
    parse_text,
    to_text,
)
from jobauto_prefect.errors import Fault, InvalidInput, NotFound
from jobauto_prefect.jobs.appearance import run_name
from jobauto_prefect.jobs.claims.approval import unapproved
from jobauto_prefect.jobs.claims.claim import OpenClaim, Refused
from jobauto_prefect.jobs.claims.credentials import provided_layer, unfilled, unmet
from jobauto_prefect.ledger.records import App, Artifact, Job, RunTemplate
from jobauto_prefect.ledger.states import JobState
from jobauto_prefect.ledger.store import ReadingSession
from jobauto_prefect.runtime.executors.registry import executor_faults
from jobauto_prefect.runtime.launch.environment import Layer
from jobauto_prefect.runtime.launch.input_files import input_path
from jobauto_prefect.runtime.launch.preparation import Prepared, prepare
from jobauto_prefect.runtime.protocol import (
    HelmRun,
    InputFile,
    KubernetesTerms,
    Launch,
    PrefectState,
)

MOST_NAMED = 20
"""How many omitted values a job's output names; its record names them all."""

KEPT = 256
"""Cache size: executors with their settings."""

KUBERNETES = "Kubernetes"
TRACEPARENT = "TRACEPARENT"
HELM_AT_MOST = 2  # times the chart's own timeout: wait for a concurrent install, then install
HELM_MARGIN_SECONDS = 120.0  # for fetching the chart, rolling back, and creating the Job


@dataclass(frozen=True, slots=True)
class ApplicationTerms:
    """What follows from a definition alone; `parameter_keys` maps parameter to environment key."""

    definition: Definition
    parameter_keys: Mapping[str, str]
    secret_keys: frozenset[str]


def terms_of(app: App, language: str) -> ApplicationTerms:
    """Return an application's terms; all templates share one parsed document."""
    return _terms(json.dumps(app.document), language)


@cache_by_text
def _terms(document: str, language: str) -> ApplicationTerms:
    definition = parse_text(document)
    keys = parameters(definition, language).parameter_keys
    return ApplicationTerms(definition, dict(keys), frozenset(definition.secret_keys))


def settle_executor(template: RunTemplate, job: Job) -> None:
    """Settle the executor of a job; a job that waited gets the run template's current one.

    An executor accepted earlier may be invalid now, because the run template, the application or
    the installed packages have changed.

    Raises:
        Refused: this executor can't run the job.
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


class JobLaunch:
    """The launch of a job whose claim is granted and whose executor is settled.

    `timeout_seconds` is how long the job may run, `preparing_seconds` how long after its claim this
    time may begin, at most.
    """

    def __init__(self, claim: OpenClaim, job: Job) -> None:
        self._claim = claim
        self._job = job
        self._template = job.runtemplate
        self.terms = terms_of(self._template.app, claim.settings.language)
        self.directory = f"{claim.asked.work_directory.rstrip('/')}/job-{job.id}"
        self.timeout_seconds = self._template.timeout_seconds or claim.settings.timeout_seconds
        self._kubernetes = kubernetes_terms(self._template.app.document, job.executor)
        helm = self._kubernetes.helm if self._kubernetes else None
        self.preparing_seconds = (
            HELM_AT_MOST * helm.timeout_seconds + HELM_MARGIN_SECONDS if helm else 0.0
        )

    def require_credentials(self) -> None:
        """Require a credential for each requirement, all their values, and the blocks.

        Raises:
            Refused: it names what is missing.
        """
        name = f"{self._template.company.slug}/{self._template.name}"
        codes = unmet(self._claim.session, self._template, self.terms.definition)
        if codes:
            message = (
                f"the application requires credentials of {', '.join(codes)}, and {name} has none; "
                f"assign them: jobauto template set '{name}' credentials='[\"NAME\"]'"
            )
            raise Refused("unmet_requirement", message, PrefectState.FAILED)
        empty = unfilled(self._template)
        if empty:
            message = (
                f"credentials of {name} lack values: {', '.join(empty)}; "
                "give them: jobauto credential set COMPANY/NAME --secret KEYWORD"
            )
            raise Refused("missing_credential", message, PrefectState.FAILED)
        missing = self._claim.preflight_of(self._template).missing
        if missing is not None:
            raise Refused("missing_block", missing, PrefectState.FAILED)

    def take_parameters(self) -> None:
        """Turn flow-run parameters that differ from the deployment's values into overrides."""
        applied: Mapping[str, Any] = self._template.applied_parameters or {}
        asked = self._claim.asked.parameters
        given = {
            key: to_text(asked[name])
            for name, key in self.terms.parameter_keys.items()
            if name in asked
            and key not in self.terms.secret_keys
            and asked[name] != applied.get(name)
        }
        self._job.overrides = {**given, **self._job.overrides}

    def prepare(self) -> Prepared:
        """Prepare the command and the environment.

        Raises:
            Refused: values are missing or unusable, or an administrator must approve them.
        """
        claim, job, template = self._claim, self._job, self._template
        lacking = unapproved(template, claim.settings, job.executor)
        if lacking:
            raise Refused("not_approved", "; ".join(lacking), PrefectState.FAILED)
        definition, box = self.terms.definition, claim.box
        preflight = claim.preflight_of(template)
        files = self._input_files()
        paths = {key: f"{self.directory}/{file.path}" for key, file in files.items()}
        try:
            return prepare(
                definition,
                directory=self.directory,
                company=Layer(template.company.env, box.open(template.company.secrets)),
                credentials=provided_layer(template, preflight, box, definition.requirements),
                template=Layer(template.env, box.open(template.secrets)),
                overrides=Layer(
                    {**paths, **job.overrides}, box.open(job.override_secrets), EVENT_VARIABLES
                ),
                values=self._injected(),
                extra=claim.settings.extra_env,
            )
        except InvalidInput as error:
            raise Refused("invalid_launch", str(error), PrefectState.FAILED) from None

    def _injected(self) -> dict[str, str]:
        """Return the variables that every job gets."""
        job, app, company = self._job, self._template.app, self._template.company
        waits = job.state == JobState.SCHEDULED  # the grant assigns its number
        attempt = job.task.attempts + 1 if job.task and waits else job.attempt
        return {
            "JOB_ID": str(job.id),
            "TASK_ID": str(job.task_id or ""),
            "ATTEMPT": str(attempt),
            "APPLICATION_ID": str(app.id),
            "APPLICATION_NAME": app.name,
            "APPLICATION_UUID": app.uuid or "",
            "COMPANY_ID": str(company.id),
            "COMPANY_CODE": company.slug,
            "COMPANY_NAME": company.name,
            "RUNTEMPLATE_ID": str(self._template.id),
            "RUNTEMPLATE_NAME": self._template.name,
            "EXECUTOR": job.executor,
            "VERSION": __version__,
            "WINDOW_START": job.task.window_start.isoformat() if job.task else "",
        }

    def _input_files(self) -> Mapping[str, InputFile]:
        """Return the input files by the environment key that names each.

        Raises:
            Refused: an artifact is no longer kept.
        """
        named = self._job.input_files
        artifacts = {key: self._claim.session.get(Artifact, named[key]) for key in named}
        gone = [key for key, artifact in artifacts.items() if artifact is None]
        if gone:
            message = f"the files for {', '.join(gone)} are no longer kept"
            raise Refused("input_gone", message, PrefectState.FAILED)
        return {
            key: InputFile(artifact_id=artifact.id, path=input_path(key, artifact.path))
            for key, artifact in artifacts.items()
            if artifact is not None
        }

    def answer(self, prepared: Prepared) -> Launch:
        """Return the launch as the worker gets it."""
        job, template, settings = self._job, self._template, self._claim.settings
        # The process continues this trace; a value of that name in its definition wins.
        trace = {TRACEPARENT: job.traceparent} if job.traceparent else {}
        return Launch(
            job_id=job.id,
            claim_id=self._claim.asked.claim_id,
            task_id=job.task_id,
            attempt=job.attempt,
            title=run_name(job),
            argv=prepared.argv,
            command_shown=prepared.command_shown,
            environment=trace | prepared.environment,
            secrets=prepared.secrets,
            executor=job.executor,
            executor_settings=template.executor_settings,
            image=prepared.image,
            company=template.company.slug,
            company_id=template.company_id,
            kubernetes=self._kubernetes,
            directory=self.directory,
            result_file=prepared.result_file,
            artifacts=prepared.artifacts,
            inputs=list(self._input_files().values()),
            timeout_seconds=self.timeout_seconds,
            deadline=job.task.deadline if job.task else None,
            lease_seconds=settings.lease_seconds,
            stop_without_contact=template.on_contact_lost == ContactLost.STOP,
            output_limit_bytes=settings.output_limit_bytes,
            artifact_limit_bytes=settings.artifact_limit_bytes,
            notices=[
                *_notices(prepared.left_out),
                *(warning["message"] for warning in job.warnings),
            ],
        )


def _notices(left_out: Sequence[str]) -> list[str]:
    if not left_out:
        return []
    names = ", ".join(left_out[:MOST_NAMED])
    more = f" and {len(left_out) - MOST_NAMED} more" if len(left_out) > MOST_NAMED else ""
    message = "values were left out because the definition does not declare these names"
    return [f"{message}: {names}{more}"]


def input_content(session: ReadingSession, job: Job, artifact_id: int) -> bytes:
    """Return the content of one of a job's input files.

    Raises:
        NotFound: it does not belong to this job, or is no longer kept.
    """
    artifact = session.get(Artifact, artifact_id)
    if artifact is None or artifact_id not in job.input_files.values():
        raise NotFound(f"job {job.id} has no input file {artifact_id}")
    return artifact.content


def kubernetes_terms(document: Mapping[str, Any], executor: str) -> KubernetesTerms | None:
    """Return the terms of a definition's `kubernetes` section; None for other executors."""
    if executor != KUBERNETES:
        return None
    section = parse_kubernetes(document.get("kubernetes", {}))
    helm, artifacts = section.helm, section.artifacts
    run = None
    if helm.enabled:
        run = HelmRun(
            release=f"{helm.namespace}/{helm.release_name}",
            argv=helm_argv(helm),
            timeout_seconds=helm.timeout_seconds or HELMS_OWN_SECONDS,
        )
    return KubernetesTerms(
        namespace=helm.namespace or None,
        helm=run,
        copies=artifacts.enabled,
        output_path=artifacts.output_path,
        keep_pod_on_failure=artifacts.keep_pod_on_failure,
    )
