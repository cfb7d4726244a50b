"""What part of a request is forwarded to Prefect: for workers, administrators and members."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, cast

from jobauto_prefect.errors import Forbidden, NotFound
from jobauto_prefect.facade.auth.identity import Identity
from jobauto_prefect.facade.gateway.policy.body_filters import (
    changed_fields,
    refuse_templates,
    require_allowed_fields,
)
from jobauto_prefect.facade.gateway.policy.body_rules import (
    drop_force,
    prefix_idempotency_keys,
    refuse_own_events,
    refuse_retries,
    require_declared,
    require_scheduled_state,
    require_schedules,
    require_short,
    shorten_state,
)
from jobauto_prefect.facade.gateway.policy.owners import Owner, Ownership
from jobauto_prefect.facade.gateway.policy.scope_rules import apply_rule
from jobauto_prefect.facade.gateway.policy.scoped_request import Decision, ScopedRequest
from jobauto_prefect.facade.gateway.request import ProxyRequest
from jobauto_prefect.facade.gateway.route_lookup import find_route
from jobauto_prefect.facade.gateway.routes import CONFIGURES, JOBS, Content, Route, ScopeRule

REVEAL = "credentials.reveal"
"""The permission to see the secrets in Prefect's blocks."""

STRAY = (
    "this work pool runs deployments of jobauto's run templates, and this run is of none; start "
    "the run template, or move the deployment to a work pool of another type"
)
"""Why a flow run ends that is in a work pool of jobauto by mistake."""

BULK_RULES = frozenset({ScopeRule.LISTED_RUNS, ScopeRule.LISTED_DEPLOYMENTS})
OWNED_RULES = frozenset({ScopeRule.DEPLOYMENT, ScopeRule.FLOW_RUN, ScopeRule.ARTIFACT})
FALSE_WORDS = frozenset({"", "0", "false", "f", "no", "n", "off"})


def is_unrestricted(identity: Identity, route: Route) -> bool:
    """Whether a route is used without narrowing, with the records of all companies."""
    return route.permission in identity.rights.everywhere


def require_access(identity: Identity, route: Route) -> None:
    """Refuse a route that the caller can't use whatever the body: it is then not read.

    Raises:
        Forbidden: the message says who can.
    """
    if identity.worker_pools is not None:
        if route.worker_rule is None:
            raise Forbidden("a worker's token is not allowed here")
    elif not identity.rights.anywhere("applications.read"):
        raise Forbidden("you have no role that allows this; ask an administrator")
    elif route.member_rule is None and not is_unrestricted(identity, route):
        raise Forbidden("only administrators may do this in Prefect")


async def decide(
    identity: Identity, route: Route, request: ProxyRequest, ownership: Ownership
) -> Decision:
    """Decide what part of a request, to whose route the caller has access, is forwarded to Prefect.

    Raises:
        Forbidden: none of it; the message names the missing permission.
        NotFound: it is about something the caller may not see.
        InvalidInput: the body can't be understood.
    """
    if identity.worker_pools is not None:
        return await _decide_for_worker(identity.worker_pools, route, request, ownership)
    if asks_for_secrets(request) and not identity.rights.may(REVEAL, None):
        raise Forbidden(f"include_secrets needs the permission {REVEAL}; ask an administrator")
    if route.content is Content.EVENTS:
        refuse_own_events(request.body)
    if is_unrestricted(identity, route):
        decision = await _decide_for_administrator(route, request, ownership)
    else:
        decision = await _decide_for_member(identity, route, request, ownership)
    if route.action and decision.owner:
        require_declared(request.body, await ownership.definition(decision.owner.template_id))
    if route.content is Content.NEW_RUNS:
        deployment_id = request.path_parameters["id"]
        return replace(decision, body=prefix_idempotency_keys(decision.body, deployment_id))
    return decision


async def _decide_for_worker(
    pools: tuple[str, ...], route: Route, request: ProxyRequest, ownership: Ownership
) -> Decision:
    scope = ownership.scope(None, frozenset(pools))
    rule = cast("ScopeRule", route.worker_rule)  # or there is no access
    try:
        decision = await apply_rule(rule, ScopedRequest(request, scope, ownership))
    except NotFound:
        if route.content is not Content.STATE:
            raise
        stray = await ownership.stray_run(request.path_parameters["id"], pools)
        if stray is None:
            raise
        # Whatever state the worker proposes: otherwise the run would wait forever.
        return Decision({"state": {"type": "FAILED", "message": STRAY}}, stray=stray)
    if route.content is Content.STATE:
        return replace(decision, body=shorten_state(decision.body))
    if route.content is Content.SHORT:
        require_short(decision.body)
    return decision


async def _decide_for_administrator(
    route: Route, request: ProxyRequest, ownership: Ownership
) -> Decision:
    """Forward everything; find the owner of what is changed, for the audit trail."""
    if route.action is None or route.member_rule not in OWNED_RULES:
        return Decision(request.body)
    try:
        scope = ownership.scope(None, None)
        decision = await apply_rule(route.member_rule, ScopedRequest(request, scope, ownership))
    except NotFound:  # belongs to no run template
        return Decision(request.body)
    if route.content is Content.SCHEDULES:
        current = await fetch_current(route, request, ownership)
        require_schedules(request.body, _schedules_in(current))
    return decision


async def _decide_for_member(
    identity: Identity, route: Route, request: ProxyRequest, ownership: Ownership
) -> Decision:
    rule = cast("ScopeRule", route.member_rule)  # or there is no access
    refuse_templates(request.body)
    needed = route.permission if route.action is None or rule in BULK_RULES else JOBS
    companies = identity.rights.companies_with(needed)
    if rule in BULK_RULES and not companies:
        raise _permission_error(route)
    scope = ownership.scope(companies, None)
    decision = await apply_rule(rule, ScopedRequest(request, scope, ownership))
    owner = decision.owner
    if route.action and owner and not identity.rights.may(route.permission, owner.company_id):
        raise _permission_error(route)
    if route.action is None:
        return decision
    current = await fetch_current(route, request, ownership)
    is_new = route.method == "POST"
    require_allowed_fields(request.body, route.allowed_fields, current, is_new=is_new)
    if "empirical_policy" in route.allowed_fields:
        refuse_retries(request.body)
    if owner and route.operator_fields is not None:
        _require_configuration_rights(identity, route, changed_fields(request.body, current), owner)
    return _apply_content_rules(route, decision, current)


def _require_configuration_rights(
    identity: Identity, route: Route, changed: set[str], owner: Owner
) -> None:
    """Refuse that a deployment's operators configure it: what runs, when, and with which values.

    Raises:
        Forbidden: the request changes more than `operator_fields`.
    """
    configured = changed.difference(route.operator_fields or ())
    if configured and not identity.rights.may(CONFIGURES, owner.company_id):
        raise Forbidden(
            f"changing {', '.join(sorted(configured))} needs the permission {CONFIGURES}; "
            "ask an administrator"
        )


def _apply_content_rules(route: Route, decision: Decision, current: Mapping[str, Any]) -> Decision:
    """Check the content of a body, or reduce it to what members may send."""
    if route.content is Content.STATE:
        return replace(decision, body=drop_force(decision.body))
    if route.content is Content.NEW_RUNS:
        require_scheduled_state(decision.body)
    if route.content is Content.SHORT:
        require_short(decision.body)
    if route.content is Content.SCHEDULES:
        require_schedules(decision.body, _schedules_in(current))
    return decision


def _permission_error(route: Route) -> Forbidden:
    return Forbidden(f"this needs the permission {route.permission}; ask an administrator")


def asks_for_secrets(request: ProxyRequest) -> bool:
    """Whether the response is to show the secrets in blocks."""
    in_body = request.body.get("include_secrets") if isinstance(request.body, dict) else None
    in_query = request.query.get("include_secrets", "")
    return bool(in_body) or in_query.lower() not in FALSE_WORDS


async def fetch_current(
    route: Route, request: ProxyRequest, ownership: Ownership
) -> Mapping[str, Any]:
    """Fetch the present state before a change: the object at the path, or the deployment to run.

    Returns:
        An empty mapping if Prefect has no route to read it, or no such object.
    """
    if "schedule_id" in request.path_parameters:
        # A schedule has no route of its own: it is part of its deployment.
        deployment = await ownership.fetch(f"/deployments/{request.path_parameters['id']}")
        schedule_id = request.path_parameters["schedule_id"].lower()
        schedules = _schedules_in(deployment)
        return next((schedule for schedule in schedules if schedule["id"] == schedule_id), {})
    if route.method in ("PATCH", "PUT", "DELETE"):
        return await ownership.fetch(request.path) if find_route("GET", request.path) else {}
    if route.member_rule is ScopeRule.DEPLOYMENT:
        return await ownership.fetch(f"/deployments/{request.path_parameters['id']}")
    return {}


def _schedules_in(deployment: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    return deployment.get("schedules") or []
