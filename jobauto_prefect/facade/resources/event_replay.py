"""Replaying events: dead letters, and events that are older than a rule."""

from typing import Any

from fastapi import APIRouter, Request, Response
from pydantic import Field

from jobauto_prefect.errors import Conflict
from jobauto_prefect.facade.auth.identity import CurrentUser
from jobauto_prefect.facade.http.operations import WRITE_ERRORS, answered, operation
from jobauto_prefect.facade.http.parameters import number_key
from jobauto_prefect.facade.http.requests import Body, BodyFields, parse
from jobauto_prefect.facade.http.responses import respond_plain
from jobauto_prefect.facade.kinds.events import (
    EventWithDeliveries,
    serialize_event,
    serialize_event_details,
)
from jobauto_prefect.facade.service import CurrentService
from jobauto_prefect.facade.writes.base import Id
from jobauto_prefect.ledger.audit.trail import WritingSession
from jobauto_prefect.ledger.events import deliveries, pending_actions
from jobauto_prefect.ledger.queries.lookup import get_record
from jobauto_prefect.ledger.records import Event, EventRule
from jobauto_prefect.ledger.states import DeliveryState


class ReplayBody(Body):
    """The rule to start; without one, all dead letters: deliveries to rules, and actions."""

    eventrule_id: Id | None = Field(default=None, description="The event rule.")


EventKey: Any = number_key("eventId", "event")
router = APIRouter()


@operation(
    router, "POST /event/{event_id}/replay.{suffix}", "replayEvent", "Replay an event",
    "Starts the rules whose delivery is a dead letter, or the given rule. An event never starts "
    "a rule twice. Needs `jobs.execute`.",
    tag="Events", answer=answered("The event with its deliveries.", EventWithDeliveries),
    errors=WRITE_ERRORS, body=ReplayBody, body_required=False,
)  # fmt: skip
def replay(
    event_id: EventKey,
    fields: BodyFields,
    request: Request,
    who: CurrentUser,
    service: CurrentService,
) -> Response:
    """Repeat deliveries and actions; return the event with both."""
    body = parse(ReplayBody, fields)
    with service.ledger.writing(who.actor) as session:
        event = get_record(session, Event, event_id)
        who.rights.require("jobs", "read", event.company_id, event)
        if event.error is not None:
            raise Conflict(
                f"event {event.id} starts nothing: {event.error}; correct"
                " the change and have its source write it again"
            )
        dead = [] if body.eventrule_id else pending_actions.dead_actions_of_event(session, event.id)
        for rule in _rules_to_start(session, event, body.eventrule_id, or_none=bool(dead)):
            who.rights.require("jobs", "execute", rule.runtemplate.company_id, rule)
            deliveries.replay(session, event, rule)
        for action in dead:
            who.rights.require("jobs", "execute", event.company_id, event)
            pending_actions.replay(session, action)
        session.flush()
        owed = deliveries.deliveries_of_event(session, event.id)
        shown = serialize_event(event, service.settings)
        shown |= serialize_event_details(
            event, owed, pending_actions.actions_of_event(session, event.id)
        )
    service.outbox_worker.wake()
    return respond_plain(request, who, f"Replay of event {event_id}", shown)


def _rules_to_start(
    session: WritingSession, event: Event, rule_id: int | None, *, or_none: bool
) -> list[EventRule]:
    """Return the rules to start.

    Raises:
        NotFound: there is no such rule.
        Conflict: no rule is given and there is no dead letter, unless `or_none`.
    """
    if rule_id is not None:
        return [deliveries.rule_of(session, rule_id)]
    owed = deliveries.deliveries_of_event(session, event.id)
    dead = dict.fromkeys(
        delivery.rule_id for delivery in owed if delivery.state == DeliveryState.DEAD
    )
    if not dead and not or_none:
        raise Conflict(f"event {event.id} has no dead letter; name the rule to start")
    return [deliveries.rule_of(session, dead_rule_id) for dead_rule_id in dead]
