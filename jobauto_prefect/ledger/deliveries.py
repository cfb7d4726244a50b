"""What events owe to rules, and how it is paid: each once, or with a reason why not."""

from collections.abc import Sequence
from datetime import datetime
from enum import StrEnum

from sqlalchemy import select
from sqlalchemy.orm import Session, joinedload

from jobauto_prefect.errors import NotFound
from jobauto_prefect.ledger.audit import WritingSession
from jobauto_prefect.ledger.records import Delivery, Event, EventRule, Job

BATCH = 200


class DeliveryState(StrEnum):
    """Where one delivery stands."""

    OWED = "owed"  #: the rule's job is not started
    STARTED = "started"  #: there is a job
    DEAD = "dead"  #: there will be none unless somebody replays it; `error` says why


class EventKind(StrEnum):
    """What kind of thing happened."""

    CHANGE = "change"  #: a change of an event source
    COMPLETION = "completion"  #: the end of a run template's job


SCHEDULE_TYPES = {EventKind.CHANGE: "event", EventKind.COMPLETION: "chained"}
"""How the jobs say what started them."""


def owe(session: WritingSession, event: Event, rules: Sequence[EventRule]) -> None:
    """An event owes these rules their jobs."""
    now = session.clock()
    session.add_all(
        Delivery(event_id=event.id, rule_id=rule.id, state=DeliveryState.OWED, created_at=now)
        for rule in rules
    )


def of(session: WritingSession, event_id: int, rule_id: int) -> Delivery | None:
    """The delivery of an event to a rule, of several elements the first's, locked.

    None: the event owes that rule nothing.
    """
    return next(iter(all_of(session, event_id, rule_id)), None)


def all_of(session: WritingSession, event_id: int, rule_id: int) -> Sequence[Delivery]:
    """The deliveries of an event to a rule, locked, in the order of their elements."""
    found = (
        select(Delivery)
        .where(Delivery.event_id == event_id, Delivery.rule_id == rule_id)
        .order_by(Delivery.element)
        .with_for_update()
    )
    return session.scalars(found).all()


def of_job(session: Session, job_id: int) -> Delivery | None:
    """The delivery a job is for."""
    found = select(Delivery).where(Delivery.job_id == job_id)
    return session.scalar(found.options(joinedload(Delivery.event), joinedload(Delivery.rule)))


def of_event(session: Session, event_id: int) -> Sequence[Delivery]:
    """What an event owes, in the order of the rules' ids and of the elements."""
    found = select(Delivery).where(Delivery.event_id == event_id)
    return session.scalars(found.order_by(Delivery.rule_id, Delivery.element)).all()


def due(session: Session, now: datetime) -> Sequence[Delivery]:
    """Deliveries to be started by us, the rules of high priority first, then the oldest events."""
    found = (
        select(Delivery)
        .join(EventRule)
        .where(Delivery.state == DeliveryState.OWED, Delivery.due_at <= now)
        .order_by(EventRule.priority.desc(), Delivery.event_id, Delivery.rule_id)
        .limit(BATCH)
        .options(joinedload(Delivery.event), joinedload(Delivery.rule))
    )
    return session.scalars(found).all()


def kill(delivery: Delivery, error: str) -> None:
    """A dead letter: nothing starts it but a replay."""
    delivery.state, delivery.error = DeliveryState.DEAD, error


def refused(session: WritingSession, job: Job, message: str) -> None:
    """A job that was started by an event may not run: the event is a dead letter of its rule."""
    if job.event_id is None:
        return
    delivery = session.scalar(select(Delivery).where(Delivery.job_id == job.id))
    if delivery is not None:
        kill(delivery, message)


def rule_of(session: Session, rule_id: int) -> EventRule:
    """The rule of that id.

    Raises:
        NotFound: there is none.
    """
    rule = session.get(EventRule, rule_id)
    if rule is None or rule.retired_at is not None:
        raise NotFound(f"there is no event_rule {rule_id}")
    return rule
