"""Records by their names for people; the caller checks permissions."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from sqlalchemy import select
from sqlalchemy.orm import Session

from jobauto_prefect.definitions.formats import is_uuid
from jobauto_prefect.definitions.records.names import code_of, parse_company_ids
from jobauto_prefect.ledger.base import Base
from jobauto_prefect.ledger.queries.applications import app_with_uuid, apps_named
from jobauto_prefect.ledger.queries.calendars import calendars_named
from jobauto_prefect.ledger.queries.credentials import (
    credential_named,
    credential_type_with_uuid,
    credential_types_coded,
)
from jobauto_prefect.ledger.queries.events import sources_named
from jobauto_prefect.ledger.queries.topics import topics_named
from jobauto_prefect.ledger.queries.users import user_named
from jobauto_prefect.ledger.records import (
    App,
    Calendar,
    Company,
    Credential,
    CredentialType,
    EventSource,
    RunTemplate,
    Topic,
    User,
)

Found = Sequence[Any]


def company_with_slug(session: Session, slug: str) -> Company | None:
    """Return the company with that slug; None if there is none."""
    return session.scalar(select(Company).where(Company.slug == slug, Company.retired_at.is_(None)))


def template_named(session: Session, company: str, name: str) -> RunTemplate | None:
    """Return the run template `company/name`, by the company's slug; None if there is none."""
    return session.scalar(
        select(RunTemplate)
        .join(Company)
        .where(Company.slug == company, RunTemplate.name == name, RunTemplate.retired_at.is_(None))
    )


def find_company(session: Session, word: str) -> Company | None:
    """Return the company with that slug or published-dialect code; None if there is none."""
    by_slug = company_with_slug(session, word)
    for company_id in parse_company_ids(word) if by_slug is None else ():
        company = session.get(Company, company_id)
        if company and company.retired_at is None and code_of(company.slug, company.id) == word:
            return company
    return by_slug


def _one(record: Any) -> Found:
    return [] if record is None else [record]


def _credentials(session: Session, word: str) -> Found:
    slug, _, name = word.partition("/")
    company = company_with_slug(session, slug)
    return _one(credential_named(session, company.id, name)) if company else []


def _templates(session: Session, word: str) -> Found:
    company, _, name = word.partition("/")
    return _one(template_named(session, company, name))


def _apps(session: Session, word: str) -> Found:
    if is_uuid(word):
        return _one(app_with_uuid(session, word.lower()))
    return apps_named(session, word)


def _types(session: Session, word: str) -> Found:
    if is_uuid(word):
        return _one(credential_type_with_uuid(session, word))
    return credential_types_coded(session, word)


def _of_company(look: Callable[[Session, str], Found]) -> Callable[[Session, str], Found]:
    """Return a lookup that also accepts `company/name`, for kinds that may belong to a company."""

    def looked(session: Session, word: str) -> Found:
        slug, slash, name = word.partition("/")
        company = find_company(session, slug) if slash else None
        named = look(session, name) if company else ()
        own = [record for record in named if company and record.company_id == company.id]
        return own or look(session, word)

    return looked


LOOKS: Mapping[type[Base], Callable[[Session, str], Found]] = {
    App: _of_company(_apps),
    Calendar: lambda session, word: calendars_named(session, [word]),
    Company: lambda session, word: _one(find_company(session, word)),
    Credential: _credentials,
    CredentialType: _of_company(_types),
    EventSource: _of_company(sources_named),
    RunTemplate: _templates,
    Topic: _of_company(topics_named),
    User: lambda session, word: _one(user_named(session, word)),
}
"""Lookups of all records that a name may mean, by id; other kinds have no names."""
