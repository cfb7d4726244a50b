"""What Prefect's pages need to be usable, and can't be narrowed: answered here, for members."""

from collections.abc import Awaitable, Callable, Mapping
from typing import Any

from jobauto_prefect.facade.gateway.asking import Ask
from jobauto_prefect.facade.gateway.narrowing import members_of
from jobauto_prefect.facade.gateway.reach import Holdings
from jobauto_prefect.ledger.domains import Domain

SETTINGS = {"server": {"ui": {"show_promotional_content": False}, "analytics_enabled": False}}
"""All of Prefect's settings that its pages look at."""

Answer = Callable[[Holdings, Domain, Ask], Awaitable[Any]]


async def own_answer(holdings: Holdings, domain: Domain, ask: Ask) -> Any:
    """The answer for somebody who sees this domain.

    Raises:
        InvalidInput: the body can't be understood.
    """
    for path, answer in ANSWERS.items():
        if ask.path.startswith(path):
            return await answer(holdings, domain, ask)
    raise LookupError(ask.path)


async def _settings(_holdings: Holdings, _domain: Domain, _ask: Ask) -> Any:
    return SETTINGS


async def _none(_holdings: Holdings, _domain: Domain, _ask: Ask) -> Any:
    """Automations and saved searches are administrators'."""
    return []


async def _deployments_by_flow(holdings: Holdings, domain: Domain, ask: Ask) -> Any:
    counted = await holdings.deployments_by_flow(domain)
    return {one: counted.get(one, 0) for one in _flows(ask)}


async def _no_next_run(_holdings: Holdings, _domain: Domain, ask: Ask) -> Any:
    """Prefect knows the next run of a flow, whosoever it is; nobody learns that of others."""
    return dict.fromkeys(_flows(ask))


def _flows(ask: Ask) -> list[str]:
    asked = members_of(ask.body).get("flow_ids")
    return [one for one in asked if isinstance(one, str)] if isinstance(asked, list) else []


ANSWERS: Mapping[str, Answer] = {
    "/admin/settings": _settings,
    "/saved_searches/": _none,
    "/automations/": _none,
    "/ui/flows/count-deployments": _deployments_by_flow,
    "/ui/flows/next-runs": _no_next_run,
}
