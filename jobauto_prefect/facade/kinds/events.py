"""Events with their deliveries and actions, as shown."""

from collections.abc import Sequence
from datetime import datetime
from typing import Any, Literal

from pydantic import Field

from jobauto_prefect.definitions.records.actions import Action
from jobauto_prefect.facade.answers import Answer, JsonObject, Record, serialize_fields
from jobauto_prefect.facade.http.field_types import parse_text
from jobauto_prefect.facade.kinds.resource import Filter, Resource, choice, period, reference
from jobauto_prefect.kinds import KINDS
from jobauto_prefect.ledger import records
from jobauto_prefect.ledger.events import deliveries, pending_actions
from jobauto_prefect.ledger.events.deliveries import EventKind
from jobauto_prefect.ledger.records import PendingAction
from jobauto_prefect.ledger.states import ActionState, DeliveryState
from jobauto_prefect.ledger.store import ReadingSession
from jobauto_prefect.settings import Settings


class Event(Record):
    """An event: a change of an event source, or the end of a run template's job."""

    kind: EventKind = Field(
        description="`change` of an event source, or `completion` of a run template's job."
    )
    state: Literal["done", "owed", "dead"] = Field(description="Its state.")
    event_source_id: int | None = Field(
        description="The event source that changed; null for the end of a job."
    )
    runtemplate_id: int | None = Field(
        description="The run template whose job ended; null for a change."
    )
    job_id: int | None = Field(description="The job that ended; null for a change.")
    company_id: int | None = Field(description="The company.")
    inversion: int | None = Field(description="The number of the change in its source.")
    evidence: str | None = Field(
        description="The kind of record that changed; `job` for the end of a job."
    )
    operation: str = Field(
        description="What was done to the record; for the end of a job, how it ended."
    )
    record_id: str | None = Field(description="The record it is about.")
    depth: int = Field(
        description="How many ends of jobs, one after the other, led to the event; 0 for a change."
    )
    emission_error: str | None = Field(
        description="Why Prefect never receives it; null: it has received it, or will."
    )
    error: str | None = Field(
        description="Why the change can't be stored as it is, and so starts nothing; null: it can "
        "be stored."
    )
    emitted_at: datetime | None = Field(description="When Prefect received it; null: not yet.")


class Delivery(Answer):
    """The delivery of an event to one rule."""

    eventrule_id: int = Field(description="The event rule.")
    element: int = Field(
        description="Number of the list element that it is for, from 0; 0 if the rule does not "
        "fan out."
    )
    state: DeliveryState = Field(description="Its state.")
    job_id: int | None = Field(description="The job it started; null: none yet.")
    flow_run_id: str | None = Field(description="The flow run in Prefect.")
    due_at: datetime | None = Field(
        description="When the service itself starts the job; null: not determined yet, or the job "
        "exists."
    )
    error: str | None = Field(description="Why the delivery is a dead letter; null: it is none.")


class OwedAction(Answer):
    """An action that an event triggers, besides its rules."""

    id: int = Field(description="The record's id.")
    kind: Action = Field(description="The action.")
    target: str | None = Field(description="The address of a webhook, without its query.")
    state: ActionState = Field(description="Its state.")
    attempts: int = Field(description="How many attempts have failed.")
    job_id: int | None = Field(description="The job it started.")
    error: str | None = Field(description="Why it is dead, or why the last attempt failed.")
    due_at: datetime = Field(description="When it is attempted next.")
    done_at: datetime | None = Field(description="When it was done; null: not yet.")


class EventWithDeliveries(Event):
    """An event with its data, deliveries and actions."""

    data: dict[str, Any] = Field(description="Everything known about it.")
    deliveries: list[Delivery] = Field(description="Its deliveries to rules.")
    actions: list[OwedAction] = Field(description="Actions it triggers, besides its rules.")


def serialize_event(event: records.Event, _settings: Settings) -> JsonObject:
    """Return an event as answers show it."""
    return serialize_fields(Event, event)


def serialize_event_details(
    event: records.Event, deliveries: Sequence[records.Delivery], actions: Sequence[PendingAction]
) -> JsonObject:
    """Return an event's data, deliveries and actions."""
    shown = [
        serialize_fields(Delivery, delivery, eventrule_id=delivery.rule_id)
        for delivery in deliveries
    ]
    # The query of a webhook's address may be a secret and is not shown.
    owed = [
        serialize_fields(OwedAction, action, target=action.target.partition("?")[0] or None)
        for action in actions
    ]
    return {"data": event.data, "deliveries": shown, "actions": owed}


def _details(session: ReadingSession, event: records.Event, _settings: Settings) -> JsonObject:
    owed = deliveries.deliveries_of_event(session, event.id)
    return serialize_event_details(event, owed, pending_actions.actions_of_event(session, event.id))


RESOURCE = Resource(
    KINDS["event"], records.Event, Event, serialize_event,
    filters={
        "state": choice("state", ("done", "owed", "dead")),
        "kind": choice("kind", tuple(EventKind)),
        "event_source_id": reference("eventsource", "event_source_id"),
        "runtemplate_id": reference("runtemplate"),
        "company_id": reference("company"),
        "evidence": Filter("evidence", parse_text),
        **period("created_at"),
    },
    detail=EventWithDeliveries, details=_details,
)  # fmt: skip
