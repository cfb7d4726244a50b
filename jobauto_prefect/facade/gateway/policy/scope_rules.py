"""The rules that narrow a request to an access scope: one function for each `ScopeRule`."""

import json
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any

from jobauto_prefect.errors import Fault, Forbidden, InvalidInput
from jobauto_prefect.facade.gateway.policy.body_filters import (
    narrow_filter,
    requested_ids,
    require_object,
)
from jobauto_prefect.facade.gateway.policy.body_rules import refuse_own_events, require_short_lists
from jobauto_prefect.facade.gateway.policy.scoped_request import (
    Decision,
    ScopedRequest,
    require_few,
)
from jobauto_prefect.facade.gateway.route_lookup import is_uuid
from jobauto_prefect.facade.gateway.routes import ScopeRule

RUN_FILTERS = ("flow_runs", "task_runs")

DEPLOYMENT_FILTERS = ("deployments", "work_pools")
"""Filters for flows by their runs, and by their deployments."""

STATES_KEYS = frozenset({"flow_runs", "state", "limit"})
STATES_TOGETHER = frozenset({"RUNNING", "COMPLETED"})
"""Fields a worker sends to set one state for several of its flow runs, and the states."""

MAX_VALUES_BYTES = 64 * 1024
"""Maximum bytes of values that are checked against a schema."""

WORKER_EVENTS = "prefect.worker."
RUN_EVENTS = "prefect.flow-run."
TASK_RUN_NAMES = "prefect.task-run"
TASK_RUN_EVENTS = f"{TASK_RUN_NAMES}."
NO_POOL = "prefect.work-pool.none"
RuleFunction = Callable[[ScopedRequest], Awaitable[Decision]]
RULES: dict[ScopeRule, RuleFunction] = {}


async def apply_rule(rule: ScopeRule, scoped: ScopedRequest) -> Decision:
    """Decide what part of a request may be forwarded.

    Raises:
        NotFound: it is about something outside the scope.
        Forbidden: it can't be kept within the scope.
        InvalidInput: the body can't be understood.
    """
    return await RULES[rule](scoped)


def _rule(*rules: ScopeRule) -> Callable[[RuleFunction], RuleFunction]:
    """Register a function as that of these rules."""

    def register(function: RuleFunction) -> RuleFunction:
        RULES.update(dict.fromkeys(rules, function))
        return function

    return register


@_rule(ScopeRule.ANYONE)
async def _anyone(scoped: ScopedRequest) -> Decision:
    return Decision(scoped.request.body)


@_rule(ScopeRule.FILTER)
async def _filter(scoped: ScopedRequest) -> Decision:
    allowed = await scoped.visible_deployments()
    return Decision(narrow_filter(scoped.request.body, "deployments", "id", allowed))


@_rule(ScopeRule.DEPLOYMENT)
async def _deployment(scoped: ScopedRequest) -> Decision:
    return await scoped.require_deployment(scoped.request.path_parameters.get("id"))


@_rule(ScopeRule.DEPLOYMENT_NAME)
async def _deployment_name(scoped: ScopedRequest) -> Decision:
    deployment_id = await scoped.ownership.find_deployment(scoped.request.path)
    return await scoped.require_deployment(deployment_id)


@_rule(ScopeRule.FLOW_RUN)
async def _flow_run(scoped: ScopedRequest) -> Decision:
    return await scoped.require_run(scoped.request.path_parameters.get("id"))


@_rule(ScopeRule.TASK_RUN)
async def _task_run(scoped: ScopedRequest) -> Decision:
    return await scoped.require_task_run(scoped.request.path_parameters.get("id"))


@_rule(ScopeRule.ARTIFACT, ScopeRule.FLOW_RUN_STATE)
async def _flow_run_object(scoped: ScopedRequest) -> Decision:
    return await scoped.require_run(await scoped.ownership.flow_run_of(scoped.request.path))


@_rule(ScopeRule.TASK_RUN_STATE)
async def _task_run_state(scoped: ScopedRequest) -> Decision:
    return await scoped.require_task_run(await scoped.ownership.task_run_of(scoped.request.path))


@_rule(ScopeRule.QUERY_FLOW_RUN)
async def _query_flow_run(scoped: ScopedRequest) -> Decision:
    return await scoped.require_run(scoped.request.query.get("flow_run_id"))


@_rule(ScopeRule.QUERY_TASK_RUN)
async def _query_task_run(scoped: ScopedRequest) -> Decision:
    return await scoped.require_task_run(scoped.request.query.get("task_run_id"))


@_rule(ScopeRule.FLOW)
async def _flow(scoped: ScopedRequest) -> Decision:
    flow_id = scoped.request.path_parameters["id"]
    if not await scoped.ownership.has_flow(scoped.scope, flow_id):
        raise scoped.not_found()
    return Decision(scoped.request.body)


@_rule(ScopeRule.FLOW_FILTER)
async def _flow_filter(scoped: ScopedRequest) -> Decision:
    """Narrow a filter of flows, and its conditions on their runs and deployments.

    Companies share flows: another company's runs of a flow must not make it visible.
    """
    body = narrow_filter(scoped.request.body, "flows", "id", await scoped.visible_flows())
    if any(body.get(name) is not None for name in RUN_FILTERS):
        deployments = await scoped.visible_deployments()
        body = narrow_filter(body, "flow_runs", "deployment_id", deployments)
    if any(body.get(name) is not None for name in DEPLOYMENT_FILTERS):
        body = narrow_filter(body, "deployments", "id", await scoped.visible_deployments())
    return Decision(body)


@_rule(ScopeRule.LOGS)
async def _logs(scoped: ScopedRequest) -> Decision:
    """Narrow a filter of log lines to the runs it must name: a line refers only to its run."""
    body = scoped.request.body
    run_ids = requested_ids(body, "logs", "flow_run_id")
    task_run_ids = requested_ids(body, "logs", "task_run_id")
    if run_ids is None and task_run_ids is None:
        raise Forbidden("name the flow runs whose log lines you want (logs.flow_run_id.any_)")
    if run_ids is not None:
        body = narrow_filter(body, "logs", "flow_run_id", await scoped.visible_runs(run_ids))
    if task_run_ids is not None:
        runs = {
            task_run_id: await scoped.ownership.flow_run_of_task_run(task_run_id)
            for task_run_id in require_few(task_run_ids)
        }
        visible = await scoped.visible_runs(runs.values())
        allowed = {task_run_id for task_run_id, run in runs.items() if run in visible}
        body = narrow_filter(body, "logs", "task_run_id", allowed)
    return Decision(body)


@_rule(ScopeRule.RUN_IDS)
async def _run_ids(scoped: ScopedRequest) -> Decision:
    body = require_object(scoped.request.body)
    requested = body.get("flow_run_ids")
    run_ids = (
        [run_id for run_id in requested if isinstance(run_id, str)]
        if isinstance(requested, list)
        else []
    )
    visible = await scoped.visible_runs(run_ids)
    return Decision(
        body | {"flow_run_ids": [run_id for run_id in run_ids if run_id.lower() in visible]}
    )


@_rule(ScopeRule.LISTED_RUNS)
async def _listed_runs(scoped: ScopedRequest) -> Decision:
    run_ids = requested_ids(scoped.request.body, "flow_runs", "id")
    if run_ids is None:
        raise Forbidden("name the flow runs that this is for (flow_runs.id.any_)")
    visible = await scoped.visible_runs(run_ids)
    return Decision(narrow_filter(scoped.request.body, "flow_runs", "id", visible))


@_rule(ScopeRule.RUN_STATES)
async def _run_states(scoped: ScopedRequest) -> Decision:
    """Allow two states for named flow runs, if all of them are in the scope."""
    body = require_object(scoped.request.body)
    run_ids = requested_ids(body, "flow_runs", "id")
    kind = require_object(body.get("state")).get("type")
    if not run_ids or body.keys() != STATES_KEYS or kind not in STATES_TOGETHER:
        raise _not_together()
    named = body["flow_runs"]
    if named.keys() != {"id"} or named["id"].keys() != {"any_"}:
        raise _not_together()
    if await scoped.visible_runs(run_ids) != set(run_ids):
        message = "not all of them are flow runs of this token's work pools"
        raise InvalidInput([Fault("/flow_runs/id/any_", "scope", message)])
    return Decision(body)


def _not_together() -> Forbidden:
    return Forbidden(
        f"a worker's token can only set the state {' or '.join(sorted(STATES_TOGETHER))}, with a"
        " limit and without force, and must name the flow runs (flow_runs.id.any_, no other filter)"
    )


@_rule(ScopeRule.LISTED_DEPLOYMENTS)
async def _listed_deployments(scoped: ScopedRequest) -> Decision:
    if requested_ids(scoped.request.body, "deployments", "id") is None:
        raise Forbidden("name the deployments that this is for (deployments.id.any_)")
    return await _filter(scoped)


@_rule(ScopeRule.POOL)
async def _pool(scoped: ScopedRequest) -> Decision:
    parameters = scoped.request.path_parameters
    name = parameters.get("work_pool_name") or parameters["name"]
    if name not in await scoped.visible_pools():
        raise scoped.not_found()
    return Decision(scoped.request.body)


@_rule(ScopeRule.QUEUE)
async def _queue(scoped: ScopedRequest) -> Decision:
    pool = await scoped.ownership.pool_of_queue(scoped.request.path_parameters["id"])
    if pool not in await scoped.visible_pools():
        raise scoped.not_found()
    return Decision(scoped.request.body)


@_rule(ScopeRule.POOL_FILTER, ScopeRule.POOL_RUNS)
async def _pool_filter(scoped: ScopedRequest) -> Decision:
    pools = await scoped.visible_pools()
    return Decision(narrow_filter(scoped.request.body, "work_pools", "name", pools))


@_rule(ScopeRule.POOL_BODY)
async def _pool_body(scoped: ScopedRequest) -> Decision:
    if require_object(scoped.request.body).get("name") not in await scoped.visible_pools():
        raise Forbidden("this token is not for that work pool")
    return Decision(scoped.request.body)


@_rule(ScopeRule.POOL_TEMPLATE)
async def _pool_template(scoped: ScopedRequest) -> Decision:
    """Allow a work pool that has no job template to be given one.

    Prefect's workers do that over their socket, and with this request if the socket fails; they
    exit if it is refused.
    """
    decision = await _pool(scoped)
    if require_object(scoped.request.body).keys() != {"base_job_template"}:
        raise Forbidden("a worker's token may set nothing but the job template of a work pool")
    if (await scoped.ownership.fetch(scoped.request.path)).get("base_job_template"):
        raise Forbidden("that work pool has a job template; administrators change it")
    return decision


@_rule(ScopeRule.LOG_LINES)
async def _log_lines(scoped: ScopedRequest) -> Decision:
    lines = scoped.request.body
    if not isinstance(lines, list):
        raise InvalidInput([Fault("", "type", "the body must be a JSON array of log lines")])
    run_ids = {require_object(line).get("flow_run_id") for line in lines}
    if len(await scoped.visible_runs(run_ids)) < len(run_ids):
        raise Forbidden("this token is not for the flow runs of these log lines")
    await _require_own_task_runs(scoped, lines)
    return Decision(lines)


@_rule(ScopeRule.ARTIFACT_BODY)
async def _artifact_body(scoped: ScopedRequest) -> Decision:
    artifact = require_object(scoped.request.body)
    await _require_own_task_runs(scoped, [artifact])
    return await scoped.require_run(artifact.get("flow_run_id"))


async def _require_own_task_runs(
    scoped: ScopedRequest, written: Sequence[Mapping[str, Any]]
) -> None:
    """Require that what is written about task runs is about those of the flow runs it names.

    Prefect shows it at the task run, whatever the flow run. One that Prefect is yet to record, for
    which its events are checked, has no run.

    Raises:
        Forbidden: one is of another flow run, or spelled otherwise than Prefect's clients do.
    """
    pairs = {(str(one.get("task_run_id")).lower(), one.get("flow_run_id")) for one in written}
    for task_run_id, run_id in pairs:
        if task_run_id == "none":
            continue
        run = await scoped.ownership.flow_run_of_task_run(task_run_id)
        if not is_uuid(task_run_id) or run not in (None, str(run_id).lower()):
            raise Forbidden("this token is not for the task runs that are named here")


@_rule(ScopeRule.EVENT_FILTER)
async def _event_filter(scoped: ScopedRequest) -> Decision:
    """Narrow a subscription to events that concern the work pools of the scope."""
    body = require_object(scoped.request.body)
    require_short_lists(body)
    requested = require_object(body.get("filter"))
    resources = requested.get("any_resource") or []
    # Conditions are joined by and; an empty list of ids would be no condition.
    pool_ids = await scoped.ownership.pool_ids(scoped.scope)
    ids = [f"prefect.work-pool.{pool_id}" for pool_id in pool_ids] or [NO_POOL]
    conditions = [*(resources if isinstance(resources, list) else [resources]), {"id": ids}]
    return Decision(body | {"filter": requested | {"any_resource": conditions}})


@_rule(ScopeRule.EVENTS)
async def _events(scoped: ScopedRequest) -> Decision:
    """Forward a worker's events about itself and its runs, if the names aren't this service's."""
    event = require_object(scoped.request.body)
    refuse_own_events(event)
    name = str(event.get("event"))
    is_workers = name.startswith(WORKER_EVENTS)
    resource_id = str(require_object(event.get("resource")).get("prefect.resource.id"))
    if is_workers or resource_id.startswith(WORKER_EVENTS):
        if not (is_workers and await scoped.ownership.has_worker(scoped.scope, resource_id)):
            raise Forbidden(
                f"a worker's token can only send {WORKER_EVENTS}* events of workers of its pools; "
                "this event has another name, or is of another worker"
            )
        return Decision(scoped.request.body)
    if name.startswith(TASK_RUN_NAMES) or resource_id.startswith(TASK_RUN_EVENTS):
        # Prefect creates and changes task runs by such events.
        known = await scoped.ownership.flow_run_of_task_run(_task_run_of(event, resource_id))
        if known is not None:
            await scoped.require_run(known)
    elif resource_id.startswith(RUN_EVENTS):
        return await scoped.require_run(resource_id.removeprefix(RUN_EVENTS))
    return await scoped.require_run(_related_run(event))


def _task_run_of(event: Mapping[str, Any], resource_id: str) -> str:
    """Return the id of the task run that Prefect creates or changes by an event.

    Prefect accepts ids in any spelling, and ids in the payload override the resource's.

    Raises:
        Forbidden: it could be another one.
    """
    task_run_id = resource_id.removeprefix(TASK_RUN_EVENTS)
    payload = require_object(event.get("payload"))
    named = require_object(payload.get("task_run")).keys() & {"id", "flow_run_id"}
    named |= require_object(payload.get("validated_state")).keys() & {"id"}
    if task_run_id == resource_id or not is_uuid(task_run_id) or named:
        raise Forbidden(
            f"an event of a task run must be about {TASK_RUN_EVENTS}ID, the UUID with hyphens; its "
            "payload must have no id and no flow_run_id"
        )
    return task_run_id


def _related_run(event: Mapping[str, Any]) -> str | None:
    """Find the flow run to which an event, for example of a task run, is related, or None.

    As in Prefect, the first related resource with the role counts.
    """
    related = event.get("related")
    for resource in map(require_object, related if isinstance(related, list) else ()):
        if resource.get("prefect.resource.role") == "flow-run":
            resource_id = str(resource.get("prefect.resource.id"))
            return resource_id.removeprefix(RUN_EVENTS)
    return None


@_rule(ScopeRule.SYNTHETIC)
async def _synthetic(scoped: ScopedRequest) -> Decision:
    for path, respond in RESPONSES.items():
        if scoped.request.path.startswith(path):
            return Decision(None, answer=await respond(scoped))
    raise LookupError(scoped.request.path)


@_rule(ScopeRule.SCHEMA)
async def _schema(scoped: ScopedRequest) -> Decision:
    """Allow values to be checked against deployments' schemas only: others could take minutes."""
    body = require_object(scoped.request.body)
    if len(json.dumps(body.get("values")).encode()) > MAX_VALUES_BYTES:
        message = f"the values have more than {MAX_VALUES_BYTES} bytes"
        raise InvalidInput([Fault("/values", "size", message)])
    if not await scoped.ownership.has_schema(scoped.scope, body.get("schema")):
        raise Forbidden("values are checked against the schema of a deployment that you may see")
    return Decision(body)


SETTINGS = {"server": {"ui": {"show_promotional_content": False}, "analytics_enabled": False}}
"""All Prefect settings that its pages read."""

Response = Callable[[ScopedRequest], Awaitable[Any]]


async def _settings(_scoped: ScopedRequest) -> Any:
    return SETTINGS


async def _no_records(_scoped: ScopedRequest) -> Any:
    """Return an empty list: these are for administrators, or tell something of other companies."""
    return []


async def _deployments_by_flow(scoped: ScopedRequest) -> Any:
    counts = await scoped.ownership.deployments_by_flow(scoped.scope)
    return {flow_id: counts.get(flow_id, 0) for flow_id in _requested_flows(scoped)}


async def _no_next_runs(scoped: ScopedRequest) -> Any:
    """Report no next run: Prefect would report any company's."""
    return dict.fromkeys(_requested_flows(scoped))


def _requested_flows(scoped: ScopedRequest) -> list[str]:
    flow_ids = require_object(scoped.request.body).get("flow_ids")
    if not isinstance(flow_ids, list):
        return []
    return [flow_id for flow_id in flow_ids if isinstance(flow_id, str)]


RESPONSES: Mapping[str, Response] = {
    "/admin/settings": _settings,
    "/saved_searches/": _no_records,
    "/automations/": _no_records,
    "/observed-states": _no_records,
    "/ui/flows/count-deployments": _deployments_by_flow,
    "/ui/flows/next-runs": _no_next_runs,
}
