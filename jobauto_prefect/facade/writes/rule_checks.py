"""Checks of event rules beyond their schema: selectors that resolve, and no cycles."""

import json
from collections.abc import Collection, Iterator

from jobauto_prefect.compiler.events.job_outputs import selector_scope
from jobauto_prefect.compiler.events.selectors import FIELDS, SelectorScope, selector_fault
from jobauto_prefect.definitions.environment_names import EnvironmentNames
from jobauto_prefect.definitions.findings import child
from jobauto_prefect.errors import Fault, InvalidInput
from jobauto_prefect.ledger.audit.trail import WritingSession
from jobauto_prefect.ledger.events import trigger_graph
from jobauto_prefect.ledger.records import EventRule, RunTemplate


def check_rule(session: WritingSession, rule: EventRule, extra: Collection[str]) -> None:
    """Check a flushed rule; `extra` are names that may be mapped besides the declared ones.

    Raises:
        InvalidInput: with every error of its trigger and mapping, and any cycle.
    """
    faults = []
    if (rule.event_source_id is None) == (rule.runtemplate_source_id is None):
        message = "set either event_source_id or runtemplate_source_id: what the rule reacts to"
        faults.append(Fault("/event_source_id", "required", message))
    faults += _mapping_faults(session, rule, extra)
    if not faults and rule.runtemplate_source_id is not None:
        faults += cycle_faults(session, rule.runtemplate_source_id, "/runtemplate_id")
    if faults:
        raise InvalidInput(faults)


def _mapping_faults(
    session: WritingSession, rule: EventRule, extra: Collection[str]
) -> Iterator[Fault]:
    target = session.get_one(RunTemplate, rule.runtemplate_id)
    names = EnvironmentNames.of(target.app.definition, extra)
    scope, mapping = SelectorScope(FIELDS), json.loads(rule.env_mapping)
    if rule.runtemplate_source_id is not None:
        scope = selector_scope(
            session.get_one(RunTemplate, rule.runtemplate_source_id).app.document
        )
    yield from names.faults(mapping, "/env_mapping")
    for key, selector in mapping.items():
        if names.permits(key) and (fault := selector_fault(selector, scope)):
            yield Fault(child("/env_mapping", key), "selector", fault)


def cycle_faults(session: WritingSession, start: int, pointer: str) -> Iterator[Fault]:
    """Yield an error if the write closes a cycle of rules and actions."""
    trigger_graph.lock(session)
    circle = trigger_graph.find_cycle(start, trigger_graph.edges(session))
    if circle is not None:
        templates = [session.get_one(RunTemplate, template_id) for template_id in circle]
        way = " → ".join(f"{each.company.slug}/{each.name}" for each in templates)
        message = f"this would start jobs in an endless cycle: {way}"
        yield Fault(pointer, "cycle", message)
