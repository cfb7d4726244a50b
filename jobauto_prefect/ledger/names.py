"""Records by what people call them; whose records these are is for the caller to judge."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from sqlalchemy.orm import Session

from jobauto_prefect.definitions.formats import is_uuid
from jobauto_prefect.definitions.slugs import code_of, ids_in
from jobauto_prefect.ledger import queries
from jobauto_prefect.ledger.base import Base
from jobauto_prefect.ledger.calendars import calendars_named
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


def company_called(session: Session, word: str) -> Company | None:
    """The company of that slug, or of that code, which is as the published dialect shows it."""
    known = queries.company_with_slug(session, word)
    for company_id in ids_in(word) if known is None else ():
        company = session.get(Company, company_id)
        if company and company.retired_at is None and code_of(company.slug, company.id) == word:
            return company
    return known


def _companies(session: Session, word: str) -> Found:
    company = company_called(session, word)
    return [company] if company else []


def _templates(session: Session, word: str) -> Found:
    company, _, name = word.partition("/")
    template = queries.template_named(session, company, name)
    return [template] if template else []


def _credentials(session: Session, word: str) -> Found:
    slug, _, name = word.partition("/")
    company = queries.company_with_slug(session, slug)
    credential = queries.credential_named(session, company.id, name) if company else None
    return [credential] if credential else []


def _users(session: Session, word: str) -> Found:
    user = queries.user_named(session, word)
    return [user] if user else []


def _sources(session: Session, word: str) -> Found:
    source = queries.source_named(session, word)
    return [source] if source else []


def _apps(session: Session, word: str) -> Found:
    if is_uuid(word):
        app = queries.app_with_uuid(session, word.lower())
        return [app] if app else []
    return queries.apps_named(session, word)


def _types(session: Session, word: str) -> Found:
    if is_uuid(word):
        kind = queries.credential_type_with_uuid(session, word)
        return [kind] if kind else []
    return queries.credential_types_coded(session, word)


def _of_company(look: Callable[[Session, str], Found]) -> Callable[[Session, str], Found]:
    """Also `company/name`, for kinds whose records may belong to a company."""

    def looked(session: Session, word: str) -> Found:
        slug, slash, name = word.partition("/")
        company = company_called(session, slug) if slash else None
        named = look(session, name) if company else ()
        own = [record for record in named if company and record.company_id == company.id]
        return own or look(session, word)

    return looked


LOOKS: Mapping[type[Base], Callable[[Session, str], Found]] = {
    App: _of_company(_apps),
    Calendar: lambda session, word: calendars_named(session, [word]),
    Company: _companies,
    Credential: _credentials,
    CredentialType: _of_company(_types),
    EventSource: _sources,
    RunTemplate: _templates,
    Topic: _of_company(queries.topics_named),
    User: _users,
}
"""Those that a name may mean, by id; other kinds of records have ids only."""
