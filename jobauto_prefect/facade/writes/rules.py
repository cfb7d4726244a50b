"""What a rule has to fulfil beyond its shape: values it can get, and a chain that ends."""

import json
from collections.abc import Iterator, Sequence

from jobauto_prefect.compiler.produced import names_of
from jobauto_prefect.compiler.selectors import END_FIELDS, FIELDS, fault_in
from jobauto_prefect.definitions import parse
from jobauto_prefect.errors import Fault, InvalidInput
from jobauto_prefect.ledger import chains
from jobauto_prefect.ledger.audit import WritingSession
from jobauto_prefect.ledger.records import EventRule, RunTemplate


def check_rule(session: WritingSession, rule: EventRule) -> None:
    """Check a rule that is flushed.

    Raises:
        InvalidInput: with every fault of its trigger and mapping, and the way of a circle.
    """
    faults = [*_trigger_faults(rule), *_mapping_faults(session, rule)]
    if not faults and rule.runtemplate_source_id is not None:
        faults += _circle_faults(session, rule.runtemplate_source_id)
    if faults:
        raise InvalidInput(faults)


def _trigger_faults(rule: EventRule) -> Iterator[Fault]:
    if (rule.event_source_id is None) == (rule.runtemplate_source_id is None):
        message = "give one of event_source_id and runtemplate_source_id: what the rule reacts to"
        yield Fault("/event_source_id", "required", message)


def _mapping_faults(session: WritingSession, rule: EventRule) -> Iterator[Fault]:
    target = session.get_one(RunTemplate, rule.runtemplate_id)
    keys = parse(target.app.document).environment
    fields, closed = _fields(session, rule)
    for key, selector in json.loads(rule.env_mapping).items():
        if key not in keys:
            known = ", ".join(keys) or "none"
            message = (
                f"the application of run template {target.id} has no key {key}; it has {known}"
            )
            yield Fault(f"/env_mapping/{key}", "reference", message)
        elif fault := fault_in(selector, fields, closed=closed):
            yield Fault(f"/env_mapping/{key}", "selector", fault)


def _fields(session: WritingSession, rule: EventRule) -> tuple[Sequence[str], bool]:
    """What events of a rule have, and whether that is all: a change's context has anything."""
    if rule.runtemplate_source_id is None:
        return FIELDS, False
    source = session.get_one(RunTemplate, rule.runtemplate_source_id)
    return [*END_FIELDS, *names_of(source.app.document.get("produces") or {})], True


def _circle_faults(session: WritingSession, start: int) -> Iterator[Fault]:
    chains.lock(session)
    circle = chains.circle(start, chains.edges(session))
    if circle is not None:
        way = " → ".join(_name(session, template_id) for template_id in circle)
        message = f"this would go round for ever: {way}"
        yield Fault("/runtemplate_id", "cycle", message)


def _name(session: WritingSession, template_id: int) -> str:
    template = session.get_one(RunTemplate, template_id)
    return f"{template.company.slug}/{template.name}"
