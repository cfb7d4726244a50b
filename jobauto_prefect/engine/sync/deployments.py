"""Makes flow, work pool and deployment in Prefect match a plan.

A deployment whose id we don't know is POSTed, and the answer says whether it is new. Afterwards
only fields that differ are PATCHed, because each write deletes the runs Prefect has scheduled
ahead, and POST gives the schedule a new id, which is part of Prefect's own key against duplicate
runs.
"""

import contextlib
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from urllib.parse import quote
from uuid import UUID

from jobauto_prefect.compiler.plan import DeploymentPlan, FlowPlan, is_given
from jobauto_prefect.engine.api import PrefectApi
from jobauto_prefect.engine.sync.deployment_comparison import (
    PrefectObject,
    comparable_fields,
    differences,
    foreign_schedules,
    is_same_schedule,
    own_schedule,
    schedule_body,
)
from jobauto_prefect.engine.sync.upcoming_runs import is_upcoming
from jobauto_prefect.engine.work_pools import ensure_pool, ensure_queue
from jobauto_prefect.errors import NotFound
from jobauto_prefect.ledger.jobs.flow_runs import moved_key

CheckFound = Callable[[UUID], Awaitable[None]]
"""Raises if an existing deployment must not be taken over."""

IsInUse = Callable[[UUID], Awaitable[bool]]
"""Whether a flow is an application's, with or without deployments."""


@dataclass(frozen=True, slots=True)
class AppliedIds:
    """Prefect's ids as stored in the ledger; None: not applied yet."""

    flow_id: UUID | None = None
    deployment_id: UUID | None = None


@dataclass(frozen=True, slots=True)
class Applied:
    """What Prefect holds now. `written` describes each write; empty: nothing differed.

    `retired` is the deployment that a renamed one replaced. `moved` are the waiting flow runs that
    were replaced under a new name or in another work pool: old id -> new id. `is_new`: the
    deployment did not exist, so no runs wait for it.
    """

    flow_id: UUID
    deployment_id: UUID
    written: tuple[str, ...] = ()
    retired: UUID | None = None
    moved: Mapping[UUID, UUID] = field(default_factory=dict)
    is_new: bool = False


async def apply(
    api: PrefectApi,
    plan: DeploymentPlan,
    remembered: AppliedIds,
    check_found: CheckFound | None = None,
    is_in_use: IsInUse | None = None,
) -> Applied:
    """Change flow, work pool and deployment to match the plan; safe to repeat.

    Names are identities in Prefect: a new name makes a new object, the waiting runs move to it, and
    the old deployment is deleted; so is an old flow without deployments and runs, unless it
    `is_in_use`. A deployment that somebody deleted is created again. An existing one of that name
    is taken over unless `check_found` raises, which is called before anything else is changed.

    Raises:
        PrefectUnavailable: Prefect does not answer.
        Conflict: Prefect refuses the plan; the message gives the reason.
    """
    written: list[str] = []
    flow_id = await ensure_flow(api, plan.flow, remembered.flow_id, written)
    if await ensure_pool(api, plan.work_pool):
        written.append(f"work pool {plan.work_pool} created")
    written += await ensure_queue(api, plan.work_pool, plan.work_queue)
    deployment_id, former, is_new = await _ensure_deployment(
        api, plan, flow_id, remembered, written
    )
    if check_found is not None and deployment_id != remembered.deployment_id and not is_new:
        await check_found(deployment_id)
    retired = UUID(former["id"]) if former else None
    moved: Mapping[UUID, UUID] = {}
    if former is not None or (written and not is_new):
        source = retired or deployment_id
        moved = await move_waiting_runs(
            api, source, deployment_id, plan.work_pool, plan.work_queue.name
        )
        written += [f"flow run {old} moved" for old in moved]
    if former is not None:
        await retire(api, UUID(former["id"]))
        written.append(f"deployment {former['name']} retired")
        is_kept = is_in_use is not None and await is_in_use(UUID(former["flow_id"]))
        if not is_kept and await retire_flow(api, former["flow_id"]):
            written.append(f"flow {former['flow_id']} retired")
    return Applied(flow_id, deployment_id, tuple(written), retired, moved, is_new)


async def retire(api: PrefectApi, deployment_id: UUID) -> None:
    """Delete a deployment with its waiting runs; its other runs remain as history."""
    await api.delete(f"/deployments/{deployment_id}")


async def retire_flow(api: PrefectApi, flow_id: str) -> bool:
    """Delete a flow without deployments and runs; deleting it deletes the history of its runs.

    Return False if it still has some.
    """
    of_flow = {"flows": {"id": {"any_": [flow_id]}}}
    for kind in ("deployments", "flow_runs"):
        if await api.post(f"/{kind}/count", of_flow):
            return False
    await api.delete(f"/flows/{flow_id}")
    return True


async def ensure_flow(
    api: PrefectApi, plan: FlowPlan, remembered: UUID | None, written: list[str]
) -> UUID:
    """Return the id of the plan's flow, created if needed; append each write to `written`."""
    flow: PrefectObject | None = None
    if remembered is not None:
        with contextlib.suppress(NotFound):
            flow = await api.get_shared(f"/flows/{remembered}")
    if flow is None or flow["name"] != plan.name:
        flow = await api.get_or_none(f"/flows/name/{quote(plan.name, safe='')}")
    if flow is None:
        body = {"name": plan.name, "tags": list(plan.tags), "labels": dict(plan.labels)}
        written.append(f"flow {plan.name} created")
        return UUID((await api.post("/flows/", body))["id"])
    if set(flow["tags"]) != set(plan.tags):
        await api.patch(f"/flows/{flow['id']}", {"tags": list(plan.tags)})
        written.append(f"flow {plan.name}: tags changed")
    return UUID(flow["id"])


async def _ensure_deployment(
    api: PrefectApi, plan: DeploymentPlan, flow_id: UUID, remembered: AppliedIds, written: list[str]
) -> tuple[UUID, PrefectObject | None, bool]:
    """Return the deployment's id, the one it replaces under a new name, and whether it is new.

    The second is None if it replaces no deployment.
    """
    former: PrefectObject | None = None
    if remembered.deployment_id is not None:
        former = await api.get_or_none(f"/deployments/{remembered.deployment_id}")
    if former and (former["name"], former["flow_id"]) == (plan.name, str(flow_id)):
        wanted = comparable_fields(plan)
        differing = {name: wanted[name] for name in differences(plan, former) if name in wanted}
        if "work_queue_name" in differing:
            differing["work_pool_name"] = plan.work_pool  # Prefect looks in it for the queue
        if differing:
            await api.patch(f"/deployments/{former['id']}", differing)
            written.append(f"deployment {plan.name}: {', '.join(sorted(differing))} changed")
        await _change_schedule(api, plan, former, written)
        return UUID(former["id"]), None, False
    deployment_id, is_new = await _create(api, plan, flow_id)
    written.append(f"deployment {plan.name} {'created' if is_new else 'taken over'}")
    replaced = former is not None and former["id"] != str(deployment_id)
    return deployment_id, former if replaced else None, is_new


async def _create(api: PrefectApi, plan: DeploymentPlan, flow_id: UUID) -> tuple[UUID, bool]:
    """Create a deployment whose id we don't know; return its id and whether it is new.

    This does not check first whether it exists, which it only does if a process was killed before
    storing its id, or if it is another ledger's. Prefect then overwrites it, with its schedule.
    """
    wanted = comparable_fields(plan)
    del wanted["concurrency_limit"]  # None makes Prefect query four times for it
    schedules = [schedule_body(plan.schedule)] if plan.schedule else []
    body = {"name": plan.name, "flow_id": str(flow_id), "labels": dict(plan.labels)}
    answer, is_new = await api.create("/deployments/", body | wanted | {"schedules": schedules})
    if answer.get("global_concurrency_limit") is not None:
        await api.patch(f"/deployments/{answer['id']}", {"concurrency_limit": None})
    return UUID(answer["id"]), is_new


async def _change_schedule(
    api: PrefectApi, plan: DeploymentPlan, deployment: PrefectObject, written: list[str]
) -> None:
    at = f"/deployments/{deployment['id']}/schedules"
    for foreign in foreign_schedules(deployment):
        await api.delete(f"{at}/{foreign['id']}")
        written.append(f"deployment {plan.name}: a schedule that is not ours deleted")
    present = own_schedule(deployment)
    if plan.schedule is None:
        if present is not None:
            await api.delete(f"{at}/{present['id']}")
            written.append(f"deployment {plan.name}: schedule deleted")
        return
    body = schedule_body(plan.schedule)
    if present is None:
        await api.post(at, [body])
        written.append(f"deployment {plan.name}: schedule created")
    elif not is_same_schedule(present, body):
        await api.patch(f"{at}/{present['id']}", body)
        written.append(f"deployment {plan.name}: schedule changed")


async def move_waiting_runs(
    api: PrefectApi, source: UUID, target: UUID, pool: str, queue: str
) -> dict[UUID, UUID]:
    """Replace each run that waits at `source` by one at `target` in `pool`: old -> new id.

    Prefect can change neither a run's deployment nor its pool: the successor, in the target's work
    queue `queue`, has the same time, parameters and name, and the old run is deleted.

    Runs that are already there stay, and so do those of Prefect's scheduler, as the target has its
    own schedule. Repeating the call after an interruption makes no second successor.
    """
    moved = {}
    query = {
        "deployments": {"id": {"any_": [str(source)]}},
        "flow_runs": {"state": {"type": {"any_": ["SCHEDULED"]}}},
    }
    waiting = [run async for page in api.pages("/flow_runs/filter", query) for run in page]
    for run in waiting:
        is_there = (run["work_pool_name"], run["work_queue_name"]) == (pool, queue)
        if run["auto_scheduled"] or is_upcoming(run) or (source == target and is_there):
            continue
        ours = {
            key: value for key, value in run["labels"].items() if not key.startswith("prefect.")
        }
        details = {"scheduled_time": run["next_scheduled_start_time"]}
        body = {
            "name": run["name"],
            "parameters": run["parameters"],
            "enforce_parameter_schema": False,
            "tags": [tag for tag in run["tags"] if not is_given(tag)],
            "labels": ours,
            "idempotency_key": moved_key(run["id"]),
            "state": {"type": "SCHEDULED", "state_details": details},
        }
        successor = await api.post(f"/deployments/{target}/create_flow_run", body)
        moved[UUID(run["id"])] = UUID(successor["id"])
    for old in moved:
        await api.delete(f"/flow_runs/{old}")
    return moved
