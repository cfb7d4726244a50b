"""What of a request somebody may do."""

from collections.abc import Mapping
from typing import Any

from jobauto_prefect.errors import Forbidden, NotFound
from jobauto_prefect.facade.auth import Identity
from jobauto_prefect.facade.gateway.asking import Ask
from jobauto_prefect.facade.gateway.checks import Granted, grant
from jobauto_prefect.facade.gateway.narrowing import require_members, require_plain
from jobauto_prefect.facade.gateway.reach import Holdings
from jobauto_prefect.facade.gateway.table import JOBS, Reach, Route

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
    if is_wide(who, route):
        return await _for_administrator(route, ask, holdings)
    return await _for_member(who, route, ask, holdings)


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
        return await grant(route.others, holdings, holdings.domain(None, None), ask)
    except NotFound:  # it is none of ours
        return Granted(ask.body)


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
    if route.action:
        require_members(ask.body, route.members, await current_of(route, ask, holdings))
    return granted


def _lacking(route: Route) -> Forbidden:
    return Forbidden(f"this needs the permission {route.permission}; ask an administrator")


def asks_for_secrets(ask: Ask) -> bool:
    """Whether the answer is to show what blocks keep secret."""
    in_body = ask.body.get("include_secrets") if isinstance(ask.body, dict) else None
    asked = ask.query.get("include_secrets", "")
    return bool(in_body) or asked.lower() not in NOT_ASKED


async def current_of(route: Route, ask: Ask, holdings: Holdings) -> Mapping[str, Any]:
    """What is there before a change: the object at the path, or the deployment that is run."""
    if route.method in ("PATCH", "PUT", "DELETE"):
        return await holdings.current(ask.path)
    if route.others is Reach.DEPLOYMENT:
        return await holdings.current(f"/deployments/{ask.said['id']}")
    return {}
