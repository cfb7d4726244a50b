"""A request with the access scope to which it is narrowed, and the decision about it."""

import json
from collections.abc import Collection, Iterable
from dataclasses import dataclass
from typing import Any, TypeVar

from jobauto_prefect.errors import Forbidden, NotFound
from jobauto_prefect.facade.gateway.policy.body_filters import ADMINISTRATORS_ONLY
from jobauto_prefect.facade.gateway.policy.owners import Owner, Ownership
from jobauto_prefect.facade.gateway.request import ProxyRequest
from jobauto_prefect.ledger.access.access_scope import AccessScope

C = TypeVar("C", bound=Collection[Any])

MAX_NAMED = 200
"""Maximum runs that one request may name if each must be looked up."""

MAX_NARROWED = 10_000
"""Maximum deployments or flows in a narrowed filter: databases take no longer lists."""


@dataclass(frozen=True, slots=True)
class Decision:
    """What may be forwarded, and its owner; `owner` is None for several owners, or none.

    `answer` is the gateway's own response instead of Prefect's; None: Prefect answers. `stray` is
    the deployment, else the work pool, of a run that is ended because it belongs to no run
    template.
    """

    body: Any
    owner: Owner | None = None
    answer: Any = None
    stray: str | None = None


@dataclass(frozen=True, slots=True)
class ScopedRequest:
    """Finds what a request names, and which of it is in the scope."""

    request: ProxyRequest
    scope: AccessScope
    ownership: Ownership

    async def require_deployment(self, deployment_id: str | None) -> Decision:
        """Forward the request for the owner of its deployment.

        Raises:
            NotFound: the deployment is not in the scope.
        """
        owner = await self.ownership.owner(deployment_id, self.scope)
        if owner is None:
            raise self.not_found()
        return Decision(self.request.body, owner)

    async def require_run(self, flow_run_id: object) -> Decision:
        """Forward the request for the owner of its flow run.

        Raises:
            NotFound: the flow run's deployment is not in the scope.
        """
        run_id = flow_run_id if isinstance(flow_run_id, str) else None
        return await self.require_deployment(await self.ownership.deployment_of(run_id))

    async def require_task_run(self, task_run_id: str | None) -> Decision:
        """Forward the request for the owner of its task run.

        Raises:
            NotFound: the task run's deployment is not in the scope.
        """
        return await self.require_run(await self.ownership.flow_run_of_task_run(task_run_id))

    async def visible_deployments(self) -> set[str]:
        """List the ids of the deployments in the scope. Raises Forbidden if there are too many."""
        return require_narrowable(await self.ownership.deployments(self.scope), "deployments")

    async def visible_flows(self) -> set[str]:
        """List the ids of the flows in the scope. Raises Forbidden if there are too many."""
        return require_narrowable(await self.ownership.flows(self.scope), "flows")

    async def visible_pools(self) -> set[str] | frozenset[str]:
        """List the work pools in the scope; a worker's are those of its token, used or not."""
        if self.scope.pools is not None:
            return self.scope.pools
        return await self.ownership.pools(self.scope)

    async def visible_runs(self, run_ids: Iterable[Any]) -> set[str]:
        """Return the ids of those flow runs that are in the scope, in lower case.

        Raises:
            Forbidden: there are too many to look each up.
        """
        deployments = {
            run_id.lower(): await self.ownership.deployment_of(run_id)
            for run_id in require_few(set(run_ids))
            if isinstance(run_id, str)
        }
        owners = {
            deployment: await self.ownership.owner(deployment, self.scope)
            for deployment in set(deployments.values())
        }
        return {run for run, deployment in deployments.items() if owners[deployment] is not None}

    def not_found(self) -> NotFound:
        """Make the error for a path that leads out of the scope."""
        path = json.dumps(self.request.path)
        return NotFound(f"there is nothing at {path}, or nothing you may see")


def require_narrowable(allowed: set[str], kind: str) -> set[str]:
    """Refuse more ids than a filter can have. Raises Forbidden."""
    if len(allowed) > MAX_NARROWED:
        raise Forbidden(f"you see more than {MAX_NARROWED} {kind}: {ADMINISTRATORS_ONLY}")
    return allowed


def require_few(ids: C) -> C:
    """Refuse more ids than are looked up one by one. Raises Forbidden."""
    if len(ids) > MAX_NAMED:
        raise Forbidden(f"name at most {MAX_NAMED} at once")
    return ids
