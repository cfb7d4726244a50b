"""Event rules as Prefect's automations: applied, compared, deleted."""

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any
from uuid import UUID

from jobauto_prefect.compiler.events.automations import AutomationPlan, RuleFacts, automation_plan
from jobauto_prefect.console_addresses import page_address
from jobauto_prefect.engine.api import PrefectApi
from jobauto_prefect.engine.context import EngineContext
from jobauto_prefect.engine.sync.deployment_comparison import PrefectObject
from jobauto_prefect.engine.sync.drift import Differences, ObjectComparison
from jobauto_prefect.engine.sync.record_locks import hold_record
from jobauto_prefect.errors import Conflict
from jobauto_prefect.ledger import outbox
from jobauto_prefect.ledger.access.vouchers import may_tell
from jobauto_prefect.ledger.audit.trail import WritingSession
from jobauto_prefect.ledger.events import event_store
from jobauto_prefect.ledger.outbox import OutboxKind
from jobauto_prefect.ledger.prefect_objects import enqueue_deletion
from jobauto_prefect.ledger.records import EventRule, EventSource, OutboxMessage, RunTemplate
from jobauto_prefect.ledger.store import ReadingSession
from jobauto_prefect.settings import Settings

Read = tuple[AutomationPlan, UUID, UUID | None]
"""The plan, the target's deployment, and the automation's id as stored in the ledger."""


async def apply_rule(context: EngineContext, message: OutboxMessage) -> None:
    """Apply the automation of a rule.

    Raises:
        Locked: another process is doing it.
        Conflict: the run template it starts is not applied yet; try again later.
    """
    rule_id = message.subject_id
    async with hold_record(context, f"rule {rule_id}"):  # two processes would create two
        read = await asyncio.to_thread(_read, context, rule_id)
        if read is not None:
            automation_id = await apply_automation(context.prefect, *read)
            await context.write(_end, rule_id, automation_id)


def _read(context: EngineContext, rule_id: int) -> Read | None:
    with context.ledger.reading() as session:
        rule = session.get(EventRule, rule_id)
        if rule is None or rule.retired_at is not None:
            return None
        deployment_id = rule.runtemplate.deployment_id
        if deployment_id is not None:
            plan = desired_automation(session, rule, context.settings, context.ledger.clock())
            return plan, deployment_id, rule.automation_id
        if outbox.is_pending(session, OutboxKind.APPLY_TEMPLATE, rule.runtemplate_id):
            return None  # applying the template enqueues its rules
    raise Conflict(f"the run template that rule {rule_id} starts is not applied yet")


def _end(session: WritingSession, rule_id: int, automation_id: UUID) -> None:
    rule = session.get_one(EventRule, rule_id, with_for_update={"key_share": True})
    rule.automation_id = automation_id
    if rule.retired_at is not None:  # deleted meanwhile
        enqueue_deletion(session, rule)


async def retire_rule(context: EngineContext, message: OutboxMessage) -> None:
    """Delete the automation of a deleted rule."""
    await retire_automation(context.prefect, UUID(message.payload["id"]))


@dataclass(frozen=True, slots=True)
class DesiredAutomation:
    """A desired automation, and Prefect's id of the deployment it runs."""

    deployment_id: UUID | None
    plan: AutomationPlan

    @property
    def name(self) -> str:
        return self.plan.name


class AutomationComparison(ObjectComparison[EventRule, DesiredAutomation]):
    """Event rules and their automations."""

    record, entity, kind = EventRule, "EventRule", "eventrule"
    message = OutboxKind.APPLY_RULE
    collection = "automations"
    applied = staticmethod(event_store.applied_rules)

    def desired(self, session: ReadingSession, record: EventRule) -> DesiredAutomation:
        """Compute what Prefect should hold for an event rule."""
        context = self.context
        plan = desired_automation(session, record, context.settings, context.ledger.clock())
        return DesiredAutomation(record.runtemplate.deployment_id, plan)

    def differences(self, plan: DesiredAutomation, found: PrefectObject | None) -> Differences:
        """Compare the fields that are made from the rule."""
        names = differing_fields(plan.plan, plan.deployment_id, found)
        return dict.fromkeys(names, (None, None))

    def company_of(self, record: EventRule) -> int:
        """Return the id of the company whose run template the rule starts."""
        return record.runtemplate.company_id


EVENT_ID = "{{ event.payload.event }}"


def desired_automation(
    session: ReadingSession, rule: EventRule, settings: Settings, now: datetime
) -> AutomationPlan:
    """Compute what Prefect should hold for a rule.

    A rule that is no longer allowed to pass on its source's events is planned to create no flow
    runs, because these would be refused.
    """
    source = session.get(EventSource, rule.event_source_id) if rule.event_source_id else None
    template = (
        session.get(RunTemplate, rule.runtemplate_source_id) if rule.runtemplate_source_id else None
    )
    trigger = source.name if source else _name(template) if template else ""
    return automation_plan(
        RuleFacts(
            rule_id=rule.id,
            enabled=rule.enabled and may_tell(session, rule, now),
            trigger=trigger,
            target=_name(rule.runtemplate),
            company_slug=rule.runtemplate.company.slug,
            record_url=page_address(settings.url, "eventrule", rule.id),
            source_id=rule.event_source_id,
            template_id=rule.runtemplate_source_id,
            evidence=rule.evidence,
            operation=rule.operation,
            on=rule.on,
        )
    )


def _name(template: RunTemplate) -> str:
    return f"{template.company.slug}/{template.name}"


async def apply_automation(
    api: PrefectApi, plan: AutomationPlan, deployment_id: UUID, remembered: UUID | None
) -> UUID:
    """Change the automation to match the plan, or create it; return its id.

    Raises:
        PrefectUnavailable: Prefect does not answer.
    """
    wanted = _body(plan, deployment_id)
    present = None
    if remembered is not None:
        present = await api.get_or_none(f"/automations/{remembered}")
    present = present or await _made_before(api, plan)
    if present is None:
        answer = await api.post("/automations/", wanted)
        return UUID(answer["id"])
    if differing_fields(plan, deployment_id, present):
        await api.call("PUT", f"/automations/{present['id']}", wanted)
    return UUID(present["id"])


async def retire_automation(api: PrefectApi, automation_id: UUID) -> None:
    """Delete an automation, if it exists."""
    await api.delete(f"/automations/{automation_id}")


def _body(plan: AutomationPlan, deployment_id: UUID | None) -> dict[str, Any]:
    return {
        "name": plan.name,
        "description": plan.description,
        "enabled": plan.enabled,
        "tags": list(plan.tags),
        "trigger": {
            "type": "event",
            "posture": "Reactive",
            "expect": [plan.event],
            "match": dict(plan.labels),
            "threshold": 1,
            "within": 0,
        },
        "actions": [
            {
                "type": "run-deployment",
                "source": "selected",
                "deployment_id": str(deployment_id),
                "parameters": {"jobauto": {"event": EVENT_ID, "rule": plan.rule_id}},
            }
        ],
    }


def differing_fields(
    plan: AutomationPlan, deployment_id: UUID | None, present: Mapping[str, Any] | None
) -> tuple[str, ...]:
    """Return the fields that differ from the plan; `present` is None if it is gone."""
    if present is None:
        return ("automation",)
    wanted = _body(plan, deployment_id)
    same = {name: present.get(name) == value for name, value in wanted.items()}
    same["trigger"] = _holds(present["trigger"], wanted["trigger"])
    actions, asked = present["actions"], wanted["actions"]
    same["actions"] = len(actions) == len(asked) and all(map(_holds, actions, asked))
    return tuple(name for name in wanted if not same[name])


def _holds(present: Mapping[str, Any], wanted: Mapping[str, Any]) -> bool:
    """Whether all wanted fields match; Prefect adds others."""
    return all(present.get(name) == value for name, value in wanted.items())


async def _made_before(api: PrefectApi, plan: AutomationPlan) -> Mapping[str, Any] | None:
    """Find an automation whose id was not stored because its process died, or return None."""
    named = {"automations": {"name": {"any_": [plan.name]}}}
    for automation in await api.post("/automations/filter", named):
        for action in automation["actions"]:
            references = (action.get("parameters") or {}).get("jobauto")
            if isinstance(references, dict) and references.get("rule") == plan.rule_id:
                made: Mapping[str, Any] = automation
                return made
    return None
