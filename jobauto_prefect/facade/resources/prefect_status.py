"""What Prefect has and does: where it differs from the records, its work pools and workers."""

import asyncio
from dataclasses import asdict
from typing import Annotated, Literal

from fastapi import APIRouter, Query, Request, Response
from pydantic import Field, WithJsonSchema

from jobauto_prefect.engine.services.retention import Pruner
from jobauto_prefect.engine.sync.deployment_drift import find_drift, stray_deployments
from jobauto_prefect.engine.sync.drift_monitor import correct_all
from jobauto_prefect.facade.answers import Answer, Difference
from jobauto_prefect.facade.auth.identity import CurrentUser
from jobauto_prefect.facade.http.field_types import Boolean
from jobauto_prefect.facade.http.operations import SERVICE, answered, keyed, operation
from jobauto_prefect.facade.http.responses import respond_plain
from jobauto_prefect.facade.service import CurrentService, Service
from jobauto_prefect.ledger.queries.companies import company_slugs

PRUNE_SECONDS = 5.0
"""How long one request lets go of what is kept no longer."""


router = APIRouter()


class Drift(Answer):
    """Where Prefect has something else than a run template says, or a deployment of none."""

    runtemplate_id: int | None = Field(
        description="The run template; null: the deployment is none's."
    )
    deployment: str = Field(description="The name its deployment should have, or has.")
    differences: dict[str, Difference] = Field(description="Field by field.")


class Settlement(Answer):
    """What was done about one object that somebody changed in Prefect."""

    kind: str = Field(
        description="The kind of the record: app, runtemplate, eventrule, credential or credtype."
    )
    id: int = Field(description="The id of the record.")
    name: str = Field(description="The name of the object in Prefect.")
    taken_over: list[str] = Field(
        description="The fields that the record now says as Prefect does."
    )
    restored: list[str] = Field(
        description="The fields that Prefect is told again as the record says."
    )


class Reconciled(Answer):
    """What somebody changed in Prefect, and what was done about it."""

    settled: list[Settlement] = Field(
        description="An object each; what is restored is so once Prefect is told."
    )


class PrunedKind(Answer):
    """How many records of a kind went, or with `dry_run` would go."""

    kind: Literal["events", "output", "jobs", "tasks", "runs"] = Field(
        description="`output` counts the jobs whose output and artifacts went, `runs` the flow "
        "runs in Prefect beside those that went with their jobs."
    )
    company_id: int | None = Field(
        description="Whose they are; null: of no company, or, of `runs`, of all."
    )
    company: str | None = Field(description="Slug of the company.")
    count: int = Field(description="How many.")


class Pruned(Answer):
    """What is kept no longer."""

    dry_run: bool = Field(description="Whether it was only counted.")
    complete: bool = Field(description="Whether nothing more is to go.")
    pruned: list[PrunedKind] = Field(description="An object for each kind and company.")


@operation(
    router, "GET /drift.{suffix}", "listDrift", "Compare Prefect with the records",
    "The run templates whose flow, work pool or deployment in Prefect is not what the records "
    "say, an object by id; of the companies one may see. Writing the run template puts it "
    "right. 503 while Prefect is away.",
    tag=SERVICE, answer=answered("Those that differ.", keyed(Drift)),
)  # fmt: skip
async def list_drift(request: Request, who: CurrentUser, service: CurrentService) -> Response:
    """Return the run templates for which Prefect has something else than the records say, by id.

    Who sees all companies gets the deployments that are no run template's, too, by Prefect's id.
    """
    context, companies = service.outbox_worker.context, who.rights.companies_with("jobs.read")
    drifts = await find_drift(context, companies)
    data = {
        str(drift.record_id): {
            "runtemplate_id": drift.record_id,
            "deployment": drift.plan.name,
            "differences": {
                name: {"prefect": there, "record": here}
                for name, (there, here) in drift.differences.items()
            },
        }
        for drift in drifts
    }
    for stray in await stray_deployments(context) if companies is None else ():
        data[stray["id"]] = {
            "runtemplate_id": None,
            "deployment": stray["name"],
            "differences": {"run template": {"prefect": stray["work_pool_name"], "record": None}},
        }
    return respond_plain(request, who, "Drift", data)


@operation(
    router, "POST /reconcile.{suffix}", "reconcile",
    "Settle now what somebody changed in Prefect",
    "Whether a deployment is paused, its cron expression and its time zone are taken over into "
    "the record; all else is restored. The services do the same by themselves, bit by bit. "
    "Needs `system.config`. 503 while Prefect is away.",
    tag=SERVICE, answer=answered("What was done.", Reconciled), errors=(413, 415),
)  # fmt: skip
async def reconcile(request: Request, who: CurrentUser, service: CurrentService) -> Response:
    """Settle what somebody changed in Prefect, of all companies; return what was done."""
    who.rights.require("system", "config", None)
    corrections = await correct_all(service.outbox_worker.context)
    service.outbox_worker.wake()
    return respond_plain(
        request, who, "Reconciled", {"settled": [asdict(correction) for correction in corrections]}
    )


@operation(
    router, "POST /prune.{suffix}", "prune", "Delete what is kept no longer",
    "Jobs, their output and their flow runs in Prefect, tasks and events that are older, or "
    "more, than settings, companies and run templates say (field `retention`). The services "
    "do the same by themselves once an hour. After a few seconds it is left at that: repeat "
    "it while `complete` is false. Needs `system.config`. 503 while Prefect is away.",
    tag=SERVICE, answer=answered("What went.", Pruned), errors=(413, 415),
)  # fmt: skip
async def prune(
    request: Request,
    who: CurrentUser,
    service: CurrentService,
    dry_run: Annotated[
        Boolean | None,
        WithJsonSchema({"type": "boolean"}),
        Query(description="Only say what would go."),
    ] = None,
) -> Response:
    """Delete what is kept no longer, for some seconds; with `dry_run` only say what it is."""
    who.rights.require("system", "config", None)
    pruner = Pruner(service.outbox_worker.context)
    tally = await (pruner.preview() if dry_run else pruner.prune(PRUNE_SECONDS))
    slugs = await asyncio.to_thread(_company_slugs, service)
    counted = [
        {"kind": kind, "company_id": number, "company": slugs.get(number), "count": count}
        for (kind, number), count in tally.counts.items()
        if count
    ]
    data = {"dry_run": bool(dry_run), "complete": tally.is_complete, "pruned": counted}
    return respond_plain(request, who, "Pruned", data)


def _company_slugs(service: Service) -> dict[int | None, str]:
    with service.ledger.reading() as session:
        return company_slugs(session)
