"""Replaying events: dead letters, and what a rule was too young for."""

from fastapi import APIRouter, Request, Response

from jobauto_prefect.errors import Conflict
from jobauto_prefect.facade import records
from jobauto_prefect.facade.access import allow
from jobauto_prefect.facade.answers import plain
from jobauto_prefect.facade.auth import Person
from jobauto_prefect.facade.requests import Body, BodyFields, parse
from jobauto_prefect.facade.service import CurrentService
from jobauto_prefect.facade.spellings import Integer
from jobauto_prefect.facade.writes.base import Id
from jobauto_prefect.ledger import actions, deliveries, queries, starting
from jobauto_prefect.ledger.audit import WritingSession
from jobauto_prefect.ledger.deliveries import DeliveryState
from jobauto_prefect.ledger.records import Event, EventRule


class ReplayBody(Body):
    """Which rule to start; without one, all whose delivery is a dead letter, and all actions
    that are.
    """

    eventrule_id: Id | None = None


def add_routes(router: APIRouter) -> None:
    """Add them to the contract."""
    router.post("/event/{event_id}/replay.{suffix}", name="replay event")(replay)
    router.post("/event/{event_id}/replay", include_in_schema=False)(replay)


def replay(
    event_id: Integer, fields: BodyFields, request: Request, who: Person, service: CurrentService
) -> Response:
    """Start rules, and do actions, once more; the answer is the event and what it owes now."""
    body = parse(ReplayBody, fields)
    with service.ledger.writing(who.actor) as session:
        event = queries.get(session, Event, event_id)
        allow(who, "jobs", "read", event.company_id, event)
        dead = [] if body.eventrule_id else actions.dead_of_event(session, event.id)
        for rule in _rules(session, event, body.eventrule_id, or_none=bool(dead)):
            allow(who, "jobs", "execute", rule.runtemplate.company_id, rule)
            starting.replay(session, event, rule)
        for action in dead:
            allow(who, "jobs", "execute", event.company_id, event)
            actions.replay(session, action)
        session.flush()
        owed = deliveries.of_event(session, event.id)
        shown = records.event_record(event, service.settings)
        shown |= records.event_details(event, owed, actions.of_event(session, event.id))
    service.carrier.wake()
    return plain(request, who, f"Replay of event {event_id}", shown)


def _rules(
    session: WritingSession, event: Event, rule_id: int | None, *, or_none: bool
) -> list[EventRule]:
    """The rules to start.

    Raises:
        NotFound: there is no such rule.
        Conflict: none is named, and none died, where that may not be.
    """
    if rule_id is not None:
        return [deliveries.rule_of(session, rule_id)]
    owed = deliveries.of_event(session, event.id)
    dead = dict.fromkeys(one.rule_id for one in owed if one.state == DeliveryState.DEAD)
    if not dead and not or_none:
        raise Conflict(f"event {event.id} has no dead letter; name the rule to start for it")
    return [deliveries.rule_of(session, one) for one in dead]
