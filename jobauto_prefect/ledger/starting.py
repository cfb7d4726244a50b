"""Starting what events owe to rules: a job for each delivery, and never a second one."""

from jobauto_prefect.errors import Conflict
from jobauto_prefect.ledger import jobs
from jobauto_prefect.ledger.audit import WritingSession
from jobauto_prefect.ledger.deliveries import (
    SCHEDULE_TYPES,
    DeliveryState,
    EventKind,
    kill,
    of,
    owe,
)
from jobauto_prefect.ledger.records import Delivery, Event, EventRule, Job, RunTemplate
from jobauto_prefect.ledger.wishes import WishKind, wish


def job_for(session: WritingSession, delivery: Delivery, template: RunTemplate) -> Job:
    """The job that an owed delivery starts; it waits."""
    kind = EventKind(delivery.event.kind)
    job = jobs.new_job(template, schedule=session.clock(), schedule_type=SCHEDULE_TYPES[kind])
    job.event_id = delivery.event_id
    session.add(job)
    session.flush()
    delivery.state, delivery.job_id, delivery.error = DeliveryState.STARTED, job.id, None
    return job


def start(session: WritingSession, event_id: int, rule_id: int) -> None:
    """Start what is owed without Prefect's automation, unless somebody came first."""
    delivery = of(session, event_id, rule_id)
    if delivery is None or delivery.state != DeliveryState.OWED:
        return
    if delivery.rule.retired_at is not None:
        kill(delivery, f"rule {rule_id} was deleted")
        return
    job = job_for(session, delivery, delivery.rule.runtemplate)
    wish(session, WishKind.CREATE_RUN, job.id)


def replay(session: WritingSession, event: Event, rule: EventRule) -> None:
    """Start a rule for an event once more: a dead letter, or a rule that is younger than it.

    Raises:
        Conflict: the rule was started by this event; it never is twice.
    """
    delivery = of(session, event.id, rule.id)
    if delivery is None:
        owe(session, event, [rule])
        session.flush()
    elif delivery.state == DeliveryState.STARTED:
        raise Conflict(f"event {event.id} has started rule {rule.id} (job {delivery.job_id})")
    else:
        delivery.state = DeliveryState.OWED
    start(session, event.id, rule.id)
