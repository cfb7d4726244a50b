"""From an event to the job it starts: whether it may, and with what values."""

import json
from collections.abc import Mapping
from typing import Any

from jobauto_prefect.compiler.produced import Remains, produced
from jobauto_prefect.compiler.selectors import Unresolved, resolve
from jobauto_prefect.definitions import Definition, to_text
from jobauto_prefect.facade.claiming import ClaimContext, Refused
from jobauto_prefect.facade.values import secret_keys
from jobauto_prefect.ledger import deliveries, queries, starting
from jobauto_prefect.ledger.audit import WritingSession, write_entry
from jobauto_prefect.ledger.base import BIGGEST_ID
from jobauto_prefect.ledger.deliveries import DeliveryState, EventKind
from jobauto_prefect.ledger.records import Delivery, Event, Job, RunTemplate
from jobauto_prefect.runtime.artifacts import RESULT_NAME
from jobauto_prefect.runtime.protocol import PrefectState

LARGEST_VALUE = 100_000
"""Bytes; no process can be given a variable of 128 KiB."""

SHOWN = 200  # characters of a forged reference


def is_for_event(context: ClaimContext) -> bool:
    """Whether a flow run says that an event started it."""
    named = context.claim.parameters.get("jobauto")
    return isinstance(named, dict) and "event" in named


def event_job(context: ClaimContext, template: RunTemplate) -> Job:
    """The job of the (event, rule) that a flow run names; it waits.

    Raises:
        Refused: the ledger knows of no such event for such a rule of this run template, which is
            written down; or the event has started the rule already.
    """
    named = context.claim.parameters["jobauto"]
    delivery = _delivery(context.session, named)
    if delivery is None or delivery.rule.runtemplate_id != template.id:
        said = json.dumps(named, sort_keys=True)[:SHOWN]
        message = f"the ledger holds no event that starts this run template ({said})"
        write_entry(context.session, "Job", "refuse", {"reason": [None, message]})
        raise Refused("unknown_event", message, PrefectState.FAILED)
    if delivery.state != DeliveryState.OWED:
        raise Refused("duplicate_event", _paid(delivery), PrefectState.CANCELLED)
    return starting.job_for(context.session, delivery, template)


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
    return deliveries.of(session, event, rule)


def take_event(context: ClaimContext, job: Job, definition: Definition) -> None:
    """The values an event gives to the job it started, unless the job has them already.

    Raises:
        Refused: the event lacks what the rule's mapping names.
    """
    delivery = deliveries.of_job(context.session, job.id) if job.event_id is not None else None
    if delivery is None:
        return  # a later attempt has the values of the first
    mapping = json.loads(delivery.rule.env_mapping)
    try:
        found = resolve(mapping, _data(context.session, delivery.event) if mapping else {})
    except Unresolved as error:
        raise Refused("unresolved_mapping", str(error), PrefectState.FAILED) from None
    texts = {key: to_text(value) for key, value in found.items()}
    _refuse_large(texts)
    secret = secret_keys(definition) & texts.keys()
    plain = {key: text for key, text in texts.items() if key not in secret}
    sealed = context.service.ledger.box.seal({key: texts[key] for key in secret})
    job.overrides = event_variables(delivery.event) | plain | job.overrides
    job.override_secrets = sealed | job.override_secrets


def _refuse_large(texts: Mapping[str, str]) -> None:
    large = [key for key, text in texts.items() if len(text.encode()) > LARGEST_VALUE]
    if large:
        message = f"too large to be a variable (at most {LARGEST_VALUE} bytes): {', '.join(large)}"
        raise Refused("unresolved_mapping", message, PrefectState.FAILED)


def _data(session: WritingSession, event: Event) -> Mapping[str, Any]:
    """What selectors find: the change, or the end with what the job has produced."""
    if event.job_id is None:
        return event.data
    job = session.get_one(Job, event.job_id)
    entries = job.runtemplate.app.document.get("produces") or {}
    return produced(entries, _remains(session, job)) | event.data if entries else event.data


def _remains(session: WritingSession, job: Job) -> Remains:
    artifacts = {one.path: one for one in queries.artifacts_of(session, job.id)}
    named = job.env.get("RESULT_FILE", "").removeprefix("./")
    results = [one.path for one in artifacts.values() if one.name == RESULT_NAME]
    lines = queries.last_output_of(session, job.id)
    return Remains(
        paths=list(artifacts),
        read=lambda path: artifacts[path].content,
        result_path=next(iter(results), named if named in artifacts else None),
        stdout="\n".join(line.text for line in lines if line.stream == "stdout"),
    )


def event_variables(event: Event) -> dict[str, str]:
    """What every job that an event started is told of it."""
    uri = event.data.get("document_uri") if event.kind == EventKind.CHANGE else None
    return {
        "EVENT_INVERSION": to_text(event.inversion),
        "EVENT_EVIDENCE": event.evidence or "",
        "EVENT_OPERATION": event.operation,
        "EVENT_RECORD_ID": event.record_id or "",
        "EVENT_DOCUMENT_URI": to_text(uri),
    }
