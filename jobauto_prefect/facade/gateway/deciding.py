"""What of a request somebody may do."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from jobauto_prefect.errors import Forbidden, NotFound
from jobauto_prefect.facade.auth import Identity
from jobauto_prefect.facade.gateway.asking import Ask
from jobauto_prefect.facade.gateway.checks import Granted, grant
from jobauto_prefect.facade.gateway.limits import require_limits
from jobauto_prefect.facade.gateway.matching import route_of
from jobauto_prefect.facade.gateway.narrowing import (
    changed_members,
    require_members,
    require_plain,
)
from jobauto_prefect.facade.gateway.parameters import require_declared
from jobauto_prefect.facade.gateway.reach import Holdings, Owner
from jobauto_prefect.facade.gateway.runs import (
    require_scheduled,
    with_deployment_keys,
    without_force,
)
from jobauto_prefect.facade.gateway.schedules import require_schedules
from jobauto_prefect.facade.gateway.table import CONFIGURES, JOBS, Content, Reach, Route

REVEAL = "credentials.reveal"
"""The permission to see what Prefect's blocks keep secret."""

MANY = frozenset({Reach.LISTED_RUNS, Reach.LISTED_DEPLOYMENTS})
OWNED = frozenset({Reach.DEPLOYMENT, Reach.FLOW_RUN, Reach.ARTIFACT})
NOT_ASKED = frozenset({"", "0", "false", "f", "no", "n", "off"})


def is_wide(who: Identity, route: Route) -> bool:
    """Whether somebody uses a route as Prefect means it, with everything there is."""
    return route.permission in who.rights.everywhere


async def decide(who: Identity, route: Route, ask: Ask, holdings: Holdings) -> Granted:
    """What of a request may be passed on to Prefect.

    Raises:
        Forbidden: nothing of it; the message says what is missing.
        NotFound: it is about something they may not see.
        InvalidInput: the body can't be understood.
    """
    if who.worker_pools is not None:
        return await _for_worker(who.worker_pools, route, ask, holdings)
    if not who.rights.anywhere("applications.read"):
        raise Forbidden("you have no role that allows this; ask an administrator")
    if asks_for_secrets(ask) and not who.rights.may(REVEAL, None):
        raise Forbidden(f"include_secrets needs the permission {REVEAL}; ask an administrator")
    if route.others is not None:
        require_limits(ask.body, reads=route.action is None and route.others is not Reach.SCHEMA)
    if is_wide(who, route):
        granted = await _for_administrator(route, ask, holdings)
    else:
        granted = await _for_member(who, route, ask, holdings)
    if route.action and granted.owner:
        require_declared(ask.body, await holdings.definition(granted.owner.template_id))
    if route.content is Content.NEW_RUNS:
        return replace(granted, body=with_deployment_keys(granted.body, ask.said["id"]))
    return granted


async def _for_worker(
    pools: tuple[str, ...], route: Route, ask: Ask, holdings: Holdings
) -> Granted:
    if route.workers is None:
        raise Forbidden("a worker's token does not open this")
    return await grant(route.workers, holdings, holdings.domain(None, frozenset(pools)), ask)


async def _for_administrator(route: Route, ask: Ask, holdings: Holdings) -> Granted:
    """Everything; of what is changed it is found out whose it is, for the audit trail."""
    if route.action is None or route.others not in OWNED:
        return Granted(ask.body)
    try:
        granted = await grant(route.others, holdings, holdings.domain(None, None), ask)
    except NotFound:  # it is none of ours
        return Granted(ask.body)
    if route.content is Content.SCHEDULES:
        require_schedules(ask.body, _schedules_in(await current_of(route, ask, holdings)))
    return granted


async def _for_member(who: Identity, route: Route, ask: Ask, holdings: Holdings) -> Granted:
    if route.others is None:
        raise Forbidden("only administrators may do this in Prefect")
    require_plain(ask.body)
    needed = route.permission if route.action is None or route.others in MANY else JOBS
    companies = who.rights.companies_with(needed)
    if route.others in MANY and not companies:
        raise _lacking(route)
    granted = await grant(route.others, holdings, holdings.domain(companies, None), ask)
    owner = granted.owner
    if route.action and owner and not who.rights.may(route.permission, owner.company_id):
        raise _lacking(route)
    if route.action is None:
        return granted
    current = await current_of(route, ask, holdings)
    require_members(ask.body, route.members, current)
    if owner and route.operated is not None:
        _require_operating(who, route, changed_members(ask.body, current), owner)
    return _judged(route, granted, current)


def _require_operating(who: Identity, route: Route, changed: set[str], owner: Owner) -> None:
    """Who may operate a deployment may not configure it: what runs, when, and with what."""
    configured = changed.difference(route.operated or ())
    if configured and not who.rights.may(CONFIGURES, owner.company_id):
        raise Forbidden(
            f"changing {', '.join(sorted(configured))} needs the permission {CONFIGURES}; "
            "ask an administrator"
        )


def _judged(route: Route, granted: Granted, current: Mapping[str, Any]) -> Granted:
    """What a body holds that members may not send as it is."""
    if route.content is Content.STATE:
        return replace(granted, body=without_force(granted.body))
    if route.content is Content.NEW_RUNS:
        require_scheduled(granted.body)
    if route.content is Content.SCHEDULES:
        require_schedules(granted.body, _schedules_in(current))
    return granted


def _lacking(route: Route) -> Forbidden:
    return Forbidden(f"this needs the permission {route.permission}; ask an administrator")


def asks_for_secrets(ask: Ask) -> bool:
    """Whether the answer is to show what blocks keep secret."""
    in_body = ask.body.get("include_secrets") if isinstance(ask.body, dict) else None
    asked = ask.query.get("include_secrets", "")
    return bool(in_body) or asked.lower() not in NOT_ASKED


async def current_of(route: Route, ask: Ask, holdings: Holdings) -> Mapping[str, Any]:
    """What is there before a change: the object at the path, or the deployment that is run.

    Empty where Prefect does not tell.
    """
    if "schedule_id" in ask.said:
        return await _schedule(ask, holdings)
    if route.method in ("PATCH", "PUT", "DELETE"):
        return await holdings.current(ask.path) if route_of("GET", ask.path) else {}
    if route.others is Reach.DEPLOYMENT:
        return await holdings.current(f"/deployments/{ask.said['id']}")
    return {}


async def _schedule(ask: Ask, holdings: Holdings) -> Mapping[str, Any]:
    """Prefect tells of a schedule with its deployment, and not by itself."""
    deployment = await holdings.current(f"/deployments/{ask.said['id']}")
    wanted = ask.said["schedule_id"].lower()
    return next((known for known in _schedules_in(deployment) if known["id"] == wanted), {})


def _schedules_in(deployment: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    return deployment.get("schedules") or []
