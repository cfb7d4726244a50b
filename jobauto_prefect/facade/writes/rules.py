"""What a rule has to fulfil beyond its shape: values it can get, and a chain that ends."""

import json
from collections.abc import Iterator

from jobauto_prefect.compiler.produced import offer_of
from jobauto_prefect.compiler.selectors import FIELDS, Offer, fault_in
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
        faults += circle_faults(session, rule.runtemplate_source_id, "/runtemplate_id")
    if faults:
        raise InvalidInput(faults)


def _trigger_faults(rule: EventRule) -> Iterator[Fault]:
    if (rule.event_source_id is None) == (rule.runtemplate_source_id is None):
        message = "give one of event_source_id and runtemplate_source_id: what the rule reacts to"
        yield Fault("/event_source_id", "required", message)


def _mapping_faults(session: WritingSession, rule: EventRule) -> Iterator[Fault]:
    target = session.get_one(RunTemplate, rule.runtemplate_id)
    keys = parse(target.app.document).environment
    offer = _offer(session, rule)
    for key, selector in json.loads(rule.env_mapping).items():
        if key not in keys:
            known = ", ".join(keys) or "none"
            message = (
                f"the application of run template {target.id} has no key {key}; it has {known}"
            )
            yield Fault(f"/env_mapping/{key}", "reference", message)
        elif fault := fault_in(selector, offer):
            yield Fault(f"/env_mapping/{key}", "selector", fault)


def _offer(session: WritingSession, rule: EventRule) -> Offer:
    if rule.runtemplate_source_id is None:
        return Offer(FIELDS)
    return offer_of(session.get_one(RunTemplate, rule.runtemplate_source_id).app.document)


def circle_faults(session: WritingSession, start: int, pointer: str) -> Iterator[Fault]:
    """The way round, where what was written closes a circle of rules and actions."""
    chains.lock(session)
    circle = chains.circle(start, chains.edges(session))
    if circle is not None:
        way = " → ".join(_name(session, template_id) for template_id in circle)
        message = f"this would go round for ever: {way}"
        yield Fault(pointer, "cycle", message)


def _name(session: WritingSession, template_id: int) -> str:
    template = session.get_one(RunTemplate, template_id)
    return f"{template.company.slug}/{template.name}"
