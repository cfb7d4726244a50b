"""Workers as the ledger knows them, and the one that is gone for good."""

from typing import Any

from fastapi import APIRouter, Request, Response

from jobauto_prefect.facade.auth.identity import CurrentUser
from jobauto_prefect.facade.http.responses import respond_plain
from jobauto_prefect.facade.resources.prefect_status import visible_pools
from jobauto_prefect.facade.service import CurrentService, Service
from jobauto_prefect.jobs.workers import declare_worker_lost
from jobauto_prefect.ledger.jobs import workers
from jobauto_prefect.ledger.jobs.freezes import present_freeze
from jobauto_prefect.ledger.jobs.workers import ListedWorker


def add_routes(router: APIRouter) -> None:
    """Add them to the contract."""
    for path, function in (("/workers", list_workers), ("/worker/{name:path}/lost", declare_lost)):
        method = router.get if function is list_workers else router.post
        method(f"{path}.{{suffix}}")(function)
        method(path, include_in_schema=False)(function)


def list_workers(request: Request, who: CurrentUser, service: CurrentService) -> Response:
    """Return the workers of the work pools one may see, by name."""
    companies = who.rights.companies_with("jobs.read")
    with service.ledger.reading() as session:
        pools = None if companies is None else visible_pools(service, who)
        listed = workers.list_workers(session, pools, companies)
        frozen = present_freeze(session, service.ledger.clock()) is not None
        data = {worker.record.name: worker_fields(service, worker, frozen) for worker in listed}
    return respond_plain(request, who, "Workers", data)


def worker_fields(service: Service, listed: ListedWorker, frozen: bool) -> dict[str, Any]:
    """Serialize a worker, and whether it works."""
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


def declare_lost(
    name: str, request: Request, who: CurrentUser, service: CurrentService
) -> Response:
    """Declare a worker gone for good with its machine: its jobs are lost, and tried again."""
    who.rights.require("system", "config", None)
    with service.ledger.writing(who.actor) as session:
        lost = declare_worker_lost(session, name, service.settings)
    service.outbox_worker.wake()
    return respond_plain(request, who, f"Worker {name} is lost", {"name": name, "lost_jobs": lost})
