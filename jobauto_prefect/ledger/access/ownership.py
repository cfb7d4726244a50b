"""Which company owns a record; applications and topics may also be shared by all.

A company's run templates use its own definitions and the shared ones, never another company's.
"""

from collections.abc import Callable, Collection, Mapping
from operator import attrgetter
from typing import Any, TypeVar

from sqlalchemy import ColumnElement, or_, select
from sqlalchemy.orm import Session

from jobauto_prefect.ledger.base import Base
from jobauto_prefect.ledger.records import (
    App,
    Company,
    Credential,
    CredentialType,
    EventRule,
    Job,
    RunTemplate,
    Task,
    Topic,
)
from jobauto_prefect.ledger.states import LIVE_JOBS

OwnedRecord = App | CredentialType | Topic
D = TypeVar("D", App, CredentialType, Topic)


_COMPANIES: Mapping[type[Base], Callable[[Any], int | None]] = {
    Company: attrgetter("id"),
    EventRule: attrgetter("runtemplate.company_id"),
    Task: attrgetter("runtemplate.company_id"),
}
"""The company of records without a company column."""


def company_of(record: Base) -> int | None:
    """Return the company a record belongs to; None if it belongs to no single one."""
    known = _COMPANIES.get(type(record))
    return known(record) if known else getattr(record, "company_id", None)


def companies_of(record: Base) -> tuple[int | None, ...]:
    """Return the companies that see a record; for a rule also the one whose events start it."""
    if isinstance(record, EventRule):
        return company_of(record), record.source_company_id
    return (company_of(record),)


def usable(kind: type[D], companies: Collection[int]) -> ColumnElement[bool]:
    """Return the condition for definitions of these companies and for shared ones."""
    shared: ColumnElement[bool] = kind.company_id.is_(None)
    return or_(shared, kind.company_id.in_(companies)) if companies else shared


def own_first(kind: type[D]) -> tuple[Any, ...]:
    """Return the order of precedence: a company's own before shared ones, then by id."""
    return kind.company_id.is_(None), kind.id


def is_usable(definition: OwnedRecord, company_id: int | None) -> bool:
    """Whether run templates and credentials of a company may use a definition."""
    return definition.company_id in (None, company_id)


def lock_for_use(session: Session, definition: OwnedRecord) -> None:
    """Refresh a definition and prevent changes of its owner until this transaction ends.

    Others may use it at the same time; `lock_for_owner` waits for all of them.
    """
    kind = type(definition)
    session.execute(
        select(kind)
        .where(kind.id == definition.id)
        .with_for_update(read=True, key_share=True)
        .execution_options(populate_existing=True)
    ).all()


def lock_for_owner(session: Session, definition: OwnedRecord) -> None:
    """Lock a definition so that no use of it begins or ends until this transaction ends."""
    kind = type(definition)
    session.execute(select(kind.id).where(kind.id == definition.id).with_for_update()).all()


def users_of(session: Session, definition: App | CredentialType) -> set[int]:
    """Return the ids of the companies that use a definition.

    Retired run templates and credentials count, as do waiting and running jobs, which refer to
    them.
    """
    if isinstance(definition, CredentialType):
        query = select(Credential.company_id).where(Credential.credential_type_id == definition.id)
        return set(session.scalars(query))
    templates = select(RunTemplate.company_id).where(RunTemplate.app_id == definition.id)
    live = select(Job.company_id).where(Job.app_id == definition.id, Job.state.in_(LIVE_JOBS))
    return {*session.scalars(templates), *session.scalars(live)}
