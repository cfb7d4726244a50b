"""Work pools and workers in Prefect and in the ledger, and declaring a worker lost."""

import asyncio
from datetime import datetime
from typing import Annotated, Any, Literal
from uuid import UUID

from fastapi import APIRouter, Path, Request, Response
from pydantic import Field, WithJsonSchema

from jobauto_prefect.engine.work_pools import pools
from jobauto_prefect.facade.answers import Answer
from jobauto_prefect.facade.auth.identity import CurrentUser, Identity
from jobauto_prefect.facade.http.operations import SERVICE, answered, keyed, operation
from jobauto_prefect.facade.http.responses import respond_plain
from jobauto_prefect.facade.service import CurrentService, Service
from jobauto_prefect.jobs.workers import declare_worker_lost
from jobauto_prefect.ledger.jobs import workers
from jobauto_prefect.ledger.jobs.freezes import present_freeze
from jobauto_prefect.ledger.jobs.workers import ListedWorker
from jobauto_prefect.ledger.queries.run_templates import pools_of_templates

WorkerName = Annotated[
    str,
    WithJsonSchema(
        {
            "type": "string", "minLength": 1, "maxLength": 200, "pattern": "^[^/]+$",
            "x-shown": "workerName",
        }
    ),
    Path(description="The name of the worker."),
]  # fmt: skip
router = APIRouter()


class Worker(Answer):
    """A worker as Prefect knows it."""

    name: str = Field(description="Its name.")
    online: bool = Field(description="Whether Prefect has had a recent heartbeat.")
    last_heartbeat: datetime | None = Field(description="When Prefect had its last heartbeat.")


class WorkPool(Answer):
    """A work pool of run templates; `exists` is false if Prefect has none of that name."""

    name: str = Field(description="The name for people.")
    type: str | None = Field(
        description="The kind of worker that serves it; null: there is no such pool."
    )
    exists: bool = Field(description="Whether Prefect has it.")
    paused: bool = Field(description="Whether the pool is paused, so that it starts nothing.")
    workers: list[Worker] = Field(description="All workers that have served it.")


class WorkerState(Answer):
    """A worker as it last reported to this service."""

    name: str = Field(description="Its name.")
    pool: str = Field(description="The work pool it serves.")
    host: str = Field(description="The name of its machine.")
    instance: UUID = Field(description="Identifies one start of the worker.")
    state: Literal["working", "frozen", "hindered", "silent", "lost"] = Field(
        description="working; frozen: there is a freeze; hindered: it can't start some or all "
        "jobs; silent: no sign of life for longer than a lease; lost: declared gone for good."
    )
    seen_at: datetime = Field(description="Its last sign of life.")
    hindrances: dict[str, str] = Field(
        description="Its problems: disk, processes or the name of an executor, each with the "
        "reason."
    )
    clock_ahead: float = Field(
        description="How many seconds its host's clock is ahead of the service's; negative: behind."
    )
    limit: int | None = Field(description="How many jobs it runs at once; null: unknown.")
    free: int | None = Field(description="How many more jobs it takes; null: unknown.")
    jobs: list[int] = Field(
        description="The ids of its jobs that may be running, if you may see these jobs."
    )


class WorkerLost(Answer):
    """A worker that is gone for good, and the jobs that are lost with it."""

    name: str = Field(description="The name of the worker.")
    lost_jobs: list[int] = Field(description="The ids of the jobs.")


@operation(
    router, "GET /pools.{suffix}", "listPools", "List work pools and their workers",
    "An object keyed by name: the work pools, as Prefect knows them, of the active run templates "
    "that you may see. 503 while Prefect is unavailable.",
    tag=SERVICE, answer=answered("The work pools.", keyed(WorkPool)),
)  # fmt: skip
async def list_work_pools(request: Request, who: CurrentUser, service: CurrentService) -> Response:
    """Return the work pools of the run templates one may see, keyed by name, with their workers."""
    names = await asyncio.to_thread(visible_pools, service, who)
    work_pools = await pools(service.outbox_worker.context.prefect, sorted(names))
    data = {
        pool.name: {
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
                for worker in pool.workers or ()
            ],
        }
        for pool in work_pools
    }
    return respond_plain(request, who, "Work pools", data)


def visible_pools(service: Service, who: Identity) -> set[str]:
    """Return the work pools of the run templates that somebody may see."""
    companies = who.rights.companies_with("jobs.read")
    with service.ledger.reading() as session:
        used = pools_of_templates(session, companies)
    return {name or service.settings.pool for name in used}


@operation(
    router, "GET /workers.{suffix}", "listWorkers", "List workers",
    "An object keyed by name: the workers of the work pools that you may see, with host, last "
    "sign of life, jobs and problems.",
    tag=SERVICE, answer=answered("The workers.", keyed(WorkerState)),
)  # fmt: skip
def list_workers(request: Request, who: CurrentUser, service: CurrentService) -> Response:
    """Return the workers of the work pools one may see, keyed by name."""
    companies = who.rights.companies_with("jobs.read")
    with service.ledger.reading() as session:
        visible = None if companies is None else visible_pools(service, who)
        listed = workers.list_workers(session, visible, companies)
        frozen = present_freeze(session, service.ledger.clock()) is not None
        data = {worker.record.name: worker_fields(service, worker, frozen) for worker in listed}
    return respond_plain(request, who, "Workers", data)


def worker_fields(service: Service, listed: ListedWorker, frozen: bool) -> dict[str, Any]:
    """Serialize a worker with its state."""
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


@operation(
    router, "POST /worker/{name:path}/lost.{suffix}", "loseWorker",
    "Declare a worker lost",
    "For a machine that will not come back: the worker's jobs become lost, and are retried if "
    "their run templates say so. If the worker is still alive, it has to end its jobs. 409 if it "
    "gave a sign of life within the last lease. Needs `system.config`.",
    tag=SERVICE, answer=answered("The lost jobs.", WorkerLost), errors=(409, 413, 415),
)  # fmt: skip
def declare_lost(
    name: WorkerName, request: Request, who: CurrentUser, service: CurrentService
) -> Response:
    """Declare a worker lost: its jobs become lost, and are retried."""
    who.rights.require("system", "config", None)
    with service.ledger.writing(who.actor) as session:
        lost = declare_worker_lost(session, name, service.settings)
    service.outbox_worker.wake()
    return respond_plain(request, who, f"Worker {name} is lost", {"name": name, "lost_jobs": lost})
