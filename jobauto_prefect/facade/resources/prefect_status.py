"""What Prefect has and does: where it differs from the records, its work pools and workers."""

import asyncio
from dataclasses import asdict
from typing import Annotated, Any

from fastapi import APIRouter, Query, Request, Response

from jobauto_prefect.engine.services.retention import Pruner
from jobauto_prefect.engine.sync.deployment_drift import find_drift, stray_deployments
from jobauto_prefect.engine.sync.drift_monitor import correct_all
from jobauto_prefect.engine.work_pools import Pool, pools
from jobauto_prefect.facade.auth.identity import CurrentUser, Identity
from jobauto_prefect.facade.http.field_types import Boolean
from jobauto_prefect.facade.http.responses import respond_plain
from jobauto_prefect.facade.service import CurrentService, Service
from jobauto_prefect.ledger.queries.companies import company_slugs
from jobauto_prefect.ledger.queries.run_templates import pools_of_templates

PRUNE_SECONDS = 5.0
"""How long one request lets go of what is kept no longer."""


def add_routes(router: APIRouter) -> None:
    """Add them to the contract."""
    router.get("/drift.{suffix}")(list_drift)
    router.get("/drift", include_in_schema=False)(list_drift)
    router.post("/reconcile.{suffix}")(reconcile)
    router.post("/reconcile", include_in_schema=False)(reconcile)
    router.post("/prune.{suffix}")(prune)
    router.post("/prune", include_in_schema=False)(prune)
    router.get("/pools.{suffix}")(list_work_pools)
    router.get("/pools", include_in_schema=False)(list_work_pools)


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


async def reconcile(request: Request, who: CurrentUser, service: CurrentService) -> Response:
    """Settle what somebody changed in Prefect, of all companies; return what was done."""
    who.rights.require("system", "config", None)
    corrections = await correct_all(service.outbox_worker.context)
    service.outbox_worker.wake()
    return respond_plain(
        request, who, "Reconciled", {"settled": [asdict(correction) for correction in corrections]}
    )


async def prune(
    request: Request,
    who: CurrentUser,
    service: CurrentService,
    dry_run: Annotated[Boolean, Query()] = False,
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
    data = {"dry_run": dry_run, "complete": tally.is_complete, "pruned": counted}
    return respond_plain(request, who, "Pruned", data)


def _company_slugs(service: Service) -> dict[int | None, str]:
    with service.ledger.reading() as session:
        return company_slugs(session)


async def list_work_pools(request: Request, who: CurrentUser, service: CurrentService) -> Response:
    """Return the work pools of the run templates one may see, by name, with their workers."""
    names = await asyncio.to_thread(visible_pools, service, who)
    work_pools = await pools(service.outbox_worker.context.prefect, sorted(names))
    return respond_plain(
        request, who, "Work pools", {pool.name: _pool_fields(pool) for pool in work_pools}
    )


def visible_pools(service: Service, who: Identity) -> set[str]:
    """Return the work pools of the run templates somebody may see."""
    companies = who.rights.companies_with("jobs.read")
    with service.ledger.reading() as session:
        used = pools_of_templates(session, companies)
    return {name or service.settings.pool for name in used}


def _pool_fields(pool: Pool) -> dict[str, Any]:
    workers = pool.workers or []
    return {
        "name": pool.name,
        "type": pool.type,
        "exists": pool.workers is not None,
        "paused": pool.paused,
        "workers": [
            {
                "name": worker["name"],
                "online": worker["status"] == "ONLINE",
                "last_heartbeat": worker["last_heartbeat_time"],
            }
            for worker in workers
        ],
    }
