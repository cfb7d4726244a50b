"""A deployment and its flow in Prefect, compared with their plans."""

from collections.abc import Mapping
from typing import Any

from jobauto_prefect.compiler.plan import DeploymentPlan, FlowPlan, SchedulePlan

SCHEDULE_SLUG = "jobauto"

PrefectObject = Mapping[str, Any]


def comparable_fields(plan: DeploymentPlan) -> dict[str, Any]:
    """Return the fields that can be compared and PATCHed, as Prefect names them."""
    return {
        "entrypoint": plan.entrypoint,
        "path": None,
        "pull_steps": None,
        "description": plan.description,
        "version": plan.version,
        "tags": list(plan.tags),
        "work_pool_name": plan.work_pool,
        "work_queue_name": plan.work_queue.name,
        "parameters": dict(plan.parameters),
        "parameter_openapi_schema": dict(plan.parameter_schema),
        "enforce_parameter_schema": True,
        "paused": plan.paused,
        "concurrency_limit": None,  # the template's overlap policy decides
    }


def schedule_body(schedule: SchedulePlan) -> dict[str, Any]:
    cron = {"cron": schedule.cron, "timezone": schedule.timezone, "day_or": True}
    return {"slug": SCHEDULE_SLUG, "active": schedule.active, "schedule": cron}


def differences(plan: DeploymentPlan, deployment: PrefectObject) -> dict[str, tuple[Any, Any]]:
    """Compare a deployment with its plan: field -> (what Prefect has, what it should have)."""
    wanted = comparable_fields(plan)
    differing = {
        name: (deployment.get(name), value)
        for name, value in wanted.items()
        if deployment.get(name) != value
    }
    limit = deployment.get("global_concurrency_limit")  # answers never have the field that sets it
    if limit is not None:
        differing["concurrency_limit"] = (limit["limit"], None)
    body = schedule_body(plan.schedule) if plan.schedule else None
    present = own_schedule(deployment)
    if body is None or present is None:
        same = body is None and present is None
    else:
        same = is_same_schedule(present, body)
    if not same:
        differing["schedule"] = (_schedule_text(present), _schedule_text(body))
    if others := foreign_schedules(deployment):
        differing["other schedules"] = (", ".join(map(str, map(_schedule_text, others))), None)
    return differing


def flow_differences(plan: FlowPlan, flow: PrefectObject | None) -> dict[str, tuple[Any, Any]]:
    """Compare a flow (None if it is gone) with its plan, as `differences` does."""
    if flow is None or flow["name"] != plan.name:
        return {"flow": (flow and flow["name"], plan.name)}
    if set(flow["tags"]) != set(plan.tags):
        return {"flow tags": (flow["tags"], list(plan.tags))}
    return {}


def own_schedule(deployment: PrefectObject) -> PrefectObject | None:
    """Find our schedule of a deployment, or None."""
    return next(
        (schedule for schedule in deployment["schedules"] if schedule.get("slug") == SCHEDULE_SLUG),
        None,
    )


def has_planned_times(plan: DeploymentPlan, deployment: PrefectObject) -> bool:
    """Whether our schedule of a deployment has the planned times, active or not."""
    present = own_schedule(deployment)
    if plan.schedule is None or present is None:
        return plan.schedule is None and present is None
    body = schedule_body(plan.schedule)
    return is_same_schedule({**present, "active": body["active"]}, body)


def is_pause_changed(deployment: PrefectObject, paused: bool) -> bool:
    """Whether a deployment was paused or resumed since it was applied.

    Either the deployment or its schedule can be switched; both count.
    """
    ours = own_schedule(deployment)
    switches = [deployment["paused"], *([not ours["active"]] if ours else [])]
    return any(switch != paused for switch in switches)


def foreign_schedules(deployment: PrefectObject) -> list[PrefectObject]:
    return [
        schedule for schedule in deployment["schedules"] if schedule.get("slug") != SCHEDULE_SLUG
    ]


def _schedule_text(schedule: PrefectObject | None) -> str | None:
    if schedule is None:
        return None
    rules = schedule["schedule"]
    seconds = rules.get("interval")
    times = (
        rules.get("cron") or rules.get("rrule") or (f"every {seconds} s" if seconds else "never")
    )
    text = f"{times} {rules.get('timezone')}"
    return text if schedule["active"] else f"{text}, not active"


def is_same_schedule(present: PrefectObject, wanted: Mapping[str, Any]) -> bool:
    cron = present["schedule"]
    return bool(
        present["active"] == wanted["active"]
        and not present.get("parameters")
        and all(cron.get(key) == value for key, value in wanted["schedule"].items())
    )
