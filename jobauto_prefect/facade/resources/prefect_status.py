"""Prefect beside the records: drift, its correction, and the pruning of both."""

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
"""How long one request deletes records."""


router = APIRouter()


class Drift(Answer):
    """A run template that differs in Prefect, or a deployment without run template."""

    runtemplate_id: int | None = Field(
        description="The run template; null: the deployment belongs to none."
    )
    deployment: str = Field(description="The name that its deployment should have, or has.")
    differences: dict[str, Difference] = Field(description="The differences by field.")


class Settlement(Answer):
    """The correction of an object that was changed in Prefect."""

    kind: str = Field(
        description="The kind of the record: app, runtemplate, eventrule, credential or credtype."
    )
    id: int = Field(description="The id of the record.")
    name: str = Field(description="The name of the object in Prefect.")
    taken_over: list[str] = Field(
        description="The fields of the record that were taken over from Prefect."
    )
    restored: list[str] = Field(
        description="The fields in Prefect that are restored from the record."
    )


class Reconciled(Answer):
    """The corrections of changes made in Prefect."""

    settled: list[Settlement] = Field(
        description="One entry per object; values are restored once Prefect has received them."
    )


class PrunedKind(Answer):
    """How many records of a kind were deleted; with `dry_run`, how many would be deleted."""

    kind: Literal["events", "output", "jobs", "tasks", "runs"] = Field(
        description="`output` counts the jobs whose output and artifacts were deleted, `runs` the "
        "flow runs in Prefect other than those deleted with their jobs."
    )
    company_id: int | None = Field(
        description="The company of the records. null: they have no company; for `runs`, they are "
        "those of all companies."
    )
    company: str | None = Field(description="Slug of the company.")
    count: int = Field(description="Their number.")


class Pruned(Answer):
    """The result of pruning."""

    dry_run: bool = Field(description="Whether records were only counted.")
    complete: bool = Field(description="Whether nothing is left to delete.")
    pruned: list[PrunedKind] = Field(description="One entry per kind and company.")


@operation(
    router, "GET /drift.{suffix}", "listDrift", "Compare Prefect with the records",
    "An object keyed by id: the run templates whose flow, work pool or deployment in Prefect "
    "differs from the records, in the companies that you may see. Writing a run template corrects "
    "its differences. 503 while Prefect is unavailable.",
    tag=SERVICE, answer=answered("The run templates that differ.", keyed(Drift)),
)  # fmt: skip
async def list_drift(request: Request, who: CurrentUser, service: CurrentService) -> Response:
    """Return the run templates that differ in Prefect, keyed by id.

    Callers who see all companies also get deployments without run template, by Prefect's id.
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
    "Correct what was changed in Prefect",
    "A deployment's paused state, cron expression and time zone are taken over into the record; "
    "everything else is restored in Prefect. The services do the same step by step. Needs "
    "`system.config`. 503 while Prefect is unavailable.",
    tag=SERVICE, answer=answered("The corrections.", Reconciled), errors=(413, 415),
)  # fmt: skip
async def reconcile(request: Request, who: CurrentUser, service: CurrentService) -> Response:
    """Correct changes made in Prefect, for all companies; return the corrections."""
    who.rights.require("system", "config", None)
    corrections = await correct_all(service.outbox_worker.context)
    service.outbox_worker.wake()
    return respond_plain(
        request, who, "Reconciled", {"settled": [asdict(correction) for correction in corrections]}
    )


@operation(
    router, "POST /prune.{suffix}", "prune", "Delete records past their retention",
    "Deletes records that are beyond their retention: jobs, their output, their flow runs in "
    "Prefect, tasks and events. Settings, companies and run templates (field `retention`) set the "
    "retention. The services do the same once an hour. The request stops after a few seconds: "
    "repeat it while `complete` is false. Needs `system.config`. 503 while Prefect is "
    "unavailable.",
    tag=SERVICE, answer=answered("What was deleted.", Pruned), errors=(413, 415),
)  # fmt: skip
async def prune(
    request: Request,
    who: CurrentUser,
    service: CurrentService,
    dry_run: Annotated[
        Boolean | None,
        WithJsonSchema({"type": "boolean"}),
        Query(description="Only report what would be deleted."),
    ] = None,
) -> Response:
    """Delete records past their retention for some seconds; with `dry_run` only count them."""
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
