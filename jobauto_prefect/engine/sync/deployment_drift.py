"""Flows, work pools and deployments of this ledger that were changed or deleted in Prefect.

The record takes over whether a deployment is paused, its cron expression and its time zone; other
changes are noted in the audit trail and reverted.
"""

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from jobauto_prefect.compiler.plan import DeploymentPlan
from jobauto_prefect.compiler.scheduling.prefect_schedule import schedule_for_prefect
from jobauto_prefect.compiler.scheduling.schedule_errors import schedule_faults
from jobauto_prefect.engine.api import PAGE_SIZE, PrefectApi
from jobauto_prefect.engine.context import EngineContext
from jobauto_prefect.engine.sync.deployment_comparison import (
    PrefectObject,
    differences,
    flow_differences,
    has_planned_times,
    is_pause_changed,
    own_schedule,
)
from jobauto_prefect.engine.sync.deployment_plans import desired_deployment, template_schedule
from jobauto_prefect.engine.sync.deployments import AppliedIds
from jobauto_prefect.engine.sync.drift import (
    Comparison,
    Correction,
    Drift,
    last_of,
)
from jobauto_prefect.engine.work_pools import POOL_TYPE
from jobauto_prefect.jobs.isolation import apart
from jobauto_prefect.jobs.windows.due_windows import keep_windows
from jobauto_prefect.ledger.audit.trail import Actor, WritingSession
from jobauto_prefect.ledger.jobs import windows
from jobauto_prefect.ledger.outbox import OutboxKind
from jobauto_prefect.ledger.queries.events import given_by_rules
from jobauto_prefect.ledger.queries.run_templates import (
    deployments_of_ours,
    templates_with_context,
)
from jobauto_prefect.ledger.records import RunTemplate
from jobauto_prefect.ledger.store import ReadingSession
from jobauto_prefect.settings import Settings

PREFECT_USER = Actor(name="prefect", door="ui")
"""Prefect does not report which user clicked in its UI."""


class DeploymentComparison(Comparison[RunTemplate, DeploymentPlan]):
    """Run templates and their flows, work pools and deployments."""

    record, entity, kind = RunTemplate, "RunTemplate", "runtemplate"
    message = OutboxKind.APPLY_TEMPLATE

    async def find(
        self, after_id: int = 0, among: Collection[int] | None = None
    ) -> tuple[list[Drift[DeploymentPlan]], int]:
        """Find what differs on a page of run templates."""
        pauses = await self.context.read(windows.applied_pauses, after_id, PAGE_SIZE, among)
        applied = [template_id for template_id, *_ in pauses]
        drifts = await find_drift(self.context, among=applied) if applied else []
        return drifts, last_of(applied)

    def desired(self, session: ReadingSession, record: RunTemplate) -> DeploymentPlan:
        """Compute what Prefect should hold for a run template."""
        return desired_deployment(session, record, self.context.settings)

    def settle(
        self, session: WritingSession, record: RunTemplate, drift: Drift[DeploymentPlan]
    ) -> Correction:
        """Change the record by pauses and times of the deployment; audit what is restored."""
        adopted = _adopt(record, drift.found, self.context.settings)
        followed, found = {*adopted}, drift.found
        if found is not None and "paused" in adopted and has_planned_times(drift.plan, found):
            followed.add("schedule")  # by which a deployment may have been switched
        restored = tuple(sorted({*drift.differences} - followed))
        self.audit_restored(session, record, restored)
        if adopted:
            session.actor = PREFECT_USER  # the changes of the record are made in Prefect's name
            keep_windows(session, record, self.context.settings)
        return Correction(self.kind, record.id, drift.plan.name, adopted, restored)


def _adopt(
    template: RunTemplate, deployment: PrefectObject | None, settings: Settings
) -> tuple[str, ...]:
    """Change the record to match the deployment; return the changed fields."""
    if deployment is None:
        return ()
    adopted = []
    if template.applied_paused is not None and is_pause_changed(
        deployment, template.applied_paused
    ):
        template.active = template.applied_paused
        template.applied_paused = not template.applied_paused
        adopted.append("paused")
    if adopt_schedule(template, deployment, settings):
        adopted.append("schedule")
    return tuple(adopted)


@dataclass(frozen=True, slots=True)
class _Present:
    """What Prefect holds, by id (work pools by name), and the ids of what it can't read."""

    flows: Mapping[str, PrefectObject]
    deployments: Mapping[str, PrefectObject]
    pools: frozenset[str]
    unreadable: frozenset[str]


async def find_drift(
    context: EngineContext,
    companies: Collection[int] | None = None,
    among: Collection[int] | None = None,
) -> list[Drift[DeploymentPlan]]:
    """Find the run templates whose flow, work pool or deployment differ, by id.

    Reads hundreds of objects per query, and changes nothing.

    Args:
        context: ledger, Prefect and settings.
        companies: whose templates to compare; None: those of all.
        among: the templates to compare; None: all.

    Raises:
        PrefectUnavailable: Prefect does not answer.
    """
    planned = await context.read(_planned, context.settings, companies, among)
    present = await _read(context.prefect, planned.values())
    drifts = []
    for template_id, (plan, ids) in planned.items():
        if present.unreadable & {_text(ids.flow_id), _text(ids.deployment_id), plan.work_pool}:
            continue
        with apart(f"run template {template_id}"):
            if differing := dict(_differences(plan, ids, present)):
                deployment = present.deployments.get(_text(ids.deployment_id))
                drifts.append(Drift(template_id, ids.deployment_id, plan, deployment, differing))
    return drifts


def _planned(
    session: ReadingSession,
    settings: Settings,
    companies: Collection[int] | None,
    among: Collection[int] | None,
) -> dict[int, tuple[DeploymentPlan, AppliedIds]]:
    planned = {}
    templates = templates_with_context(session, companies, among)
    given = given_by_rules(session, [template.id for template in templates])
    for template in templates:
        # A zone may vanish with an update of the machine: still compare the others.
        with apart(f"run template {template.id}"):
            plan = desired_deployment(session, template, settings, given)
            planned[template.id] = plan, AppliedIds(template.app.flow_id, template.deployment_id)
    return planned


async def _read(
    prefect: PrefectApi, planned: Collection[tuple[DeploymentPlan, AppliedIds]]
) -> _Present:
    flow_ids = {str(ids.flow_id) for _, ids in planned if ids.flow_id}
    deployment_ids = {str(ids.deployment_id) for _, ids in planned if ids.deployment_id}
    names = {plan.work_pool for plan, _ in planned}
    flows, lost_flows = await prefect.find("flows", flow_ids)
    deployments, lost_deployments = await prefect.find("deployments", deployment_ids)
    pools, lost_pools = await prefect.find("work_pools", names, "name")
    return _Present(
        {flow["id"]: flow for flow in flows},
        {deployment["id"]: deployment for deployment in deployments},
        frozenset(pool["name"] for pool in pools),
        frozenset([*lost_flows, *lost_deployments, *lost_pools]),
    )


def _differences(
    plan: DeploymentPlan, ids: AppliedIds, present: _Present
) -> Iterator[tuple[str, tuple[Any, Any]]]:
    deployment = present.deployments.get(_text(ids.deployment_id))
    yield from flow_differences(plan.flow, present.flows.get(_text(ids.flow_id))).items()
    if plan.work_pool not in present.pools:
        yield "work pool", (None, plan.work_pool)
    if deployment is None or deployment["name"] != plan.name:
        yield "deployment", (deployment and deployment["name"], plan.name)
    if deployment is not None:
        yield from differences(plan, deployment).items()


async def stray_deployments(context: EngineContext) -> list[PrefectObject]:
    """Find deployments in work pools of the jobauto worker that belong to no run template.

    Raises:
        PrefectUnavailable: Prefect does not answer.
    """
    strays = list[PrefectObject]()
    of_ours = {"work_pools": {"type": {"any_": [POOL_TYPE]}}, "sort": "NAME_ASC"}
    async for found in context.prefect.pages("/deployments/filter", of_ours):
        known = await context.read(deployments_of_ours, [UUID(each["id"]) for each in found])
        strays += [each for each in found if UUID(each["id"]) not in known]
    return strays


def _text(prefect_id: UUID | None) -> str:
    return str(prefect_id) if prefect_id else ""


LONGEST = 255  # characters of a cron expression, as in a request's body


def adopt_schedule(template: RunTemplate, deployment: PrefectObject, settings: Settings) -> bool:
    """Change a run template to the cron expression and time zone of our schedule in Prefect.

    Return False if they are unchanged, or can't be a run template's: an interval, a recurrence
    rule, an invalid cron expression, a schedule where the template has none. Whether the schedule
    is active is handled as a pause.

    The caller holds the run template's row lock.
    """
    ours = template_schedule(template, settings.timezone)
    handed_over = schedule_for_prefect(ours) if ours else None
    present = own_schedule(deployment)
    if handed_over is None or present is None:
        return False
    rules = present["schedule"]
    cron, zone = rules.get("cron"), rules.get("timezone") or "UTC"
    is_same = (cron, zone) == (handed_over.cron, handed_over.timezone)
    if is_same or not _can_be_kept(template, cron, zone, bool(rules.get("day_or"))):
        return False
    template.interv, template.cron = "c", cron
    if zone != template.zone_name(settings.timezone):
        template.timezone = zone
    return True


def _can_be_kept(template: RunTemplate, cron: str | None, zone: str, day_or: bool) -> bool:
    if not cron or not day_or or len(cron) > LONGEST:
        return False
    times = {
        "interv": "c",
        "cron": cron,
        "timezone": zone,
        "delay": template.delay,
        "deadline_offset": template.deadline_offset,
    }
    return not schedule_faults(times, zone)


async def adopt_pauses(context: EngineContext, template_ids: Collection[int]) -> set[int]:
    """Update the records whose deployments were paused or resumed just now.

    The drift monitor finds all of them eventually; call this before creating a run of one.

    Returns:
        The ids of the changed templates.

    Raises:
        PrefectUnavailable: Prefect does not answer.
    """
    pauses = await context.read(windows.applied_pauses, 0, PAGE_SIZE, template_ids)
    applied = {deployment: (template_id, paused) for template_id, deployment, paused, *_ in pauses}
    ids = [str(deployment_id) for deployment_id in applied]
    present, _ = await context.prefect.find("deployments", ids)
    changed = {
        template_id
        for deployment in present
        for template_id, paused in [applied[UUID(deployment["id"])]]
        if is_pause_changed(deployment, paused)
    }
    if not changed:
        return set()
    corrections, _ = await DeploymentComparison(context).correct(among=changed)
    return {correction.id for correction in corrections if "paused" in correction.taken_over}
