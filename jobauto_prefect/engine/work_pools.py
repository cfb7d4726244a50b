"""The work pool of the jobauto worker in Prefect, and how Prefect's UI shows its type."""

import asyncio
import contextlib
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote

from jobauto_prefect.compiler.plan import USUAL_QUEUE, WorkQueuePlan
from jobauto_prefect.engine.api import PrefectApi
from jobauto_prefect.errors import Conflict, NotFound

POOL_TYPE = "jobauto"

DESCRIPTION = (
    "Runs the jobs of jobauto: claims each run at the jobauto service, which says what to execute "
    "and with which environment, and reports how it ended."
)

BASE_JOB_TEMPLATE: dict[str, Any] = {
    "job_configuration": {"env": {}},  # Prefect refuses an empty one
    "variables": {"type": "object", "properties": {}},
}
"""The service decides what a job needs, so deployments have nothing to set."""


async def ensure_pool(api: PrefectApi, name: str) -> bool:
    """Create the work pool unless one of that name exists, of any type.

    Return whether it was created.
    """
    if await _exists(api, name):
        return False
    body = {
        "name": name,
        "type": POOL_TYPE,
        "description": DESCRIPTION,
        "base_job_template": BASE_JOB_TEMPLATE,
    }
    try:
        await api.post("/work_pools/", body)
    except Conflict:
        if await _exists(api, name):  # somebody else was faster
            return False
        raise
    return True


async def ensure_queue(api: PrefectApi, pool: str, queue: WorkQueuePlan) -> list[str]:
    """Create a pool's work queue if missing, and set its priority; return what was written.

    The default queue without a priority needs no check: each pool has it.
    """
    if queue == USUAL_QUEUE:
        return []
    at = f"/work_pools/{quote(pool, safe='')}/queues"
    wanted = {} if queue.priority is None else {"priority": queue.priority}
    try:
        present = await api.get(f"{at}/{quote(queue.name, safe='')}")
    except NotFound:
        with contextlib.suppress(Conflict):  # somebody else was faster
            await api.post(at, {"name": queue.name, **wanted})
        return [f"work queue {queue.name} created"]
    if queue.priority in (None, present["priority"]):
        return []
    await api.patch(f"{at}/{quote(queue.name, safe='')}", wanted)
    return [f"work queue {queue.name}: priority changed"]


async def announce_silence(api: PrefectApi, pool: str, worker: str) -> None:
    """Send a final heartbeat: Prefect shows the worker as offline a few seconds later."""
    body = {"name": worker, "heartbeat_interval_seconds": 1}
    await api.post(f"/work_pools/{quote(pool, safe='')}/workers/heartbeat", body)


async def _exists(api: PrefectApi, name: str) -> bool:
    try:
        await api.get_shared(f"/work_pools/{quote(name, safe='')}")
    except NotFound:
        return False
    return True


@dataclass(frozen=True, slots=True)
class Pool:
    """A work pool; `workers` are its workers in Prefect, None if the pool does not exist.

    `paused` pools start nothing.
    """

    name: str
    type: str | None = None
    paused: bool = False
    workers: list[dict[str, Any]] | None = None


async def pools(prefect: PrefectApi, names: Iterable[str]) -> list[Pool]:
    """Return these work pools, in their order.

    Raises:
        PrefectUnavailable: Prefect does not answer.
    """
    return list(await asyncio.gather(*(_pool(prefect, name) for name in names)))


async def _pool(prefect: PrefectApi, name: str) -> Pool:
    path = f"/work_pools/{quote(name, safe='')}"
    try:
        pool, workers = await asyncio.gather(
            prefect.get(path), prefect.post(f"{path}/workers/filter", {})
        )
    except NotFound:
        return Pool(name)
    return Pool(name, pool["type"], pool["is_paused"], workers)


LOGO = (
    "<svg xmlns='http://www.w3.org/2000/svg' viewBox='0 0 16 16' width='48' height='48'>"
    "<rect width='16' height='16' rx='4' fill='#0f766e'/>"
    "<path d='M5 4.2v7.6L11.8 8z' fill='white'/></svg>"
)

LOGO_URL = f"data:image/svg+xml,{quote(LOGO)}"
"""The logo as a data URL: nothing has to be downloaded."""

WORKER_TYPES = "aggregate-worker-metadata"
"""Prefect's list of work pool types, by the package that provides them."""

WORKER_TYPE: dict[str, Any] = {
    POOL_TYPE: {
        "type": POOL_TYPE,
        "display_name": "jobauto",
        "description": DESCRIPTION,
        "logo_url": LOGO_URL,
        "documentation_url": "",
        "install_command": "pip install jobauto-prefect",
        "is_beta": False,
        "default_base_job_configuration": BASE_JOB_TEMPLATE,
    }
}


def add_worker_type() -> None:
    """Add our work pool type to those that the Prefect server in this process knows.

    A server takes the list from a registry on the internet and has no setting for additions, so
    the function that reads it is replaced by one that adds ours.
    """
    from prefect.server.api import collections

    published = collections.get_collection_view

    async def with_ours(view: str) -> dict[str, Any]:
        types = await published(view)
        return types | {"jobauto-prefect": WORKER_TYPE} if view == WORKER_TYPES else types

    collections.get_collection_view = with_ours
