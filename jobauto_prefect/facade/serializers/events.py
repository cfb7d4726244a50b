"""Serializers of event sources, event rules and events."""

import json
from collections.abc import Sequence

from jobauto_prefect.definitions.mask import MASK
from jobauto_prefect.facade.models import event_rules, events
from jobauto_prefect.facade.serializers.common import (
    JsonObject,
    prefect_link,
    serialize_fields,
)
from jobauto_prefect.ledger.records import Delivery, Event, EventRule, EventSource, PendingAction
from jobauto_prefect.settings import Settings


def serialize_source(source: EventSource, _settings: Settings) -> JsonObject:
    """Return an event source as answers show it; its password is masked."""
    password = MASK if source.db_password else None
    return serialize_fields(event_rules.EventSource, source, db_password=password)


def serialize_rule(rule: EventRule, settings: Settings) -> JsonObject:
    """Return an event rule as answers show it."""
    mapping = json.loads(rule.env_mapping)
    link = prefect_link(settings, "automations/automation", rule.automation_id)
    return serialize_fields(event_rules.EventRule, rule, env_mapping=mapping, prefect_url=link)


def serialize_event(event: Event, _settings: Settings) -> JsonObject:
    """Return an event as answers show it."""
    return serialize_fields(events.Event, event)


def serialize_event_details(
    event: Event, deliveries: Sequence[Delivery], actions: Sequence[PendingAction]
) -> JsonObject:
    """Return what is known of an event, and what it owes."""
    shown = [
        serialize_fields(events.Delivery, delivery, eventrule_id=delivery.rule_id)
        for delivery in deliveries
    ]
    return {"data": event.data, "deliveries": shown, "actions": list(map(_owed_action, actions))}


def _owed_action(action: PendingAction) -> JsonObject:
    """Return one action; the query of a webhook's address may be a secret and is not shown."""
    target = action.target.partition("?")[0] or None
    return serialize_fields(events.OwedAction, action, target=target)
