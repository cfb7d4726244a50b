"""What Prefect has and does: where it differs from the records, its work pools and workers."""

import asyncio
from dataclasses import asdict
from typing import Annotated, Any

from fastapi import APIRouter, Query, Request, Response

from jobauto_prefect.engine.drift import drift
from jobauto_prefect.engine.inspection import settle_all
from jobauto_prefect.engine.pruning import Pruner
from jobauto_prefect.engine.workers import Pool, pools
from jobauto_prefect.facade.access import allow
from jobauto_prefect.facade.answers import plain
from jobauto_prefect.facade.auth import Identity, Person
from jobauto_prefect.facade.service import CurrentService, Service
from jobauto_prefect.facade.spellings import Truth
from jobauto_prefect.ledger import queries

PRUNING_SECONDS = 5.0
"""How long one request lets go of what is kept no longer."""


def add_routes(router: APIRouter) -> None:
    """Add them to the contract."""
    router.get("/drift.{suffix}")(drifted)
    router.get("/drift", include_in_schema=False)(drifted)
    router.post("/reconcile.{suffix}")(reconciled)
    router.post("/reconcile", include_in_schema=False)(reconciled)
    router.post("/prune.{suffix}")(pruned)
    router.post("/prune", include_in_schema=False)(pruned)
    router.get("/pools.{suffix}")(work_pools)
    router.get("/pools", include_in_schema=False)(work_pools)


async def drifted(request: Request, who: Person, service: CurrentService) -> Response:
    """The run templates for which Prefect has something else than the records say, by id."""
    found = await drift(service.carrier.near, who.rights.companies_with("jobs.read"))
    data = {
        str(one.template_id): {
            "runtemplate_id": one.template_id,
            "deployment": one.deployment,
            "differences": {
                name: {"prefect": there, "record": here}
                for name, (there, here) in one.differences.items()
            },
        }
        for one in found
    }
    return plain(request, who, "Drift", data)


async def reconciled(request: Request, who: Person, service: CurrentService) -> Response:
    """Settle what somebody changed in Prefect, of all companies; what was done."""
    allow(who, "system", "config", None)
    found = await settle_all(service.carrier.near)
    service.carrier.wake()
    return plain(request, who, "Reconciled", {"settled": [asdict(one) for one in found]})


async def pruned(
    request: Request,
    who: Person,
    service: CurrentService,
    dry_run: Annotated[Truth, Query()] = False,
) -> Response:
    """Let go of what is kept no longer, for some seconds; with `dry_run` only say what it is."""
    allow(who, "system", "config", None)
    pruner = Pruner(service.carrier.near)
    tally = await (pruner.preview() if dry_run else pruner.prune(PRUNING_SECONDS))
    slugs = await asyncio.to_thread(_slugs, service)
    counted = [
        {"kind": kind, "company_id": number, "company": slugs.get(number), "count": count}
        for (kind, number), count in tally.counts.items()
        if count
    ]
    data = {"dry_run": dry_run, "complete": tally.is_complete, "pruned": counted}
    return plain(request, who, "Pruned", data)


def _slugs(service: Service) -> dict[int | None, str]:
    with service.ledger.reading() as session:
        return queries.company_slugs(session)


async def work_pools(request: Request, who: Person, service: CurrentService) -> Response:
    """The work pools of the run templates one may see, by name, with their workers."""
    names = await asyncio.to_thread(_pools_used, service, who)
    found = await pools(service.carrier.near.prefect, sorted(names))
    return plain(request, who, "Work pools", {one.name: _shown(one) for one in found})


def _pools_used(service: Service, who: Identity) -> set[str]:
    companies = who.rights.companies_with("jobs.read")
    with service.ledger.reading() as session:
        used = queries.pools_of_templates(session, companies)
    return {name or service.settings.pool for name in used}


def _shown(pool: Pool) -> dict[str, Any]:
    workers = pool.workers or []
    return {
        "name": pool.name,
        "type": pool.type,
        "exists": pool.workers is not None,
        "paused": pool.paused,
        "workers": [
            {
                "name": one["name"],
                "online": one["status"] == "ONLINE",
                "last_heartbeat": one["last_heartbeat_time"],
            }
            for one in workers
        ],
    }
