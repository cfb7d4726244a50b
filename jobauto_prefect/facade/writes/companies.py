"""Companies."""

from typing import Annotated, Any

from pydantic import Field

from jobauto_prefect.compiler.schedule import zone_of
from jobauto_prefect.definitions import parse
from jobauto_prefect.engine.opening import keep_windows
from jobauto_prefect.facade.requests import parse as parse_body
from jobauto_prefect.facade.spellings import READ_INTEGER, SIGNED, OrText, Truth
from jobauto_prefect.facade.values import secret_keys, short_secrets
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
from jobauto_prefect.ledger import queries
from jobauto_prefect.ledger.credentials import credentials_of_company
from jobauto_prefect.ledger.records import Company
from jobauto_prefect.ledger.wishes import WishKind, wish


class CompanyBody(LabelledBody):
    """A company. `slug` is its natural key; `env` its values for all its templates."""

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
    env: dict[str, Any] = Field(default_factory=dict)


def write_company(write: Write) -> Written:
    """A company, known by its slug."""
    body = parse_body(CompanyBody, write.fields)
    company = _known_company(write, body)
    created = company is None
    if company is None:
        write.creating("companies", None)
        require(body, "name", "slug")
        company = Company(env={}, secrets={})
        write.session.add(company)
    renamed = not created and body.slug not in (None, company.slug)
    take(company, body, except_for={"env"})
    if company.timezone is not None:
        zone_of(company.timezone)
    secret = _secret_names(write, body)
    take_values(company, body.env, secret, write.box, None)
    write.session.flush()
    for template in queries.templates_of_company(write.session, company.id):
        keep_windows(write.session, template, write.settings)
        wish(write.session, WishKind.APPLY_TEMPLATE, template.id)
    for credential in credentials_of_company(write.session, company.id) if renamed else ():
        wish(write.session, WishKind.APPLY_CREDENTIAL, credential.id)  # its block is named by it
    return Written(company, created, short_secrets(body.env, secret))


def _known_company(write: Write, body: CompanyBody) -> Company | None:
    if write.record_id is not None or not body.slug:
        return write.known(Company, "companies")
    known = queries.company_with_slug(write.session, body.slug)
    return write.updatable(known, "companies") if known else None


def _secret_names(write: Write, body: CompanyBody) -> set[str]:
    """A company's value is secret where any application declares its key as a password."""
    if not body.env:
        return set()
    apps = queries.all_apps(write.session)
    return {key for app in apps for key in secret_keys(parse(app.document))}
