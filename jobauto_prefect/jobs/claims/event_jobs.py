"""Jobs that events start: whether they may, and with what values."""

import json
from collections.abc import Mapping
from typing import Any

from jobauto_prefect.bounded_process import TooExpensive
from jobauto_prefect.compiler.events.event_inputs import check_formats
from jobauto_prefect.compiler.events.fan_out import element_of, fan_out_key
from jobauto_prefect.compiler.events.selectors import FoundFile, UnresolvedSelector
from jobauto_prefect.definitions import Definition, to_text
from jobauto_prefect.definitions.records.value_rules import LARGEST_VALUE
from jobauto_prefect.definitions.storable import is_storable
from jobauto_prefect.jobs.claims.context import ClaimContext, Refused
from jobauto_prefect.jobs.outcome.event_values import (
    EventValues,
    NotLight,
    ValueQuery,
    ask_for_values,
    values_of,
)
from jobauto_prefect.ledger.access.vouchers import rule_fault
from jobauto_prefect.ledger.audit.trail import WritingSession, write_entry
from jobauto_prefect.ledger.base import BIGGEST_ID
from jobauto_prefect.ledger.events import deliveries, delivery_jobs
from jobauto_prefect.ledger.records import Delivery, Job, RunTemplate
from jobauto_prefect.ledger.states import DeliveryState
from jobauto_prefect.runtime.protocol import PrefectState

SHOWN = 200  # characters of a forged reference


def event_job(context: ClaimContext, template: RunTemplate) -> Job:
    """Return the job of the (event, rule) that a flow run names; it waits.

    Raises:
        Refused: the ledger knows of no such event for such a rule of this run template, which is
            written down; or the event has started the rule already.
    """
    named = context.claim.parameters["jobauto"]
    delivery = _delivery(context.session, named)
    if delivery is None or delivery.rule.runtemplate_id != template.id:
        shown = json.dumps(named, sort_keys=True)[:SHOWN]
        message = f"the ledger holds no event that starts this run template ({shown})"
        write_entry(context.session, "Job", "refuse", {"reason": [None, message]})
        raise Refused("unknown_event", message, PrefectState.FAILED)
    if delivery.state != DeliveryState.OWED:
        raise Refused("duplicate_event", _paid(delivery), PrefectState.CANCELLED)
    return delivery_jobs.create_job(context.session, delivery, template)


def _paid(delivery: Delivery) -> str:
    if delivery.state == DeliveryState.STARTED:
        job, rule = delivery.job_id, delivery.rule_id
        return f"event {delivery.event_id} has started rule {rule} (job {job})"
    return (
        f"event {delivery.event_id} is a dead letter ({delivery.error}); "
        f"replay it: jobauto event replay {delivery.event_id}"
    )


def _delivery(session: WritingSession, named: Mapping[str, Any]) -> Delivery | None:
    event, rule = named.get("event"), named.get("rule")
    if type(event) is not int or type(rule) is not int:
        return None
    if not (0 < event <= BIGGEST_ID and 0 < rule < 2**31):
        return None
    return deliveries.lock_delivery(session, event, rule)


def take_event(context: ClaimContext, job: Job, definition: Definition) -> None:
    """Take the values an event gives to the job it started, unless the job has them already.

    Of a rule that fans out, the first job that is claimed brings the others about.

    Raises:
        Refused: the event lacks what the rule's mapping names, or has nothing to start a job for.
    """
    delivery = (
        deliveries.delivery_of_job(context.session, job.id) if job.event_id is not None else None
    )
    if delivery is None:
        return  # a later attempt has the values of the first
    fault = rule_fault(context.session, delivery.event, delivery.rule, job.company_id)
    if fault is not None:
        raise Refused("no_voucher", fault, PrefectState.FAILED)
    query, artifacts = ask_for_values(context.session, delivery, definition)
    try:
        given = _values(context, query, definition)
        values = _own_element(context, delivery, given.values)
        check_formats(definition, values)
    except UnresolvedSelector as error:
        raise Refused("unresolved_mapping", str(error), PrefectState.FAILED) from None
    _take(context, job, definition, values, artifacts)
    job.warnings = [finding.as_dict() for finding in given.findings]
    job.overrides = delivery_jobs.event_variables(delivery.event) | job.overrides


def _values(context: ClaimContext, query: ValueQuery, definition: Definition) -> EventValues:
    """Return the values of an event, as they were found before this transaction if they had to be.

    Raises:
        UnresolvedSelector: the event lacks what is asked for, or that is too expensive to find.
        NotLight: they have to be found before.
    """
    found = context.preflight.event_values
    if found is None and query.is_light:
        return values_of(query, definition)
    if found is None:
        raise NotLight(values_of, query, definition)
    if isinstance(found, TooExpensive):
        reason = f"its values can't be looked for: {found}; let the rule's paths look at less"
        raise UnresolvedSelector(reason)
    if isinstance(found, Exception):
        raise found
    return found


def _own_element(
    context: ClaimContext, delivery: Delivery, values: Mapping[str, Any]
) -> Mapping[str, Any]:
    key = fan_out_key(values) if delivery.rule.fan_out else None
    if key is None:
        return values
    if not values[key]:
        raise Refused("nothing_to_do", f"{key} is an empty list", PrefectState.CANCELLED)
    if delivery.element == 0:
        delivery_jobs.fan_out(context.session, delivery, len(values[key]))
    return element_of(values, key, delivery.element)


def _take(
    context: ClaimContext,
    job: Job,
    definition: Definition,
    values: Mapping[str, Any],
    artifacts: Mapping[str, int],
) -> None:
    given = job.overrides.keys() | job.override_secrets.keys()
    free = {key: value for key, value in values.items() if key not in given}
    files = {key: value.path for key, value in free.items() if isinstance(value, FoundFile)}
    texts = {key: to_text(value) for key, value in free.items() if key not in files}
    _refuse_unfit(texts)
    _refuse_large(texts)
    secret = definition.secret_keys & texts.keys()
    plain = {key: text for key, text in texts.items() if key not in secret}
    sealed = context.box.seal({key: texts[key] for key in secret})
    job.overrides = plain | job.overrides
    job.override_secrets = sealed | job.override_secrets
    job.input_files = {key: artifacts[path] for key, path in files.items()}


def _refuse_unfit(texts: Mapping[str, str]) -> None:
    unfit = [key for key, text in texts.items() if not is_storable(text)]
    if unfit:
        message = (
            f"no variable can hold a NUL, or bytes that are not UTF-8: {', '.join(unfit)}; "
            "write it to a file and hand that on with @file:NAME"
        )
        raise Refused("unresolved_mapping", message, PrefectState.FAILED)


def _refuse_large(texts: Mapping[str, str]) -> None:
    large = [key for key, text in texts.items() if len(text.encode()) > LARGEST_VALUE]
    if large:
        message = (
            f"too large to be a variable (at most {LARGEST_VALUE} bytes): {', '.join(large)}; "
            "hand it on as a file with @file:NAME"
        )
        raise Refused("unresolved_mapping", message, PrefectState.FAILED)
