"""When work is due for the services beside the facade, in one statement."""

from collections.abc import Mapping
from datetime import datetime
from enum import StrEnum
from typing import Any

from sqlalchemy import ColumnElement, ScalarSelect, case, func, select
from sqlalchemy.orm import Session

from jobauto_prefect.definitions.records.actions import Action
from jobauto_prefect.ledger.base import UtcDateTime
from jobauto_prefect.ledger.records import (
    Delivery,
    Event,
    EventSource,
    Lease,
    Notice,
    OutboxMessage,
    PendingAction,
    RunTemplate,
    Task,
)
from jobauto_prefect.ledger.states import ActionState, DeliveryState, NoticeState, TaskState


class Topic(StrEnum):
    """Kinds of work."""

    OUTBOX = "outbox"  #: a message for Prefect is due
    EVENTS = "events"  #: an event is not yet in Prefect
    DELIVERIES = "deliveries"  #: a delivery must be started
    ACTIONS = "actions"  #: an action of a run template concerns a job
    WEBHOOKS = "webhooks"  #: a webhook must be called
    NOTICES = "notices"  #: a notice about a job is due
    WINDOWS = "windows"  #: a window opens
    SOURCES = "sources"  #: event sources must be read
    TASKS = "tasks"  #: a task is too late, or is caught up; a job's time is up


def agenda(session: Session) -> Mapping[Topic, datetime]:
    """Return when each topic is first due, past or future; topics that never are are left out."""
    row = session.execute(_AGENDA).mappings().one()
    due: dict[Topic, datetime] = {}
    for label, instant in row.items():
        topic = Topic(label.partition(" ")[0])
        if instant is not None:
            due[topic] = min(instant, due.get(topic, instant))
    return due


def _first(due: Any, *where: ColumnElement[bool]) -> ScalarSelect[Any]:
    return select(func.min(due, type_=UtcDateTime())).where(*where).scalar_subquery()


def _free(due: Any, taken: Any) -> ColumnElement[Any]:
    """Return when something unclaimed is due."""
    return case((taken > due, taken), else_=due)


_OWED = PendingAction.state == ActionState.OWED
_ACTION_FREE = _free(PendingAction.due_at, PendingAction.taken_until)
_OPEN = Task.state == TaskState.OPEN

_AGENDA = select(
    _first(_free(OutboxMessage.not_before, OutboxMessage.taken_until)).label(Topic.OUTBOX),
    _first(Event.created_at, Event.emitted_at.is_(None)).label(Topic.EVENTS),
    _first(Delivery.due_at, Delivery.state == DeliveryState.OWED).label(Topic.DELIVERIES),
    _first(_ACTION_FREE, _OWED, PendingAction.kind != Action.WEBHOOK).label(Topic.ACTIONS),
    _first(_ACTION_FREE, _OWED, PendingAction.kind == Action.WEBHOOK).label(Topic.WEBHOOKS),
    _first(_free(Notice.due_at, Notice.taken_until), Notice.state == NoticeState.OWED).label(
        Topic.NOTICES
    ),
    _first(RunTemplate.next_schedule).label(Topic.WINDOWS),
    _first(
        EventSource.created_at, EventSource.enabled.is_(True), EventSource.retired_at.is_(None)
    ).label(Topic.SOURCES),
    _first(Task.deadline, _OPEN).label(f"{Topic.TASKS} late"),
    _first(Task.created_at, _OPEN, Task.catch_up.is_(True)).label(f"{Topic.TASKS} turn"),
    _first(Lease.ends_by).label(f"{Topic.TASKS} unheard"),
)
