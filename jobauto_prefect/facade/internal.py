"""`/internal/v1`: the claims API. Only workers' tokens open it, and they open nothing else."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from uuid import UUID

from fastapi import APIRouter, Response

from jobauto_prefect.compiler.parameters import parameters
from jobauto_prefect.definitions import parse
from jobauto_prefect.errors import Forbidden
from jobauto_prefect.facade import claims, reports
from jobauto_prefect.facade.auth import Identity, Worker
from jobauto_prefect.facade.claiming import ClaimContext
from jobauto_prefect.facade.inputs import input_content
from jobauto_prefect.facade.outside import ask_outside
from jobauto_prefect.facade.requests import ArtifactBody
from jobauto_prefect.facade.service import CurrentService, Service
from jobauto_prefect.ledger import queries
from jobauto_prefect.ledger.audit import write_entry
from jobauto_prefect.ledger.records import App
from jobauto_prefect.runtime.protocol import (
    ApplicationDocument,
    Claim,
    ClaimAnswer,
    OutputBatch,
    Renewal,
    RenewalAnswer,
    Report,
    ReportAnswer,
    WorkerHello,
    WorkerWelcome,
)

router = APIRouter(prefix="/internal/v1", include_in_schema=False)


@contextmanager
def _refusals_audited(service: Service, who: Identity, subject: dict[str, Any]) -> Iterator[None]:
    """What a worker may not do is written down."""
    try:
        yield
    except Forbidden as error:
        with service.ledger.writing(who.actor) as session:
            write_entry(session, "Job", "refuse", {**subject, "reason": [None, str(error)]})
        raise


@router.post("/workers")
def hello(said: WorkerHello, who: Worker, service: CurrentService) -> WorkerWelcome:
    """A worker starts."""
    pools = _pools(who)
    if said.pool not in pools:
        raise Forbidden(f"this token is not for the work pool {said.pool}")
    with service.ledger.writing(who.actor) as session:
        return reports.welcome(session, said, service.settings)


@router.post("/claims")
def claim(asked: Claim, who: Worker, service: CurrentService) -> ClaimAnswer:
    """May this flow run start, and with what?"""
    outside = ask_outside(service, asked)
    subject = {"flow_run_id": [None, str(asked.flow_run_id)], "worker": [None, asked.worker]}
    with (
        _refusals_audited(service, who, subject),
        service.ledger.writing(who.actor) as session,
    ):
        return claims.decide(ClaimContext(service, session, asked, _pools(who), outside))


@router.post("/renewals")
def renew(renewal: Renewal, who: Worker, service: CurrentService) -> RenewalAnswer:
    """All live jobs of a worker."""
    with service.ledger.writing(who.actor) as session:
        return reports.renew(session, renewal)


@router.post("/jobs/{job_id}/output", status_code=204)
def output(job_id: int, batch: OutputBatch, who: Worker, service: CurrentService) -> None:
    """Lines of output."""
    with service.ledger.writing(who.actor) as session:
        job = reports.job_of_claim(session, job_id, batch.claim_id, _pools(who), service.settings)
        reports.add_output(session, job, batch)


@router.put("/jobs/{job_id}/artifacts", status_code=204)
def artifact(
    job_id: int,
    claim_id: UUID,
    path: str,
    content: ArtifactBody,
    who: Worker,
    service: CurrentService,
    name: str = "",
    type: str = "file",  # noqa: A002 - the protocol's word
) -> Response:
    """A file of a job."""
    with service.ledger.writing(who.actor) as session:
        job = reports.job_of_claim(session, job_id, claim_id, _pools(who), service.settings)
        reports.add_artifact(session, job, path=path, name=name, kind=type, content=content)
    return Response(status_code=204)


@router.get("/jobs/{job_id}/inputs/{artifact_id}")
def input_file(
    job_id: int, artifact_id: int, claim_id: UUID, who: Worker, service: CurrentService
) -> Response:
    """What is in a file that a job is given."""
    with service.ledger.reading() as session:
        job = reports.job_of_claim(session, job_id, claim_id, _pools(who), service.settings)
        content = input_content(session, job, artifact_id)
    return Response(content, media_type="application/octet-stream")


@router.post("/jobs/{job_id}/report")
def report(job_id: int, said: Report, who: Worker, service: CurrentService) -> ReportAnswer:
    """What became of a job."""
    with service.ledger.writing(who.actor) as session:
        job = reports.job_of_claim(session, job_id, said.claim_id, _pools(who), service.settings)
        answer = reports.accept(service, session, job, said)
    service.carrier.wake()
    return answer


@router.get("/applications/{app_id}")
def application(app_id: int, _who: Worker, service: CurrentService) -> ApplicationDocument:
    """The definition a compiled flow is made of."""
    with service.ledger.reading() as session:
        app = queries.get(session, App, app_id)
    schema = parameters(parse(app.document), service.settings.language)
    return ApplicationDocument(
        id=app.id,
        document=app.document,
        parameter_keys=dict(schema.parameter_keys),
        updated_at=app.updated_at,
    )


def _pools(who: Identity) -> tuple[str, ...]:
    return who.worker_pools or ()
