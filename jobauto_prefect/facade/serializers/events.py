"""Serializers of event sources, event rules and events."""

import json
from collections.abc import Sequence

from jobauto_prefect.definitions.mask import MASK
from jobauto_prefect.facade.serializers.common import JsonObject, isoformat, pick_fields, timestamps
from jobauto_prefect.ledger.records import Delivery, Event, EventRule, EventSource, PendingAction
from jobauto_prefect.settings import Settings

SOURCE_FIELDS = (
    "id",
    "name",
    "company_id",
    "adapter_type",
    "db_connection",
    "db_host",
    "db_port",
    "db_database",
    "db_username",
    "enabled",
    "poll_interval",
    "consume",
    "last_processed_id",
    "poll_error",
)


def serialize_source(source: EventSource, _settings: Settings) -> JsonObject:
    """Return an event source as answers show it; its password is masked."""
    shown = pick_fields(source, *SOURCE_FIELDS) | {"polled_at": isoformat(source.polled_at)}
    return shown | {"db_password": MASK if source.db_password else None} | timestamps(source)


RULE_FIELDS = (
    "id",
    "event_source_id",
    "runtemplate_source_id",
    "runtemplate_id",
    "evidence",
    "operation",
    "on",
    "fan_out",
    "enabled",
    "priority",
)


def serialize_rule(rule: EventRule, _settings: Settings) -> JsonObject:
    """Return an event rule as answers show it."""
    mapping = {"env_mapping": json.loads(rule.env_mapping)}
    return pick_fields(rule, *RULE_FIELDS) | mapping | timestamps(rule)


EVENT_FIELDS = (
    "id",
    "kind",
    "state",
    "event_source_id",
    "runtemplate_id",
    "job_id",
    "company_id",
    "inversion",
    "evidence",
    "operation",
    "record_id",
    "depth",
    "emission_error",
)


def serialize_event(event: Event, _settings: Settings) -> JsonObject:
    """Return an event as answers show it."""
    times = {name: isoformat(getattr(event, name)) for name in ("emitted_at", "created_at")}
    return pick_fields(event, *EVENT_FIELDS) | times


def serialize_event_details(
    event: Event, deliveries: Sequence[Delivery], actions: Sequence[PendingAction]
) -> JsonObject:
    """Return what is known of an event, and what it owes."""
    shown = [
        pick_fields(delivery, "element", "state", "job_id", "error")
        | {
            "eventrule_id": delivery.rule_id,
            "flow_run_id": str(delivery.flow_run_id) if delivery.flow_run_id else None,
            "due_at": isoformat(delivery.due_at),
        }
        for delivery in deliveries
    ]
    return {"data": event.data, "deliveries": shown, "actions": list(map(_owed_action, actions))}


def _owed_action(action: PendingAction) -> JsonObject:
    """Return one action; the query of a webhook's address may be a secret and is not shown."""
    shown = pick_fields(action, "id", "kind", "state", "attempts", "job_id", "error")
    times = {name: isoformat(getattr(action, name)) for name in ("due_at", "done_at")}
    return shown | {"target": action.target.partition("?")[0] or None} | times
