"""Event rules as Prefect's automations, and the names of the events between them."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from jobauto_prefect.compiler.plan import template_tags

ANY = "any"


@dataclass(frozen=True, slots=True)
class AutomationPlan:
    """One rule as a Prefect automation: on this event with these labels, run that template."""

    rule_id: int
    name: str
    description: str
    enabled: bool
    event: str
    labels: Mapping[str, str] = field(default_factory=dict)
    tags: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class RuleFacts:
    """What an automation shows of its rule.

    `trigger` and `target` are names for people; either `source_id` or `template_id` identifies the
    origin of the events. `on` is only for ends.
    """

    rule_id: int
    enabled: bool
    trigger: str
    target: str
    company_slug: str
    record_url: str
    source_id: int | None = None
    template_id: int | None = None
    evidence: str | None = None
    operation: str = ANY
    on: str = "success"


def change_event(source_id: int) -> str:
    """Return the name of the Prefect events of one source, which its rules match."""
    return f"jobauto.source.{source_id}.change"


def end_event(template_id: int, result: str) -> str:
    """Return the name of the Prefect event for a run template's end; `*`: for any end."""
    return f"jobauto.template.{template_id}.{result}"


def emitted_event(name: str) -> str:
    """Return the name of the Prefect event that an application's definition emits under `name`."""
    return f"jobauto.emits.{name}"


def automation_plan(facts: RuleFacts) -> AutomationPlan:
    """Return the automation of a rule."""
    labels = {}
    if facts.source_id is not None:
        event = change_event(facts.source_id)
        if facts.evidence:
            labels["jobauto.evidence"] = facts.evidence
        if facts.operation != ANY:
            labels["jobauto.operation"] = facts.operation
        what = f"{facts.evidence or 'anything'} is {_PAST[facts.operation]} in {facts.trigger}"
    else:
        result = "*" if facts.on == ANY else facts.on
        event = end_event(facts.template_id or 0, result)
        what = f"{facts.trigger} ends" + ("" if facts.on == ANY else f" with {facts.on}")
    return AutomationPlan(
        rule_id=facts.rule_id,
        name=f"{facts.target} when {what}",
        description=f"Event rule {facts.rule_id}: {facts.record_url}\n\n"
        "Made by jobauto, which changes it back; change the rule instead.",
        enabled=facts.enabled,
        event=event,
        labels=labels,
        tags=template_tags(facts.company_slug, ()),
    )


_PAST = {ANY: "changed", "create": "created", "update": "updated", "delete": "deleted"}
