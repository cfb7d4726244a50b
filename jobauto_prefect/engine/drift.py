"""Where Prefect's objects are not what the records say: somebody changed or deleted them there."""

import asyncio
import contextlib
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any
from uuid import UUID

from jobauto_prefect.compiler.plan import DeploymentPlan
from jobauto_prefect.engine.api import PrefectApi
from jobauto_prefect.engine.apply import AppliedIds
from jobauto_prefect.engine.deployments import Found, differences
from jobauto_prefect.engine.neighbours import Neighbours
from jobauto_prefect.engine.plans import plan_of
from jobauto_prefect.errors import InvalidInput
from jobauto_prefect.ledger import queries
from jobauto_prefect.ledger.audit import WritingSession, write_entry
from jobauto_prefect.ledger.records import RunTemplate

AT_ONCE = 200  # objects Prefect tells of in one answer


@dataclass(frozen=True, slots=True)
class Drift:
    """What differs for one run template: member -> what Prefect has, what it should have.

    `plan` is what it was compared with, `found` the deployment; None: it is gone.
    """

    template_id: int
    plan: DeploymentPlan
    found: Found | None
    differences: Mapping[str, tuple[Any, Any]]

    @property
    def deployment(self) -> str:
        """The name the deployment should have."""
        return self.plan.name


@dataclass(frozen=True, slots=True)
class Settled:
    """What was done about one object that somebody changed in Prefect; the names of its members.

    `kind` and `id` are those of the record, as REST names them; `name` is the object's.
    """

    kind: str
    id: int
    name: str
    taken_over: tuple[str, ...] = ()
    restored: tuple[str, ...] = ()


def note_restored(session: WritingSession, template: RunTemplate, names: Collection[str]) -> None:
    """Write down which members of a deployment were changed in Prefect and come back."""
    if names:
        changes = {"differed in Prefect, restored": [", ".join(sorted(names)), None]}
        write_entry(session, "RunTemplate", "update", changes, template.id, template.company_id)


@dataclass(frozen=True, slots=True)
class _Known:
    """What Prefect holds, by id; of work pools the names."""

    flows: Mapping[str, Found] = field(default_factory=dict)
    deployments: Mapping[str, Found] = field(default_factory=dict)
    pools: frozenset[str] = frozenset()


async def drift(
    near: Neighbours,
    companies: Collection[int] | None = None,
    among: Collection[int] | None = None,
) -> list[Drift]:
    """The run templates whose flow, work pool or deployment differ, by id.

    None: of all companies; among all run templates.

    Prefect is asked for hundreds of objects at a time, and only asked.

    Raises:
        PrefectUnavailable: Prefect does not answer.
    """
    planned = await asyncio.to_thread(_planned, near, companies, among)
    known = await _read(near.prefect, planned.values())
    found = (
        Drift(
            key,
            plan,
            known.deployments.get(_text(ids.deployment_id)),
            dict(_differences(plan, ids, known)),
        )
        for key, (plan, ids) in planned.items()
    )
    return [one for one in found if one.differences]


def _planned(
    near: Neighbours, companies: Collection[int] | None, among: Collection[int] | None
) -> dict[int, tuple[DeploymentPlan, AppliedIds]]:
    planned = {}
    with near.ledger.reading() as session:
        templates = queries.templates_with_context(session, companies, among)
        given = queries.given_by_rules(session, [one.id for one in templates])
        for one in templates:
            # A zone may vanish with an update of the machine: the others are compared.
            with contextlib.suppress(InvalidInput):
                plan = plan_of(session, one, near.settings, given)
                planned[one.id] = plan, AppliedIds(one.app.flow_id, one.deployment_id)
    return planned


async def _read(
    prefect: PrefectApi, planned: Collection[tuple[DeploymentPlan, AppliedIds]]
) -> _Known:
    flows = {str(ids.flow_id) for _, ids in planned if ids.flow_id}
    deployments = {str(ids.deployment_id) for _, ids in planned if ids.deployment_id}
    pools = {plan.work_pool for plan, _ in planned}
    return _Known(
        {one["id"]: one for one in await _filtered(prefect, "flows", "id", flows)},
        {one["id"]: one for one in await _filtered(prefect, "deployments", "id", deployments)},
        frozenset(one["name"] for one in await _filtered(prefect, "work_pools", "name", pools)),
    )


async def _filtered(
    prefect: PrefectApi, kind: str, member: str, wanted: Iterable[str]
) -> list[Found]:
    listed, found = sorted(wanted), list[Found]()
    for begin in range(0, len(listed), AT_ONCE):
        part = {kind: {member: {"any_": listed[begin : begin + AT_ONCE]}}, "limit": AT_ONCE}
        found += await prefect.post(f"/{kind}/filter", part)
    return found


def _differences(
    plan: DeploymentPlan, ids: AppliedIds, known: _Known
) -> Iterator[tuple[str, tuple[Any, Any]]]:
    flow = known.flows.get(_text(ids.flow_id))
    deployment = known.deployments.get(_text(ids.deployment_id))
    if flow is None or flow["name"] != plan.flow.name:
        yield "flow", (flow and flow["name"], plan.flow.name)
    elif set(flow["tags"]) != set(plan.flow.tags):
        yield "flow tags", (flow["tags"], list(plan.flow.tags))
    if plan.work_pool not in known.pools:
        yield "work pool", (None, plan.work_pool)
    if deployment is None or deployment["name"] != plan.name:
        yield "deployment", (deployment and deployment["name"], plan.name)
    if deployment is not None:
        yield from differences(plan, deployment).items()


def _text(known: UUID | None) -> str:
    return str(known) if known else ""
