"""Event rules as Prefect's automations: made, changed where they differ, retired."""

from collections.abc import Mapping
from datetime import datetime
from typing import Any
from uuid import UUID

from jobauto_prefect.compiler.events.automations import AutomationPlan, RuleFacts, automation_plan
from jobauto_prefect.console_addresses import page_address
from jobauto_prefect.engine.api import PrefectApi
from jobauto_prefect.ledger.access.vouchers import may_tell
from jobauto_prefect.ledger.records import EventRule, EventSource, RunTemplate
from jobauto_prefect.ledger.store import ReadingSession
from jobauto_prefect.settings import Settings

EVENT_ID = "{{ event.payload.event }}"


def desired_automation(
    session: ReadingSession, rule: EventRule, settings: Settings, now: datetime
) -> AutomationPlan:
    """Compute what Prefect should hold of a rule.

    One that may not tell what it tells any more makes no flow runs, which would be refused.
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
    """Change the automation to what the plan says, or make it; return its id.

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
    if differences(plan, deployment_id, present):
        await api.call("PUT", f"/automations/{present['id']}", wanted)
    return UUID(present["id"])


async def retire_automation(api: PrefectApi, automation_id: UUID) -> None:
    """Delete an automation; one that is gone does no harm."""
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


def differences(
    plan: AutomationPlan, deployment_id: UUID | None, present: Mapping[str, Any] | None
) -> tuple[str, ...]:
    """Return the fields that are not as the plan says; `present` None: it is gone."""
    if present is None:
        return ("automation",)
    wanted = _body(plan, deployment_id)
    same = {name: present.get(name) == value for name, value in wanted.items()}
    same["trigger"] = _holds(present["trigger"], wanted["trigger"])
    actions, asked = present["actions"], wanted["actions"]
    same["actions"] = len(actions) == len(asked) and all(map(_holds, actions, asked))
    return tuple(name for name in wanted if not same[name])


def _holds(present: Mapping[str, Any], wanted: Mapping[str, Any]) -> bool:
    """Whether all wanted fields are as wanted; Prefect adds others."""
    return all(present.get(name) == value for name, value in wanted.items())


async def _made_before(api: PrefectApi, plan: AutomationPlan) -> Mapping[str, Any] | None:
    """Find an automation of a process that died before it was remembered; None: there is none."""
    named = {"automations": {"name": {"any_": [plan.name]}}}
    for automation in await api.post("/automations/filter", named):
        for action in automation["actions"]:
            references = (action.get("parameters") or {}).get("jobauto")
            if isinstance(references, dict) and references.get("rule") == plan.rule_id:
                made: Mapping[str, Any] = automation
                return made
    return None
