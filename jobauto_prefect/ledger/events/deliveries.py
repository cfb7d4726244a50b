"""Deliveries of events to rules: each starts its job once, or says why not."""

from collections.abc import Sequence
from datetime import datetime
from enum import StrEnum

from sqlalchemy import select
from sqlalchemy.orm import Session, joinedload

from jobauto_prefect.definitions import EVENT_VARIABLES, to_text
from jobauto_prefect.errors import Conflict, NotFound
from jobauto_prefect.ledger.access.vouchers import rule_fault
from jobauto_prefect.ledger.audit.trail import WritingSession
from jobauto_prefect.ledger.jobs.attempts import new_job
from jobauto_prefect.ledger.outbox import OutboxKind, enqueue
from jobauto_prefect.ledger.records import Delivery, Event, EventRule, Job, RunTemplate
from jobauto_prefect.ledger.states import DeliveryState

BATCH = 200


class EventKind(StrEnum):
    """Kind of event."""

    CHANGE = "change"  #: a change of an event source
    COMPLETION = "completion"  #: the end of a run template's job


SCHEDULE_TYPES = {EventKind.CHANGE: "event", EventKind.COMPLETION: "chained"}
"""Event kind -> `schedule_type` of the jobs it starts."""


def create_deliveries(session: WritingSession, event: Event, rules: Sequence[EventRule]) -> None:
    """Create a delivery of an event to each of these rules."""
    now = session.clock()
    session.add_all(
        Delivery(event_id=event.id, rule_id=rule.id, state=DeliveryState.OWED, created_at=now)
        for rule in rules
    )


def lock_delivery(session: WritingSession, event_id: int, rule_id: int) -> Delivery | None:
    """Lock the delivery of an event to a rule; with several elements, that of the first.

    None: the event is not delivered to that rule.
    """
    return next(iter(lock_deliveries(session, event_id, rule_id)), None)


def lock_deliveries(session: WritingSession, event_id: int, rule_id: int) -> Sequence[Delivery]:
    """Lock the deliveries of an event to a rule, in the order of their elements."""
    query = (
        select(Delivery)
        .where(Delivery.event_id == event_id, Delivery.rule_id == rule_id)
        .order_by(Delivery.element)
        .with_for_update()
    )
    return session.scalars(query).all()


def delivery_of_job(session: Session, job_id: int) -> Delivery | None:
    """Return the delivery that started a job; None if there is none."""
    query = select(Delivery).where(Delivery.job_id == job_id)
    return session.scalar(query.options(joinedload(Delivery.event), joinedload(Delivery.rule)))


def deliveries_of_event(session: Session, event_id: int) -> Sequence[Delivery]:
    """Return the deliveries of an event, by rule id and element."""
    query = select(Delivery).where(Delivery.event_id == event_id)
    return session.scalars(query.order_by(Delivery.rule_id, Delivery.element)).all()


def due_deliveries(session: Session, now: datetime) -> Sequence[Delivery]:
    """Return deliveries that are due for a start by this service, by rule priority, then age."""
    query = (
        select(Delivery)
        .join(EventRule)
        .where(Delivery.state == DeliveryState.OWED, Delivery.due_at <= now)
        .order_by(EventRule.priority.desc(), Delivery.event_id, Delivery.rule_id)
        .limit(BATCH)
        .options(joinedload(Delivery.event), joinedload(Delivery.rule))
    )
    return session.scalars(query).all()


def mark_dead(delivery: Delivery, error: str) -> None:
    """Mark a delivery dead: only a replay restarts it."""
    delivery.state, delivery.error = DeliveryState.DEAD, error


def mark_refused(session: WritingSession, job: Job, message: str) -> None:
    """Mark the delivery dead whose job may not run."""
    if job.event_id is None:
        return
    delivery = session.scalar(select(Delivery).where(Delivery.job_id == job.id))
    if delivery is not None:
        mark_dead(delivery, message)


def rule_of(session: Session, rule_id: int) -> EventRule:
    """Return a rule by its id.

    Raises:
        NotFound: it does not exist.
    """
    rule = session.get(EventRule, rule_id)
    if rule is None or rule.retired_at is not None:
        raise NotFound(f"there is no event rule {rule_id}")
    return rule


def create_job(session: WritingSession, delivery: Delivery, template: RunTemplate) -> Job:
    """Create the scheduled job of a delivery."""
    kind = EventKind(delivery.event.kind)
    job = new_job(template, schedule=session.clock(), schedule_type=SCHEDULE_TYPES[kind])
    job.event_id, job.eventrule_id = delivery.event_id, delivery.rule_id
    job.traceparent = delivery.event.traceparent or job.traceparent
    session.add(job)
    session.flush()
    delivery.state, delivery.job_id, delivery.error = DeliveryState.STARTED, job.id, None
    return job


def start_delivery(session: WritingSession, event_id: int, rule_id: int) -> None:
    """Start a delivery without Prefect's automation, unless it has been started already."""
    for delivery in lock_deliveries(session, event_id, rule_id):
        if delivery.state == DeliveryState.OWED:
            _start(session, delivery)


def _start(session: WritingSession, delivery: Delivery) -> None:
    if delivery.rule.retired_at is not None:
        mark_dead(delivery, f"rule {delivery.rule_id} was deleted")
        return
    template = delivery.rule.runtemplate
    fault = rule_fault(session, delivery.event, delivery.rule, template.company_id)
    if fault is not None:
        mark_dead(delivery, fault)
        return
    job = create_job(session, delivery, template)
    enqueue(session, OutboxKind.CREATE_RUN, job.id)


def fan_out(session: WritingSession, first: Delivery, count: int) -> None:
    """Create the deliveries of the other elements of a list, and start their jobs.

    The caller holds the first element's delivery.
    """
    present = {
        sibling.element for sibling in lock_deliveries(session, first.event_id, first.rule_id)
    }
    others = [
        Delivery(
            event=first.event,
            rule=first.rule,
            element=element,
            state=DeliveryState.OWED,
            created_at=session.clock(),
        )
        for element in range(count)
        if element not in present
    ]
    session.add_all(others)
    session.flush()
    for delivery in others:
        _start(session, delivery)


def replay(session: WritingSession, event: Event, rule: EventRule) -> None:
    """Start a rule for an event again: a dead delivery, or a rule newer than the event.

    Raises:
        Conflict: this event already started the rule, which happens once only.
    """
    deliveries = lock_deliveries(session, event.id, rule.id)
    waiting = [delivery for delivery in deliveries if delivery.state != DeliveryState.STARTED]
    if deliveries and not waiting:
        raise Conflict(f"event {event.id} has started rule {rule.id} (job {deliveries[0].job_id})")
    if not deliveries:
        create_deliveries(session, event, [rule])
        session.flush()
    for delivery in waiting:
        delivery.state = DeliveryState.OWED
    start_delivery(session, event.id, rule.id)


def event_variables(event: Event) -> dict[str, str]:
    """Return the environment variables that describe a job's event."""
    uri = event.data.get("document_uri") if event.kind == EventKind.CHANGE else None
    facts = (
        to_text(event.inversion),
        event.evidence or "",
        event.operation,
        event.record_id or "",
        to_text(uri),
    )
    return dict(zip(EVENT_VARIABLES, facts, strict=True))
