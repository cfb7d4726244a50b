"""A deployment as Prefect tells of it, and as its plan says it should be."""

from collections.abc import Mapping
from typing import Any

from jobauto_prefect.compiler.plan import DeploymentPlan, SchedulePlan

SCHEDULE_SLUG = "jobauto"

Found = Mapping[str, Any]


def members(plan: DeploymentPlan) -> dict[str, Any]:
    """The members that can be compared and PATCHed, as Prefect names them."""
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
        "concurrency_limit": None,  # the template's overlap policy is what counts
    }


def schedule_body(schedule: SchedulePlan) -> dict[str, Any]:
    cron = {"cron": schedule.cron, "timezone": schedule.timezone, "day_or": True}
    return {"slug": SCHEDULE_SLUG, "active": schedule.active, "schedule": cron}


def differences(plan: DeploymentPlan, found: Found) -> dict[str, tuple[Any, Any]]:
    """Where a deployment is not what its plan says: member -> what Prefect has, what it should."""
    wanted = members(plan)
    differing = {
        name: (found.get(name), value) for name, value in wanted.items() if found.get(name) != value
    }
    limit = found.get("global_concurrency_limit")  # `concurrency_limit` itself is never answered
    if limit is not None:
        differing["concurrency_limit"] = (limit["limit"], None)
    body = schedule_body(plan.schedule) if plan.schedule else None
    present = schedule_in(found)
    if body is None or present is None:
        same = body is None and present is None
    else:
        same = same_schedule(present, body)
    if not same:
        differing["schedule"] = (_schedule_text(present), _schedule_text(body))
    if others := other_schedules(found):
        differing["other schedules"] = (", ".join(map(str, map(_schedule_text, others))), None)
    return differing


def schedule_in(found: Found) -> Found | None:
    """Our schedule of a deployment; None: it has none."""
    return next((one for one in found["schedules"] if one.get("slug") == SCHEDULE_SLUG), None)


def is_only_switched(plan: DeploymentPlan, found: Found) -> bool:
    """Whether our schedule of a deployment has the times it should have, active or not."""
    present = schedule_in(found)
    if plan.schedule is None or present is None:
        return plan.schedule is None and present is None
    body = schedule_body(plan.schedule)
    return same_schedule({**present, "active": body["active"]}, body)


def other_schedules(found: Found) -> list[Found]:
    return [one for one in found["schedules"] if one.get("slug") != SCHEDULE_SLUG]


def _schedule_text(schedule: Found | None) -> str | None:
    if schedule is None:
        return None
    said = schedule["schedule"]
    seconds, rule = said.get("interval"), said.get("rrule")
    times = said.get("cron") or rule or (f"every {seconds} s" if seconds else "never")
    text = f"{times} {said.get('timezone')}"
    return text if schedule["active"] else f"{text}, not active"


def same_schedule(present: Found, wanted: Mapping[str, Any]) -> bool:
    cron = present["schedule"]
    return bool(
        present["active"] == wanted["active"]
        and not present.get("parameters")
        and all(cron.get(key) == value for key, value in wanted["schedule"].items())
    )
