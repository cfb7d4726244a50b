"""`/internal/v1`: the claims API. It accepts only workers' tokens, and no other route does."""

import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import replace
from datetime import datetime
from typing import Annotated, Any
from uuid import UUID

from anyio import from_thread
from fastapi import Depends, Response

from jobauto_prefect.compiler.parameters import parameters
from jobauto_prefect.engine.sync.blocks import read_block
from jobauto_prefect.errors import Contended, Forbidden, InvalidInput, KeyTaken, NotFound
from jobauto_prefect.facade.auth.identity import CurrentWorker, Identity
from jobauto_prefect.facade.http import late_routes
from jobauto_prefect.facade.http.requests import RawBody, read_message, sent
from jobauto_prefect.facade.service import CurrentService, Service
from jobauto_prefect.jobs import workers
from jobauto_prefect.jobs.claims import decision
from jobauto_prefect.jobs.claims.claim import (
    NotAsked,
    NotDue,
    OpenClaim,
    RunUnseen,
    time_until_due,
)
from jobauto_prefect.jobs.claims.credentials import layer_of
from jobauto_prefect.jobs.claims.launch import input_content
from jobauto_prefect.jobs.claims.preflight import (
    NO_PREFLIGHT,
    Preflight,
    PreflightChecks,
    run_preflight,
)
from jobauto_prefect.jobs.outcome import reports
from jobauto_prefect.jobs.outcome.event_values import NotLight
from jobauto_prefect.jobs.outcome.loss import mark_certainly_lost
from jobauto_prefect.ledger.access.access_scope import AccessScope, runs_application
from jobauto_prefect.ledger.audit.trail import WritingSession, write_entry
from jobauto_prefect.ledger.outbox import has_enqueued
from jobauto_prefect.ledger.queries.lookup import get_record
from jobauto_prefect.ledger.records import App, Credential, Job
from jobauto_prefect.logs import current_log_context
from jobauto_prefect.monitoring import tracing
from jobauto_prefect.runtime.protocol import (
    ApplicationDocument,
    ArtifactPath,
    Claim,
    ClaimAnswer,
    JobId,
    OutputBatch,
    Renewal,
    RenewalAnswer,
    Report,
    ReportAnswer,
    ShortText,
    SignOfLife,
    WorkerHello,
    WorkerWelcome,
)
from jobauto_prefect.sources.external_values import read_values

router = late_routes.router(prefix="/internal/v1", include_in_schema=False)

SentWorkerHello = Annotated[WorkerHello, sent(WorkerHello)]
SentClaim = Annotated[Claim, sent(Claim)]
SentOutputBatch = Annotated[OutputBatch, sent(OutputBatch)]
SentReport = Annotated[Report, sent(Report)]


@contextmanager
def _audit_refusals(service: Service, who: Identity, subject: dict[str, Any]) -> Iterator[None]:
    """Write an audit entry for each refusal within the block."""
    try:
        yield
    except Forbidden as error:
        with service.ledger.writing(who.actor) as session:
            write_entry(session, "Job", "refuse", {**subject, "reason": [None, str(error)]})
        raise


@router.post("/workers")
def hello(greeting: SentWorkerHello, who: CurrentWorker, service: CurrentService) -> WorkerWelcome:
    """Register a worker that starts."""
    subject = {"worker": [None, greeting.worker], "pool": [None, greeting.pool]}
    with (
        _audit_refusals(service, who, subject),
        service.ledger.writing(who.actor) as session,
    ):
        return workers.register_worker(session, greeting, _pools(who), service.settings)


async def _once_handed_over(asked: SentClaim, service: CurrentService) -> Claim:
    """Return the claim once its run is no longer being bound to a job."""
    if asked.announced:
        hand_overs = service.outbox_worker.context.hand_overs
        await hand_overs.wait(asked.flow_run_id, asked.deployment_id)
    return asked


@router.post("/claims")
def claim(
    asked: Annotated[Claim, Depends(_once_handed_over)],
    who: CurrentWorker,
    service: CurrentService,
) -> ClaimAnswer:
    """Decide whether a flow run may start; answer with its launch or a refusal."""
    began, asked_at = time.perf_counter(), service.ledger.clock()
    answer, job = _decide_once_asked(service, who, asked)
    if job is not None:
        current_log_context().job_id, current_log_context().traceparent = job.id, job.traceparent
        asked_by: tracing.Attributes = {"jobauto.job_id": job.id, "jobauto.worker": asked.worker}
        tracing.note("claim", job.traceparent, asked_by, time.perf_counter() - began)
    _note_claim(service, answer, job, time.perf_counter() - began, asked_at)
    answer.wait_seconds = time_until_due(asked, service.ledger.clock()).total_seconds()
    return answer


def _decide_once_asked(
    service: Service, who: Identity, asked: Claim
) -> tuple[ClaimAnswer, Job | None]:
    """Decide about a claim; fetch external data in between if the decision needs it."""
    preflight: Preflight | None = None
    seen_deployment: UUID | None = None
    while True:
        try:
            return _decide(service, who, asked, preflight, seen_deployment)
        except RunUnseen:
            seen_deployment = _deployment_of(service, asked)
        except NotAsked:
            preflight = run_preflight(
                service.ledger, asked, _preflight_checks(service), service.settings.extra_env
            )
        except NotLight as values:
            preflight = replace(preflight or NO_PREFLIGHT, event_values=values.find())


def _decide(
    service: Service,
    who: Identity,
    asked: Claim,
    preflight: Preflight | None,
    seen_deployment: UUID | None,
) -> tuple[ClaimAnswer, Job | None]:
    """Decide about a claim in one transaction; None: no job is granted."""
    subject = {"flow_run_id": [None, str(asked.flow_run_id)], "worker": [None, asked.worker]}
    settings, box = service.settings, service.ledger.box
    try:
        with (
            _audit_refusals(service, who, subject),
            service.ledger.writing(who.actor) as session,
        ):
            opened = OpenClaim(
                settings, box, session, asked, _pools(who), preflight, seen_deployment
            )
            answer = decision.decide_claim(opened)
            job = session.get(Job, answer.launch.job_id) if answer.launch is not None else None
        _wake_if_enqueued(service, session)
    except NotDue:
        return ClaimAnswer(), None
    except KeyTaken as error:
        raise Contended("another claim was decided at the same time; repeat this one") from error
    return answer, job


def _wake_if_enqueued(service: Service, committed: WritingSession) -> None:
    if has_enqueued(committed):
        service.outbox_worker.wake()


def _deployment_of(service: Service, asked: Claim) -> UUID:
    """Ask Prefect for a flow run's deployment.

    Raises:
        Forbidden: there is no such run, or it has no deployment.
    """
    prefect = service.outbox_worker.context.prefect
    run = from_thread.run(prefect.get_or_none, f"/flow_runs/{asked.flow_run_id}")
    if run is None or run["deployment_id"] is None:
        raise Forbidden("Prefect has no such flow run of a deployment")
    return UUID(run["deployment_id"])


def _note_claim(
    service: Service, answer: ClaimAnswer, job: Job | None, seconds: float, asked_at: datetime
) -> None:
    """Measure a claim; `job` was granted now, or by the same claim before."""
    if service.monitor is None:
        return
    latencies = service.monitor.latencies
    if job is None:
        latencies.claim.labels("unknown" if answer.refusal is None else "refused").observe(seconds)
        return
    latencies.claim.labels("granted").observe(seconds)
    if job.begin is not None and job.begin >= asked_at:
        waited = job.begin - max(job.created_at, job.schedule)
        latencies.start.labels(job.schedule_type).observe(max(0.0, waited.total_seconds()))


async def _renewal(raw: RawBody) -> Renewal | tuple[SignOfLife, InvalidInput]:
    """Read a renewal, or as much of it as says that the worker lives."""
    try:
        return await read_message(Renewal, raw)
    except InvalidInput as error:
        with suppress(InvalidInput):
            return await read_message(SignOfLife, raw), error
        raise


@router.post("/renewals")
def renew(
    renewal: Annotated[Renewal | tuple[SignOfLife, InvalidInput], Depends(_renewal)],
    who: CurrentWorker,
    service: CurrentService,
) -> RenewalAnswer:
    """Renew the leases of all live jobs of a worker."""
    if not isinstance(renewal, Renewal):
        sign, error = renewal
        with service.ledger.writing(who.actor) as session:
            workers.keep_leases(session, sign, _pools(who))
        raise error
    with service.ledger.writing(who.actor) as session:
        answer, not_had = workers.renew_leases(session, renewal, _pools(who), service.settings)
    if not_had:
        with service.ledger.writing(who.actor) as session:
            mark_certainly_lost(session, not_had, workers.NOT_HAD, service.settings)
        service.outbox_worker.wake()
    return answer


@router.post("/jobs/{job_id}/output", status_code=204)
def output(
    job_id: JobId, batch: SentOutputBatch, who: CurrentWorker, service: CurrentService
) -> None:
    """Store lines of output."""
    with service.ledger.writing(who.actor) as session:
        job = reports.open_job_of_claim(
            session, job_id, batch.claim_id, _pools(who), service.settings
        )
        reports.add_output(session, job, batch)


@router.put("/jobs/{job_id}/artifacts", status_code=204)
def artifact(
    job_id: JobId,
    claim_id: UUID,
    path: ArtifactPath,
    content: RawBody,
    who: CurrentWorker,
    service: CurrentService,
    name: ShortText = "",
    type: ShortText = "file",  # noqa: A002 - the protocol's word
) -> Response:
    """Store a file that a job produced."""
    with service.ledger.writing(who.actor) as session:
        job = reports.open_job_of_claim(session, job_id, claim_id, _pools(who), service.settings)
        reports.add_artifact(session, job, path=path, name=name, kind=type, content=content)
    return Response(status_code=204)


@router.get("/jobs/{job_id}/inputs/{artifact_id}")
def input_file(
    job_id: JobId, artifact_id: int, claim_id: UUID, who: CurrentWorker, service: CurrentService
) -> Response:
    """Return the content of an input file."""
    with service.ledger.reading() as session:
        job = reports.open_job_of_claim(session, job_id, claim_id, _pools(who), service.settings)
        content = input_content(session, job, artifact_id)
    return Response(content, media_type="application/octet-stream")


@router.post("/jobs/{job_id}/report")
def report(
    job_id: JobId, finished: SentReport, who: CurrentWorker, service: CurrentService
) -> ReportAnswer:
    """Record how a job ended."""

    def accept(judged: Any = None) -> ReportAnswer:
        with service.ledger.writing(who.actor) as session:
            answer = reports.accept_report(
                session, job_id, finished, _pools(who), service.settings, judged
            )
        _wake_if_enqueued(service, session)
        return answer

    with tracing.span("report", attributes={"jobauto.job_id": job_id}):
        try:
            answer = accept()
        except NotLight as findings:
            answer = accept(findings.find())
    if service.monitor is not None and answer.recorded:
        late = (service.ledger.clock() - finished.ended_at).total_seconds()
        service.monitor.latencies.outcome.observe(max(0.0, late))
    return answer


@router.get("/applications/{app_id}")
def application(app_id: int, who: CurrentWorker, service: CurrentService) -> ApplicationDocument:
    """Return the definition a compiled flow is made of; a company's own if its pools run it."""
    domain = AccessScope(None, frozenset(_pools(who)), service.settings.pool)
    with service.ledger.reading() as session:
        app = get_record(session, App, app_id)
        if app.company_id is not None and not runs_application(session, domain, app_id):
            raise NotFound(f"there is no application {app_id}")
    schema = parameters(app.definition, service.settings.language)
    return ApplicationDocument(
        id=app.id,
        document=app.document,
        parameter_keys=dict(schema.parameter_keys),
        updated_at=app.updated_at,
    )


def _preflight_checks(service: Service) -> PreflightChecks:
    """Return the checks before a launch, for a worker thread of this facade."""
    settings, box, prefect = (
        service.settings,
        service.ledger.box,
        service.outbox_worker.context.prefect,
    )

    def unavailable(credential: Credential, now: datetime) -> str | None:
        availability = service.availability.check(credential, settings, box, now)
        return None if availability.is_there else availability.reason

    def values_of(credential: Credential) -> Mapping[str, str]:
        own, source = layer_of(credential, box), credential.credential_type.source
        values = {**own.values, **own.secrets}
        return read_values(source or "", values, credential.company_id, settings)

    return PreflightChecks(
        unavailable, lambda name: from_thread.run(read_block, prefect, name), values_of
    )


def _pools(who: Identity) -> tuple[str, ...]:
    return who.worker_pools or ()
