"""Responses to what Prefect's pages need and what can't be narrowed: the gateway's own."""

from collections.abc import Awaitable, Callable, Mapping
from typing import Any

from jobauto_prefect.facade.gateway.policy.body_filters import require_object
from jobauto_prefect.facade.gateway.policy.scoped_request import ScopedRequest

SETTINGS = {"server": {"ui": {"show_promotional_content": False}, "analytics_enabled": False}}
"""All of Prefect's settings that its pages look at."""

Response = Callable[[ScopedRequest], Awaitable[Any]]


async def synthesize_response(scoped: ScopedRequest) -> Any:
    """Make the response to a member's request.

    Raises:
        InvalidInput: the body can't be understood.
    """
    for path, respond in RESPONSES.items():
        if scoped.request.path.startswith(path):
            return await respond(scoped)
    raise LookupError(scoped.request.path)


async def _settings(_scoped: ScopedRequest) -> Any:
    return SETTINGS


async def _no_records(_scoped: ScopedRequest) -> Any:
    """List nothing: automations and saved searches are administrators'."""
    return []


async def _deployments_by_flow(scoped: ScopedRequest) -> Any:
    counts = await scoped.ownership.deployments_by_flow(scoped.scope)
    return {flow_id: counts.get(flow_id, 0) for flow_id in _requested_flows(scoped)}


async def _no_next_runs(scoped: ScopedRequest) -> Any:
    """Tell no next run: Prefect would tell that of any company's."""
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
    "/ui/flows/count-deployments": _deployments_by_flow,
    "/ui/flows/next-runs": _no_next_runs,
}
