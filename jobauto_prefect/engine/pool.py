"""The work pool of the jobauto worker, as Prefect is told of it."""

from typing import Any
from urllib.parse import quote

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
"""The service says what a job needs: there is nothing to set for a deployment."""


async def ensure_pool(api: PrefectApi, name: str) -> bool:
    """Create the work pool unless there is one of that name, of any type; True: it was created."""
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
        if await _exists(api, name):  # somebody else was quicker
            return False
        raise
    return True


async def announce_silence(api: PrefectApi, pool: str, worker: str) -> None:
    """The last heartbeat for now: Prefect takes the worker for offline a few seconds later."""
    body = {"name": worker, "heartbeat_interval_seconds": 1}
    await api.post(f"/work_pools/{quote(pool, safe='')}/workers/heartbeat", body)


async def _exists(api: PrefectApi, name: str) -> bool:
    try:
        await api.get(f"/work_pools/{quote(name, safe='')}")
    except NotFound:
        return False
    return True
