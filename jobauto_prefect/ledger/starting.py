"""Starting what events owe to rules: a job for each delivery, and never a second one."""

from jobauto_prefect.definitions import EVENT_VARIABLES, to_text
from jobauto_prefect.errors import Conflict
from jobauto_prefect.ledger.attempts import new_job
from jobauto_prefect.ledger.audit import WritingSession
from jobauto_prefect.ledger.deliveries import (
    SCHEDULE_TYPES,
    DeliveryState,
    EventKind,
    all_of,
    kill,
    owe,
)
from jobauto_prefect.ledger.records import Delivery, Event, EventRule, Job, RunTemplate
from jobauto_prefect.ledger.wishes import WishKind, wish


def job_for(session: WritingSession, delivery: Delivery, template: RunTemplate) -> Job:
    """The job that an owed delivery starts; it waits."""
    kind = EventKind(delivery.event.kind)
    job = new_job(template, schedule=session.clock(), schedule_type=SCHEDULE_TYPES[kind])
    job.event_id, job.eventrule_id = delivery.event_id, delivery.rule_id
    job.traceparent = delivery.event.traceparent or job.traceparent
    session.add(job)
    session.flush()
    delivery.state, delivery.job_id, delivery.error = DeliveryState.STARTED, job.id, None
    return job


def start(session: WritingSession, event_id: int, rule_id: int) -> None:
    """Start what is owed without Prefect's automation, unless somebody came first."""
    for delivery in all_of(session, event_id, rule_id):
        if delivery.state == DeliveryState.OWED:
            _start(session, delivery)


def _start(session: WritingSession, delivery: Delivery) -> None:
    if delivery.rule.retired_at is not None:
        kill(delivery, f"rule {delivery.rule_id} was deleted")
        return
    job = job_for(session, delivery, delivery.rule.runtemplate)
    wish(session, WishKind.CREATE_RUN, job.id)


def spread(session: WritingSession, first: Delivery, count: int) -> None:
    """Start what the other elements of a list owe, as far as it is not known yet.

    The caller holds the first element's delivery.
    """
    known = {one.element for one in all_of(session, first.event_id, first.rule_id)}
    others = [
        Delivery(
            event=first.event,
            rule=first.rule,
            element=element,
            state=DeliveryState.OWED,
            created_at=session.clock(),
        )
        for element in range(count)
        if element not in known
    ]
    session.add_all(others)
    session.flush()
    for delivery in others:
        _start(session, delivery)


def replay(session: WritingSession, event: Event, rule: EventRule) -> None:
    """Start a rule for an event once more: a dead letter, or a rule that is younger than it.

    Raises:
        Conflict: the rule was started by this event; it never is twice.
    """
    known = all_of(session, event.id, rule.id)
    waiting = [one for one in known if one.state != DeliveryState.STARTED]
    if known and not waiting:
        raise Conflict(f"event {event.id} has started rule {rule.id} (job {known[0].job_id})")
    if not known:
        owe(session, event, [rule])
        session.flush()
    for one in waiting:
        one.state = DeliveryState.OWED
    start(session, event.id, rule.id)


def event_variables(event: Event) -> dict[str, str]:
    """What every job that an event started is told of it."""
    uri = event.data.get("document_uri") if event.kind == EventKind.CHANGE else None
    facts = (
        to_text(event.inversion),
        event.evidence or "",
        event.operation,
        event.record_id or "",
        to_text(uri),
    )
    return dict(zip(EVENT_VARIABLES, facts, strict=True))
