"""Companies."""

from itertools import count
from typing import Annotated, Any

from pydantic import Field

from jobauto_prefect.compiler.schedule import zone_of
from jobauto_prefect.definitions import parse
from jobauto_prefect.definitions.slugs import code_of, numbered, slug_of
from jobauto_prefect.definitions.value_rules import ValueRules
from jobauto_prefect.facade.access import see
from jobauto_prefect.facade.requests import parse as parse_body
from jobauto_prefect.facade.spellings import READ_INTEGER, SIGNED, OrText, Truth
from jobauto_prefect.facade.values import short_secrets
from jobauto_prefect.facade.writes.base import (
    LabelledBody,
    LongText,
    Name,
    ShortText,
    Slug,
    Write,
    Written,
    require,
    take,
    take_values,
)
from jobauto_prefect.facade.writes.calendars import CalendarRefs, take_calendars
from jobauto_prefect.facade.writes.notices import NoticesBody, take_notices
from jobauto_prefect.facade.writes.retention import CompanyRetentionBody
from jobauto_prefect.facade.writes.topics import TopicRefs, take_topics
from jobauto_prefect.jobs.windows import keep_windows
from jobauto_prefect.ledger import queries
from jobauto_prefect.ledger.credentials import credentials_of_company
from jobauto_prefect.ledger.names import company_called
from jobauto_prefect.ledger.records import Company
from jobauto_prefect.ledger.wishes import WishKind, wish


class CompanyBody(LabelledBody):
    """A company. `slug` is its natural key, without one its `name`; `env` its values for all its
    templates.
    """

    slug: Slug | None = None
    name: Name | None = None
    enabled: Truth = True
    ic: ShortText | None = None
    email: ShortText | None = None
    logo: LongText | None = None
    settings: LongText | None = None
    customer: (
        Annotated[int, Field(ge=-(2**31), le=2**31 - 1), READ_INTEGER, OrText(SIGNED)] | None
    ) = None
    timezone: ShortText | None = None
    topics: TopicRefs = Field(default_factory=list)
    calendars: CalendarRefs = Field(default_factory=list)
    retention: CompanyRetentionBody = Field(default_factory=CompanyRetentionBody)
    notices: NoticesBody | None = None
    env: dict[str, Any] = Field(default_factory=dict)


APART = frozenset({"env", "topics", "calendars", "notices"})


def write_company(write: Write) -> Written:
    """A company, known by its slug or code, without one by its name."""
    body = parse_body(CompanyBody, write.fields)
    company = _known_company(write, body)
    created = company is None
    if company is None:
        write.creating("companies", None)
        require(body, "name")
        slug = body.slug or _free_slug(write, body.name or "")
        company = Company(env={}, secrets={}, notices={}, notice_secrets={}, slug=slug)
        write.session.add(company)
    as_read = created or body.slug == code_of(company.slug, company.id)
    renamed = not as_read and body.slug not in (None, company.slug)
    take(company, body, except_for=APART | {"slug"} if as_read else APART)
    if company.timezone is not None:
        zone_of(company.timezone)
    write.session.flush()
    if not company.slug:
        company.slug = f"company-{company.id}"
    if "topics" in body.model_fields_set:
        take_topics(write, company, body.topics)
    closed_anew = "calendars" in body.model_fields_set and take_calendars(
        write, company, body.calendars
    )
    said = "notices" in body.model_fields_set
    warnings = take_notices(write, company, body.notices) if said else []
    secret = _secret_names(write, company, body)
    take_values(company, body.env, secret, write.box, ValueRules())
    write.session.flush()
    for template in queries.templates_of_company(write.session, company.id):
        keep_windows(write.session, template, write.settings, closed_anew=closed_anew)
        wish(write.session, WishKind.APPLY_TEMPLATE, template.id)
    for credential in credentials_of_company(write.session, company.id) if renamed else ():
        wish(write.session, WishKind.APPLY_CREDENTIAL, credential.id)  # its block is named by it
    return Written(company, created, [*warnings, *short_secrets(body.env, secret)])


def _known_company(write: Write, body: CompanyBody) -> Company | None:
    if write.record_id is not None:
        return write.known(Company, "companies")
    if body.slug:
        known = company_called(write.session, body.slug)
        return write.updatable(known, "companies") if known else None
    if body.name is None:
        return None
    named = queries.companies_named(write.session, body.name)
    # A name is no secret key: that others have one of this name is not for everybody to know.
    seen = [company for company in named if see(write.who, "companies", company.id)]
    return write.updatable(seen[0], "companies") if seen else None


def _free_slug(write: Write, name: str) -> str:
    """A slug of the name that no company has; empty where nothing is left of the name."""
    slug = slug_of(name)
    if not slug or queries.company_with_slug(write.session, slug) is None:
        return slug
    numbers = count(2)
    return next(
        free
        for free in (numbered(slug, number) for number in numbers)
        if queries.company_with_slug(write.session, free) is None
    )


def _secret_names(write: Write, company: Company, body: CompanyBody) -> set[str]:
    """A company's value is secret where an application it may use declares its key a password."""
    if not body.env:
        return set()
    apps = queries.apps_usable_by(write.session, company.id)
    return {key for app in apps for key in parse(app.document).secret_keys}
