"""Jobs for deliveries: one for each, and never a second one."""

from jobauto_prefect.definitions import EVENT_VARIABLES, to_text
from jobauto_prefect.errors import Conflict
from jobauto_prefect.ledger.access.vouchers import rule_fault
from jobauto_prefect.ledger.audit.trail import WritingSession
from jobauto_prefect.ledger.events.deliveries import (
    SCHEDULE_TYPES,
    EventKind,
    create_deliveries,
    lock_deliveries,
    mark_dead,
)
from jobauto_prefect.ledger.jobs.attempts import new_job
from jobauto_prefect.ledger.outbox import OutboxKind, enqueue
from jobauto_prefect.ledger.records import Delivery, Event, EventRule, Job, RunTemplate
from jobauto_prefect.ledger.states import DeliveryState


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
    """Start a delivery without Prefect's automation, unless it has been started meanwhile."""
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
    """Start a rule for an event again: a dead delivery, or a rule younger than the event.

    Raises:
        Conflict: the rule was started by this event; it never is twice.
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
