"""Companies, as shown and written."""

from collections.abc import Sequence
from datetime import datetime
from itertools import count
from typing import Annotated, Any, ClassVar, Literal

from pydantic import Field

from jobauto_prefect.compiler.scheduling.schedule import zone_of
from jobauto_prefect.definitions.records.names import append_number, code_of, slug_of
from jobauto_prefect.definitions.records.value_rules import ValueRules
from jobauto_prefect.errors import Forbidden
from jobauto_prefect.facade.answers import (
    Answer,
    JsonObject,
    Labelled,
    serialize_fields,
    tag_link,
)
from jobauto_prefect.facade.auth.permissions import Membership
from jobauto_prefect.facade.formats.html.page_language import Shown
from jobauto_prefect.facade.http.field_types import READ_INTEGER, SIGNED, Boolean, OrText
from jobauto_prefect.facade.http.requests import parse as parse_body
from jobauto_prefect.facade.kinds.calendars import CalendarRefs, apply_calendars
from jobauto_prefect.facade.kinds.resource import ENABLED, NAME, Resource, link
from jobauto_prefect.facade.kinds.topics import TopicRefs, apply_topics
from jobauto_prefect.facade.writes.base import (
    LabelledBody,
    LongText,
    RecordName,
    ShortText,
    Slug,
    WriteRequest,
    WriteResult,
    apply_env,
    apply_fields,
    require_fields,
)
from jobauto_prefect.facade.writes.env import StoredValues, short_secret_warnings
from jobauto_prefect.facade.writes.notices import (
    Notices,
    NoticesBody,
    apply_notices,
    serialize_notices,
)
from jobauto_prefect.facade.writes.retention import CompanyRetentionBody, authorize_retention
from jobauto_prefect.jobs.windows.due_windows import keep_windows
from jobauto_prefect.kinds import KINDS
from jobauto_prefect.ledger import records
from jobauto_prefect.ledger.outbox import OutboxKind, enqueue
from jobauto_prefect.ledger.queries.applications import secret_keys_usable_by
from jobauto_prefect.ledger.queries.companies import companies_named
from jobauto_prefect.ledger.queries.credentials import credentials_of_company
from jobauto_prefect.ledger.queries.names import company_with_slug, find_company
from jobauto_prefect.ledger.queries.run_templates import templates_of_company
from jobauto_prefect.ledger.records import (
    CompanyUser,
)
from jobauto_prefect.settings import Settings

CompanyBound = Literal[
    "jobs_days", "jobs_count", "output_days", "runs_days", "tasks_days", "events_days"
]


class Company(Labelled):
    """A company; `env` holds its values for all its run templates, secret ones masked."""

    slug: str = Field(description="Unique short name: letters, digits, `_` and `-`.")
    name: str = Field(description="Display name.")
    enabled: bool = Field(description="Whether it may be used.")
    ic: str | None = Field(title="Registration number", description="Registration number.")
    email: str | None = Field(description="Email address.")
    logo: str | None = Field(description="An image: a URL or a data URL.")
    settings: str | None = Field(description="Free text for clients.")
    customer: int | None = Field(description="The customer's number in another system.")
    timezone: str | None = Field(
        description="IANA name of the time zone of its schedules; null: the service's."
    )
    topics: list[str] = Field(
        description="Names of its topics. In requests: names or ids; a name means the company's "
        "own topic; if there is none, the shared one."
    )
    calendars: list[str] = Field(
        description="Names of the calendars that close windows of the company. In requests:"
        " names or ids."
    )
    retention: dict[CompanyBound, int] = Field(
        description="Its own retention limits; 0: no limit. Days to keep ended jobs "
        "(`jobs_days`), their output (`output_days`), their flow runs in Prefect "
        "(`runs_days`), tasks (`tasks_days`) and events (`events_days`); number of "
        "ended jobs to keep of each run template (`jobs_count`)."
    )
    notices: Notices = Field(
        description="Who is notified about the company's jobs, by channel. If a run template leaves"
        " out a channel, the company's setting applies. Replaced as a whole."
    )
    env: dict[str, str] = Field(
        title="Environment",
        description="Values by environment key; secret ones are masked in answers. null removes a "
        "value.",
    )
    prefect_url: str = Field(description="Address of its deployments in Prefect's UI.")


class Member(Answer):
    """A user's membership of a company."""

    id: int = Field(description="The record's id.")
    company_id: int = Field(description="The company.")
    user_id: int = Field(description="The user.")
    role: Membership = Field(description="The role in the company.")
    login: str | None = Field(description="The user's login.")
    created_at: datetime = Field(description="When it was created.")


class CompanyBody(LabelledBody):
    """A company. Its natural key is `slug`, or `name` if it has none; `env` holds its values for
    all its run templates.
    """

    record: ClassVar = Company

    slug: Annotated[
        Slug | None,
        Shown(
            "Short name",
            "Letters, digits, _ and -. Part of names in Prefect. Leave empty to derive it from the "
            "name.",
        ),
    ] = None
    name: Annotated[RecordName | None, Shown("Name")] = None
    enabled: Annotated[Boolean, Shown("Enabled")] = True
    ic: Annotated[ShortText | None, Shown("Registration number")] = None
    email: Annotated[ShortText | None, Shown("Mail")] = None
    logo: Annotated[
        LongText | None,
        Shown("Logo", "A URL or a file (PNG, JPEG, GIF or WebP, up to 700 KB).", control="picture"),
    ] = None
    settings: Annotated[
        LongText | None,
        Shown("Settings", "Free text for clients; the service does not use it."),
    ] = None
    customer: Annotated[
        Annotated[int, Field(ge=-(2**31), le=2**31 - 1), READ_INTEGER, OrText(SIGNED)] | None,
        Shown("Customer number", "Identifies the company in another system."),
    ] = None
    timezone: Annotated[
        ShortText | None,
        Shown("Time zone", "For example Europe/Prague. Leave empty to use the service's."),
    ] = None
    topics: Annotated[TopicRefs, Shown("Topics")] = Field(default_factory=list)
    calendars: Annotated[CalendarRefs, Shown("Calendars")] = Field(default_factory=list)
    retention: CompanyRetentionBody = Field(default_factory=CompanyRetentionBody)
    notices: NoticesBody | None = None
    env: dict[str, Any] = Field(default_factory=dict)


APART = frozenset({"env", "topics", "calendars", "notices"})


def write_company(write: WriteRequest) -> WriteResult:
    """Write a company, identified by its slug or code, else by its name.

    Raises:
        Forbidden: the user may not, or would change the slug without being an administrator.
    """
    body = parse_body(CompanyBody, write.fields)
    company = _find_company(write, body)
    created = company is None
    if company is None:
        write.authorize_create("companies", None)
        require_fields(body, "name")
        slug = body.slug or _free_slug(write, body.name or "")
        company = records.Company(env={}, secrets={}, notices={}, notice_secrets={}, slug=slug)
        write.session.add(company)
    as_read = created or body.slug == code_of(company.slug, company.id)
    renamed = not as_read and body.slug not in (None, company.slug)
    authorize_retention(write, company, body, company.id)
    if renamed and not write.who.rights.system_wide:
        # Files, tags and people identify it by the slug, which may have been another company's.
        raise Forbidden("only administrators can change the slug of a company; leave it as it is")
    apply_fields(company, body, except_for=APART | {"slug"} if as_read else APART)
    if company.timezone is not None:
        zone_of(company.timezone)
    write.session.flush()
    if not company.slug:
        company.slug = f"company-{company.id}"
    if "topics" in body.model_fields_set:
        apply_topics(write, company, body.topics)
    closed_anew = "calendars" in body.model_fields_set and apply_calendars(
        write, company, body.calendars
    )
    says_notices = "notices" in body.model_fields_set
    warnings = apply_notices(write, company, body.notices) if says_notices else []
    secret = secret_keys_usable_by(write.session, company.id) if body.env else set()
    apply_env(company, body.env, secret, write.box, ValueRules())
    write.session.flush()
    for template in templates_of_company(write.session, company.id):
        keep_windows(write.session, template, write.settings, closed_anew=closed_anew)
        enqueue(write.session, OutboxKind.APPLY_TEMPLATE, template.id)
    for credential in credentials_of_company(write.session, company.id) if renamed else ():
        enqueue(
            write.session, OutboxKind.APPLY_CREDENTIAL, credential.id
        )  # its block is named after it
    return WriteResult(company, created, [*warnings, *short_secret_warnings(body.env, secret)])


def _find_company(write: WriteRequest, body: CompanyBody) -> records.Company | None:
    if write.record_id is not None:
        return write.get_for_update(records.Company, "companies")
    if body.slug:
        company = find_company(write.session, body.slug)
        named: Sequence[records.Company] = [company] if company else []
    else:
        named = companies_named(write.session, body.name) if body.name is not None else ()
    # Whether another company has this slug or name is not disclosed to everybody.
    seen = [company for company in named if write.who.rights.may_read("companies", company.id)]
    return write.authorize_update(seen[0], "companies") if seen else None


def _free_slug(write: WriteRequest, name: str) -> str:
    """Return an unused slug made from the name; empty if no character of it can be used."""
    slug = slug_of(name)
    if not slug or company_with_slug(write.session, slug) is None:
        return slug
    numbers = count(2)
    return next(
        free
        for free in (append_number(slug, number) for number in numbers)
        if company_with_slug(write.session, free) is None
    )


def serialize_company(company: records.Company, settings: Settings) -> JsonObject:
    """Return a company as answers show it; secret values are masked."""
    return serialize_fields(
        Company,
        company,
        notices=serialize_notices(company),
        env=StoredValues(company.env, company.secrets).shown(),
        prefect_url=tag_link(settings, f"company:{company.slug}"),
    )


def serialize_member(member: CompanyUser, login: str | None) -> JsonObject:
    """Return a membership as answers show it."""
    return serialize_fields(Member, member, login=login)


RESOURCE = Resource(
    KINDS["company"], records.Company, Company, serialize_company, write_company,
    filters={"name": NAME, "enabled": ENABLED},
    body=CompanyBody,
    links={
        "members": link("listMembers", "companyId"), "assign": link("assignMember", "companyId"),
    },
)  # fmt: skip
