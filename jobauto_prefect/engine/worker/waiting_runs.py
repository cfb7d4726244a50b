"""Flow runs that wait for a worker."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any
from urllib.parse import quote
from uuid import UUID

from jobauto_prefect.engine.api import PrefectApi
from jobauto_prefect.jobs.isolation import apart


@dataclass(frozen=True, slots=True)
class WaitingRun:
    """A scheduled flow run as its work pool offers it.

    `due` is when it may start, `scheduled_for` when it was first meant to: a retry is due later.
    `changed_at` is when Prefect last changed it; None: not known. `deployment_id` is None for a run
    that nobody made from a deployment. Of an `announced` one no more is known than its ids.
    """

    id: UUID
    deployment_id: UUID | None
    run_count: int
    due: datetime
    scheduled_for: datetime
    auto_scheduled: bool
    idempotency_key: str | None
    name: str
    parameters: Mapping[str, Any] = field(repr=False)
    labels: Mapping[str, Any] = field(repr=False)
    tags: tuple[str, ...] = ()
    announced: bool = False
    changed_at: datetime | None = None


async def waiting_runs(
    api: PrefectApi, pool: str, queues: Collection[str], before: datetime, limit: int
) -> list[WaitingRun]:
    """Return what a worker of the pool may start up to an instant, the most urgent first.

    No more than `limit` runs, and no more than the limits of pool and queues leave free; of all
    its queues where none is named.

    Raises:
        NotFound: there is no such work pool.
    """
    query = {"scheduled_before": before.isoformat(), "limit": limit}
    if queues:
        query["work_queue_names"] = sorted(queues)
    path = f"/work_pools/{quote(pool, safe='')}/get_scheduled_flow_runs"
    runs = list[WaitingRun]()
    for entry in await api.post(path, query):
        with apart(f"flow run {entry['flow_run']['id']}"):
            runs.append(_run(entry["flow_run"]))
    return runs


def _run(flow_run: Mapping[str, Any]) -> WaitingRun:
    due = datetime.fromisoformat(flow_run["next_scheduled_start_time"])
    first = flow_run.get("expected_start_time")
    changed = flow_run.get("updated")
    return WaitingRun(
        id=UUID(flow_run["id"]),
        deployment_id=UUID(flow_run["deployment_id"]) if flow_run.get("deployment_id") else None,
        run_count=flow_run["run_count"],
        due=due,
        scheduled_for=datetime.fromisoformat(first) if first else due,
        auto_scheduled=bool(flow_run.get("auto_scheduled")),
        idempotency_key=flow_run.get("idempotency_key"),
        name=flow_run.get("name") or "",
        parameters=flow_run.get("parameters") or {},
        labels=flow_run.get("labels") or {},
        tags=tuple(flow_run.get("tags") or ()),
        changed_at=datetime.fromisoformat(changed) if changed else None,
    )
