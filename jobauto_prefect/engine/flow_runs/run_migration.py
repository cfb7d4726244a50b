"""Moving waiting flow runs to another deployment or work pool.

Prefect can't change either of a flow run: each run gets a successor with the same time,
parameters and name, and the old one is deleted.
"""

from collections.abc import Mapping
from typing import Any
from uuid import UUID

from jobauto_prefect.compiler.tags import is_given
from jobauto_prefect.engine.api import PAGE_SIZE, PrefectApi
from jobauto_prefect.ledger.jobs.flow_runs import moved_key


async def move_waiting_runs(
    api: PrefectApi, source: UUID, target: UUID, pool: str, queue: str
) -> dict[UUID, UUID]:
    """Give each run that waits at `source` a successor at `target`, in `pool`: old -> new id.

    In the work queue `queue`, which is the target's.

    Runs that are already there stay, and so do those of Prefect's scheduler: the target has its
    own schedule. A repeated call after an interruption makes no second successor.
    """
    moved = {}
    for run in await _waiting(api, source):
        if (
            run["auto_scheduled"]
            or is_upcoming(run)
            or (source == target and _is_there(run, pool, queue))
        ):
            continue
        body = _successor(run)
        successor = await api.post(f"/deployments/{target}/create_flow_run", body)
        moved[UUID(run["id"])] = UUID(successor["id"])
    for old in moved:
        await api.delete(f"/flow_runs/{old}")
    return moved


def _is_there(run: Mapping[str, Any], pool: str, queue: str) -> bool:
    return bool(run["work_pool_name"] == pool and run["work_queue_name"] == queue)


def is_upcoming(run: Mapping[str, Any]) -> bool:
    """Whether it was made for a window to come: the target gets its own."""
    named = run["parameters"].get("jobauto")
    return isinstance(named, dict) and "window" in named


def _successor(run: Mapping[str, Any]) -> dict[str, Any]:
    ours = {key: value for key, value in run["labels"].items() if not key.startswith("prefect.")}
    details = {"scheduled_time": run["next_scheduled_start_time"]}
    return {
        "name": run["name"],
        "parameters": run["parameters"],
        "enforce_parameter_schema": False,
        "tags": [tag for tag in run["tags"] if not is_given(tag)],
        "labels": ours,
        "idempotency_key": moved_key(run["id"]),
        "state": {"type": "SCHEDULED", "state_details": details},
    }


async def _waiting(api: PrefectApi, deployment_id: UUID) -> list[dict[str, Any]]:
    runs: list[dict[str, Any]] = []
    while True:
        query = {
            "deployments": {"id": {"any_": [str(deployment_id)]}},
            "flow_runs": {"state": {"type": {"any_": ["SCHEDULED"]}}},
            "limit": PAGE_SIZE,
            "offset": len(runs),
        }
        page = await api.post("/flow_runs/filter", query)
        runs += page
        if len(page) < PAGE_SIZE:
            return runs
