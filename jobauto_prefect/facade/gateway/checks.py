"""Whether a request stays within somebody's domain, one check for each kind of reach."""

import json
from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from jobauto_prefect.errors import Fault, Forbidden, InvalidInput, NotFound
from jobauto_prefect.facade.gateway.asking import Ask
from jobauto_prefect.facade.gateway.narrowing import (
    WIDE_ONLY,
    members_of,
    named_ids,
    within,
)
from jobauto_prefect.facade.gateway.own import own_answer
from jobauto_prefect.facade.gateway.reach import Holdings, Owner
from jobauto_prefect.facade.gateway.table import Reach
from jobauto_prefect.ledger.domains import Domain

MOST_NAMED = 200
"""Runs that one request may name where each has to be looked up."""

MOST_NARROWED = 10_000
"""Deployments or flows a filter can be narrowed to: databases take no longer lists."""

BY_RUNS = ("flow_runs", "task_runs")
BY_DEPLOYMENTS = ("deployments", "work_pools")
"""Filters that look for flows by what else there is of them."""

LONGEST_VALUES = 64 * 1024
"""Bytes of values that are checked against a schema."""

WORKER_EVENTS = "prefect.worker."
RUN_EVENTS = "prefect.flow-run."
NOTHING = "prefect.work-pool.none"


@dataclass(frozen=True, slots=True)
class Granted:
    """What may be passed on, and whose it is; `owner` is None for more than one, or nobody's.

    `answer` is this service's own, given instead of Prefect's; None: Prefect is asked.
    """

    body: Any
    owner: Owner | None = None
    answer: Any = None


Check = Callable[[Holdings, Domain, Ask], Awaitable[Granted]]


async def grant(reach: Reach, holdings: Holdings, domain: Domain, ask: Ask) -> Granted:
    """What of a request may be passed on.

    Raises:
        NotFound: it is about something outside of the domain.
        Forbidden: it can't be kept within the domain.
        InvalidInput: the body can't be understood.
    """
    return await CHECKS[reach](holdings, domain, ask)


async def _anyone(_holdings: Holdings, _domain: Domain, ask: Ask) -> Granted:
    return Granted(ask.body)


async def _filter(holdings: Holdings, domain: Domain, ask: Ask) -> Granted:
    allowed = await _deployments(holdings, domain)
    return Granted(within(ask.body, "deployments", "id", allowed))


async def _deployment(holdings: Holdings, domain: Domain, ask: Ask) -> Granted:
    return await _owned(holdings, domain, ask, ask.said.get("id"))


async def _deployment_name(holdings: Holdings, domain: Domain, ask: Ask) -> Granted:
    return await _owned(holdings, domain, ask, await holdings.deployment_named(ask.path))


async def _flow_run(holdings: Holdings, domain: Domain, ask: Ask) -> Granted:
    return await _of_run(holdings, domain, ask, ask.said.get("id"))


async def _task_run(holdings: Holdings, domain: Domain, ask: Ask) -> Granted:
    flow_run = await holdings.flow_run_of_task_run(ask.said.get("id"))
    return await _of_run(holdings, domain, ask, flow_run)


async def _flow_run_object(holdings: Holdings, domain: Domain, ask: Ask) -> Granted:
    return await _of_run(holdings, domain, ask, await holdings.flow_run_of(ask.path))


async def _task_run_state(holdings: Holdings, domain: Domain, ask: Ask) -> Granted:
    flow_run = await holdings.flow_run_of_task_run(await holdings.task_run_of(ask.path))
    return await _of_run(holdings, domain, ask, flow_run)


async def _query_flow_run(holdings: Holdings, domain: Domain, ask: Ask) -> Granted:
    return await _of_run(holdings, domain, ask, ask.query.get("flow_run_id"))


async def _query_task_run(holdings: Holdings, domain: Domain, ask: Ask) -> Granted:
    flow_run = await holdings.flow_run_of_task_run(ask.query.get("task_run_id"))
    return await _of_run(holdings, domain, ask, flow_run)


async def _flow(holdings: Holdings, domain: Domain, ask: Ask) -> Granted:
    if not await holdings.has_flow(domain, ask.said["id"]):
        raise _absent(ask)
    return Granted(ask.body)


async def _flow_filter(holdings: Holdings, domain: Domain, ask: Ask) -> Granted:
    """A shared flow has runs and deployments of others: by these nobody finds it."""
    body = within(ask.body, "flows", "id", _at_most(await holdings.flows(domain), "flows"))
    if any(body.get(name) is not None for name in BY_RUNS):
        body = within(body, "flow_runs", "deployment_id", await _deployments(holdings, domain))
    if any(body.get(name) is not None for name in BY_DEPLOYMENTS):
        body = within(body, "deployments", "id", await _deployments(holdings, domain))
    return Granted(body)


async def _deployments(holdings: Holdings, domain: Domain) -> set[str]:
    return _at_most(await holdings.deployments(domain), "deployments")


def _at_most(allowed: set[str], kind: str) -> set[str]:
    if len(allowed) > MOST_NARROWED:
        raise Forbidden(f"you see more than {MOST_NARROWED} {kind}: {WIDE_ONLY}")
    return allowed


async def _logs(holdings: Holdings, domain: Domain, ask: Ask) -> Granted:
    """Log lines know their flow run and nothing else: the runs have to be named."""
    runs = named_ids(ask.body, "logs", "flow_run_id")
    tasks = named_ids(ask.body, "logs", "task_run_id")
    if runs is None and tasks is None:
        raise Forbidden("name the flow runs whose log lines you want (logs.flow_run_id.any_)")
    body = ask.body
    if runs is not None:
        body = within(body, "logs", "flow_run_id", await _held_runs(holdings, domain, runs))
    if tasks is not None:
        runs_of = {one: await holdings.flow_run_of_task_run(one) for one in _few(tasks)}
        held = await _held_runs(holdings, domain, runs_of.values())
        allowed = {one for one, run in runs_of.items() if run in held}
        body = within(body, "logs", "task_run_id", allowed)
    return Granted(body)


async def _run_ids(holdings: Holdings, domain: Domain, ask: Ask) -> Granted:
    body = members_of(ask.body)
    asked = body.get("flow_run_ids")
    runs = [one for one in asked if isinstance(one, str)] if isinstance(asked, list) else []
    held = await _held_runs(holdings, domain, runs)
    return Granted(body | {"flow_run_ids": [one for one in runs if one.lower() in held]})


async def _listed_runs(holdings: Holdings, domain: Domain, ask: Ask) -> Granted:
    asked = named_ids(ask.body, "flow_runs", "id")
    if asked is None:
        raise Forbidden("name the flow runs that this is for (flow_runs.id.any_)")
    held = await _held_runs(holdings, domain, asked)
    return Granted(within(ask.body, "flow_runs", "id", held))


async def _listed_deployments(holdings: Holdings, domain: Domain, ask: Ask) -> Granted:
    if named_ids(ask.body, "deployments", "id") is None:
        raise Forbidden("name the deployments that this is for (deployments.id.any_)")
    return await _filter(holdings, domain, ask)


async def _pool(holdings: Holdings, domain: Domain, ask: Ask) -> Granted:
    name = ask.said.get("work_pool_name") or ask.said["name"]
    if name not in await _pools(holdings, domain):
        raise _absent(ask)
    return Granted(ask.body)


async def _queue(holdings: Holdings, domain: Domain, ask: Ask) -> Granted:
    if await holdings.pool_of_queue(ask.said["id"]) not in await _pools(holdings, domain):
        raise _absent(ask)
    return Granted(ask.body)


async def _pool_filter(holdings: Holdings, domain: Domain, ask: Ask) -> Granted:
    return Granted(within(ask.body, "work_pools", "name", await _pools(holdings, domain)))


async def _pool_body(holdings: Holdings, domain: Domain, ask: Ask) -> Granted:
    if members_of(ask.body).get("name") not in await _pools(holdings, domain):
        raise Forbidden("this token is not for that work pool")
    return Granted(ask.body)


async def _log_lines(holdings: Holdings, domain: Domain, ask: Ask) -> Granted:
    lines = ask.body if isinstance(ask.body, list) else []
    runs = {members_of(line).get("flow_run_id") for line in lines}
    if len(await _held_runs(holdings, domain, runs)) < len(runs):
        raise Forbidden("this token is not for the flow runs of these log lines")
    return Granted(ask.body)


async def _artifact_body(holdings: Holdings, domain: Domain, ask: Ask) -> Granted:
    return await _of_run(holdings, domain, ask, members_of(ask.body).get("flow_run_id"))


async def _event_filter(holdings: Holdings, domain: Domain, ask: Ask) -> Granted:
    """A subscription hears of what concerns the work pools of the domain."""
    body = members_of(ask.body)
    wanted = members_of(body.get("filter"))
    asked = wanted.get("any_resource") or []
    # Several conditions hold together; an empty list of ids would be none at all.
    ids = [f"prefect.work-pool.{one}" for one in await holdings.pool_ids(domain)] or [NOTHING]
    conditions = [*(asked if isinstance(asked, list) else [asked]), {"id": ids}]
    return Granted(body | {"filter": wanted | {"any_resource": conditions}})


async def _events(holdings: Holdings, domain: Domain, ask: Ask) -> Granted:
    """What a worker tells of itself and of its runs."""
    event = members_of(ask.body)
    about = str(members_of(event.get("resource")).get("prefect.resource.id"))
    if about.startswith(WORKER_EVENTS):
        return Granted(ask.body)
    run = about.removeprefix(RUN_EVENTS) if about.startswith(RUN_EVENTS) else _run_in(event)
    return await _of_run(holdings, domain, ask, run)


def _run_in(event: Mapping[str, Any]) -> str | None:
    """The flow run that an event, of a task run for example, is related to."""
    related = event.get("related")
    for one in related if isinstance(related, list) else ():
        about = str(members_of(one).get("prefect.resource.id"))
        if about.startswith(RUN_EVENTS):
            return about.removeprefix(RUN_EVENTS)
    return None


async def _own(holdings: Holdings, domain: Domain, ask: Ask) -> Granted:
    return Granted(None, answer=await own_answer(holdings, domain, ask))


async def _schema(holdings: Holdings, domain: Domain, ask: Ask) -> Granted:
    """Our schemas are checked in no time; what others can be made of takes minutes."""
    body = members_of(ask.body)
    if len(json.dumps(body.get("values")).encode()) > LONGEST_VALUES:
        message = f"the values have more than {LONGEST_VALUES} bytes"
        raise InvalidInput([Fault("/values", "size", message)])
    if not await holdings.has_schema(domain, body.get("schema")):
        raise Forbidden("values are checked against the schema of a deployment that you may see")
    return Granted(body)


async def _pools(holdings: Holdings, domain: Domain) -> set[str] | frozenset[str]:
    # A worker's pools are what its token says, whether a template uses them or not.
    return domain.pools if domain.pools is not None else await holdings.pools(domain)


async def _of_run(holdings: Holdings, domain: Domain, ask: Ask, run: Any) -> Granted:
    deployment = await holdings.deployment_of(run if isinstance(run, str) else None)
    return await _owned(holdings, domain, ask, deployment)


async def _owned(holdings: Holdings, domain: Domain, ask: Ask, deployment: Any) -> Granted:
    owner = await holdings.owner(deployment, domain)
    if owner is None:
        raise _absent(ask)
    return Granted(ask.body, owner)


async def _held_runs(holdings: Holdings, domain: Domain, runs: Iterable[Any]) -> set[str]:
    deployments = {
        one.lower(): await holdings.deployment_of(one)
        for one in _few(set(runs))
        if isinstance(one, str)
    }
    owners = {one: await holdings.owner(one, domain) for one in set(deployments.values())}
    return {run for run, one in deployments.items() if owners[one] is not None}


def _few(named: Any) -> Any:
    if len(named) > MOST_NAMED:
        raise Forbidden(f"name at most {MOST_NAMED} at once")
    return named


def _absent(ask: Ask) -> NotFound:
    return NotFound(f"there is nothing at {json.dumps(ask.path)}, or nothing you may see")


CHECKS: Mapping[Reach, Check] = {
    Reach.ANYONE: _anyone,
    Reach.FILTER: _filter,
    Reach.DEPLOYMENT: _deployment,
    Reach.FLOW_RUN: _flow_run,
    Reach.TASK_RUN: _task_run,
    Reach.FLOW: _flow,
    Reach.FLOW_FILTER: _flow_filter,
    Reach.ARTIFACT: _flow_run_object,
    Reach.FLOW_RUN_STATE: _flow_run_object,
    Reach.TASK_RUN_STATE: _task_run_state,
    Reach.DEPLOYMENT_NAME: _deployment_name,
    Reach.QUERY_FLOW_RUN: _query_flow_run,
    Reach.QUERY_TASK_RUN: _query_task_run,
    Reach.LOGS: _logs,
    Reach.RUN_IDS: _run_ids,
    Reach.LISTED_RUNS: _listed_runs,
    Reach.LISTED_DEPLOYMENTS: _listed_deployments,
    Reach.POOL: _pool,
    Reach.QUEUE: _queue,
    Reach.POOL_FILTER: _pool_filter,
    Reach.POOL_BODY: _pool_body,
    Reach.POOL_RUNS: _pool_filter,
    Reach.LOG_LINES: _log_lines,
    Reach.ARTIFACT_BODY: _artifact_body,
    Reach.OWN: _own,
    Reach.EVENT_FILTER: _event_filter,
    Reach.EVENTS: _events,
    Reach.SCHEMA: _schema,
}
