"""Soft delete: a record is retired, unless active records depend on it."""

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from sqlalchemy import and_, or_, select
from sqlalchemy.orm import Session

from jobauto_prefect.errors import Conflict
from jobauto_prefect.ledger.access.tokens import end_tokens
from jobauto_prefect.ledger.audit.trail import WritingSession
from jobauto_prefect.ledger.base import Base, noun_of
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

SHOWN = 20  # dependents listed in a refusal

SwitchOff = Callable[[WritingSession, RunTemplate, str], None]
"""Ends what has not begun of a run template, for a reason."""


def soft_delete(session: WritingSession, record: Any, switch_off: SwitchOff) -> None:
    """Retire a record; it is kept for history.

    Raises:
        Conflict: active records depend on it; the message names them.
    """
    named = dependents(session, record)
    if named:
        raise Conflict(
            f"other records depend on it; delete or end them first: {', '.join(named[:SHOWN])}"
        )
    lock_object_id(session, record)
    record.retired_at = session.clock()
    if end := ENDINGS.get(type(record)):
        end(session, record, switch_off)
    withdraw(session, record)


def _end_template(session: WritingSession, template: RunTemplate, switch_off: SwitchOff) -> None:
    template.active = False
    template.kept_schedule = template.next_window = template.next_schedule = None
    switch_off(session, template, "its run template was deleted")


def _end_user(session: WritingSession, user: User, _: SwitchOff) -> None:
    user.enabled = False
    end_tokens(session, user)


ENDINGS: Mapping[type[Base], Callable[[WritingSession, Any, SwitchOff], None]] = {
    RunTemplate: _end_template,
    User: _end_user,
}
"""What ends together with a record."""


def dependents(session: Session, record: Base) -> list[str]:
    """Return the active records that depend on a record, in words."""
    return [name for look in DEPENDENTS.get(type(record), ()) for name in look(session, record)]


Look = Callable[[Session, Any], Iterable[str]]


def _referring(kind: type[Base], column: str) -> Look:
    """Return a lookup of active records of a kind that refer to a record by a column."""

    def look(session: Session, record: Any) -> Iterable[str]:
        key = select(kind.id).where(  # type: ignore[attr-defined]
            getattr(kind, column) == record.id,
            kind.retired_at.is_(None),  # type: ignore[attr-defined]
        )
        return (f"{noun_of(kind)} {found}" for found in session.scalars(key.limit(SHOWN)))

    return look


def _naming(find: Callable[[Session, Any], Iterable[Any]]) -> Look:
    """Return a lookup of records that list this one."""
    return lambda session, record: (
        f"{noun_of(found)} {found.id}" for found in find(session, record)
    )


def _actions_starting(session: Session, template: RunTemplate) -> Iterable[str]:
    for template_id in trigger_graph.templates_starting(session, template.id):
        if template_id != template.id:
            yield f"actions of run template {template_id}"


def _jobs_of_template(session: Session, template: RunTemplate) -> Iterable[str]:
    # Windows that have not begun end with their template; requested jobs do not.
    asked = and_(Job.state == JobState.SCHEDULED, Job.task_id.is_(None))
    live = select(Job.id).where(
        Job.runtemplate_id == template.id, or_(Job.state == JobState.RUNNING, asked)
    )
    return (f"job {job_id}" for job_id in session.scalars(live.limit(SHOWN)))


def _work_of_job(_: Session, job: Job) -> Iterable[str]:
    """Yield active work of a job: the job itself while it lives, then its task."""
    never_began = job.state == JobState.CANCELLED and job.begin is None
    if job.state in LIVE_JOBS:
        yield f"job {job.id} itself, which is {job.state}"
    elif job.task_id is not None and not never_began:
        yield f"task {job.task_id}"


DEPENDENTS: Mapping[type[Base], tuple[Look, ...]] = {
    App: (_referring(RunTemplate, "app_id"),),
    Calendar: (_naming(lambda session, calendar: keepers_of(session, calendar.name)),),
    Company: tuple(
        _referring(kind, "company_id")
        for kind in (RunTemplate, Credential, EventSource, App, CredentialType, Topic)
    ),
    Credential: (_naming(lambda session, credential: templates_with(session, credential.id)),),
    CredentialType: (_referring(Credential, "credential_type_id"),),
    EventSource: (_referring(EventRule, "event_source_id"),),
    Job: (_work_of_job,),
    RunTemplate: (
        _referring(EventRule, "runtemplate_id"),
        _referring(EventRule, "runtemplate_source_id"),
        _actions_starting,
        _jobs_of_template,
    ),
    Topic: (_naming(bearers_of),),
}
"""Lookups of records that depend on a record of a kind and must be deleted first."""
