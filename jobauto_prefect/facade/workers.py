"""Workers as the ledger knows them, and the one that is gone for good."""

from typing import Any

from fastapi import APIRouter, Request, Response

from jobauto_prefect.facade.access import allow
from jobauto_prefect.facade.answers import plain
from jobauto_prefect.facade.auth import Identity, Person
from jobauto_prefect.facade.service import CurrentService, Service
from jobauto_prefect.jobs.workers import lose_worker
from jobauto_prefect.ledger import queries, workers
from jobauto_prefect.ledger.freezes import present_freeze
from jobauto_prefect.ledger.workers import ListedWorker


def add_routes(router: APIRouter) -> None:
    """Add them to the contract."""
    for path, function in (("/workers", known_workers), ("/worker/{name}/lost", lost_worker)):
        method = router.get if function is known_workers else router.post
        method(f"{path}.{{suffix}}")(function)
        method(path, include_in_schema=False)(function)


def known_workers(request: Request, who: Person, service: CurrentService) -> Response:
    """The workers of the work pools one may see, by name."""
    companies = who.rights.companies_with("jobs.read")
    with service.ledger.reading() as session:
        pools = None if companies is None else _pools(service, who)
        listed = workers.listed(session, pools, companies)
        frozen = present_freeze(session, service.ledger.clock()) is not None
        data = {worker.record.name: _shown(service, worker, frozen) for worker in listed}
    return plain(request, who, "Workers", data)


def _pools(service: Service, who: Identity) -> set[str]:
    with service.ledger.reading() as session:
        used = queries.pools_of_templates(session, who.rights.companies_with("jobs.read"))
    return {name or service.settings.pool for name in used}


def _shown(service: Service, listed: ListedWorker, frozen: bool) -> dict[str, Any]:
    worker = listed.record
    lease, now = service.settings.lease_seconds, service.ledger.clock()
    state = "silent"
    if worker.lost_at is not None:
        state = "lost"
    elif workers.is_living(worker, now, lease):
        able = "frozen" if frozen else "working"
        state = "hindered" if worker.hindrances else able
    return {
        "name": worker.name,
        "pool": worker.pool,
        "host": worker.host,
        "instance": str(worker.instance),
        "state": state,
        "seen_at": worker.seen_at.isoformat(),
        "hindrances": worker.hindrances,
        "clock_ahead": worker.clock_ahead,
        "limit": worker.limit,
        "free": listed.free,
        "jobs": listed.jobs,
    }


def lost_worker(name: str, request: Request, who: Person, service: CurrentService) -> Response:
    """A worker is gone for good with its machine: its jobs are lost, and tried again."""
    allow(who, "system", "config", None)
    with service.ledger.writing(who.actor) as session:
        lost = lose_worker(session, name, service.settings)
    service.carrier.wake()
    return plain(request, who, f"Worker {name} is lost", {"name": name, "lost_jobs": lost})
