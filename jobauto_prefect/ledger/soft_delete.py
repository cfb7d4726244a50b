"""Soft delete: a record is retired, unless active records depend on it."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from sqlalchemy import and_, or_, select
from sqlalchemy.orm import Session

from jobauto_prefect.errors import Conflict
from jobauto_prefect.ledger.access.tokens import end_tokens
from jobauto_prefect.ledger.audit.trail import WritingSession
from jobauto_prefect.ledger.base import Base
from jobauto_prefect.ledger.events import trigger_graph
from jobauto_prefect.ledger.prefect_objects import lock_object_id, withdraw
from jobauto_prefect.ledger.queries.calendars import keepers_of
from jobauto_prefect.ledger.queries.credentials import templates_with
from jobauto_prefect.ledger.queries.topics import bearers_of
from jobauto_prefect.ledger.records import (
    App,
    Calendar,
    Company,
    Credential,
    CredentialType,
    EventRule,
    EventSource,
    Job,
    RunTemplate,
    Topic,
    User,
)
from jobauto_prefect.ledger.states import LIVE_JOBS, JobState

SHOWN = 20  # dependents named in a refusal

Reference = tuple[type[Base], str]

DEPENDENTS: Mapping[type[Base], Sequence[Reference]] = {
    App: ((RunTemplate, "app_id"),),
    Company: tuple(
        (kind, "company_id")
        for kind in (RunTemplate, Credential, EventSource, App, CredentialType, Topic)
    ),
    RunTemplate: ((EventRule, "runtemplate_id"), (EventRule, "runtemplate_source_id")),
    CredentialType: ((Credential, "credential_type_id"),),
    EventSource: ((EventRule, "event_source_id"),),
}
"""What refers to a record by which column; it has to go first."""


def soft_delete(
    session: WritingSession,
    record: Any,
    switch_off: Callable[[WritingSession, RunTemplate, str], None],
) -> None:
    """Retire a record; it is kept for history.

    `switch_off` ends what of a run template has not begun, for a reason.

    Raises:
        Conflict: active things depend on it; the message names them.
    """
    named = dependents(session, record)
    if named:
        raise Conflict(f"these depend on it, delete or end them first: {', '.join(named[:SHOWN])}")
    lock_object_id(session, record)
    record.retired_at = session.clock()
    if isinstance(record, RunTemplate):
        record.active = False
        record.kept_schedule = record.next_window = record.next_schedule = None
        switch_off(session, record, "its run template was deleted")
    if isinstance(record, User):
        record.enabled = False
        end_tokens(session, record)
    withdraw(session, record)


def dependents(session: Session, record: Base) -> list[str]:
    """Return the active records that depend on a record, in words."""
    return [*_dependents(session, record), *_work(session, record)]


def _dependents(session: Session, record: Base) -> list[str]:
    dependents = []
    for kind, column in DEPENDENTS.get(type(record), ()):
        key = select(kind.id).where(  # type: ignore[attr-defined]
            getattr(kind, column) == record.id,  # type: ignore[attr-defined]
            kind.retired_at.is_(None),  # type: ignore[attr-defined]
        )
        dependents += [
            f"{kind.__tablename__} {record_id}" for record_id in session.scalars(key.limit(SHOWN))
        ]
    if isinstance(record, RunTemplate):
        starting = [
            template_id
            for template_id in trigger_graph.templates_starting(session, record.id)
            if template_id != record.id
        ]
        dependents += [f"actions of runtemplate {template_id}" for template_id in starting]
    return dependents


def _work(session: Session, record: Base) -> list[str]:
    if isinstance(record, Job):
        never_began = record.state == JobState.CANCELLED and record.begin is None
        if record.task_id is not None and not never_began and record.state not in LIVE_JOBS:
            return [f"task {record.task_id}"]
        return [f"job {record.id} itself, which is {record.state}"] * (record.state in LIVE_JOBS)
    if isinstance(record, RunTemplate):
        # Windows that have not begun end with their template; what somebody asked for does not.
        asked = and_(Job.state == JobState.SCHEDULED, Job.task_id.is_(None))
        live = select(Job.id).where(
            Job.runtemplate_id == record.id, or_(Job.state == JobState.RUNNING, asked)
        )
        return [f"job {job_id}" for job_id in session.scalars(live.limit(SHOWN))]
    if isinstance(record, Credential):
        return [f"runtemplate {template.id}" for template in templates_with(session, [record.id])]
    return [f"{user.__tablename__} {user.id}" for user in _naming(session, record)]


def _naming(session: Session, record: Base) -> Sequence[App | Company | RunTemplate]:
    """Return the records that keep the name of this one."""
    if isinstance(record, Calendar):
        return keepers_of(session, record.name)
    return bearers_of(session, record) if isinstance(record, Topic) else []
