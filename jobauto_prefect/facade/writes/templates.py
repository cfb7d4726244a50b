"""Run templates."""

from typing import Annotated, Any

from pydantic import Field, WithJsonSchema

from jobauto_prefect.compiler.schedule import CODES
from jobauto_prefect.compiler.timing import timing_faults
from jobauto_prefect.definitions import Backoff, ContactLost, Misfire, Overlap, parse
from jobauto_prefect.definitions.actions import ActionMode
from jobauto_prefect.engine.opening import keep_windows
from jobauto_prefect.errors import InvalidInput
from jobauto_prefect.facade.requests import parse as parse_body
from jobauto_prefect.facade.spellings import READ_INTEGER, READ_NUMBER, OrText, Truth
from jobauto_prefect.facade.values import secret_keys, short_secrets
from jobauto_prefect.facade.writes.actions import Actions, ActionsBody, take_actions
from jobauto_prefect.facade.writes.assignments import (
    BlockBody,
    CredentialRef,
    assignment_warnings,
    require_own,
    take_blocks,
    take_credentials,
)
from jobauto_prefect.facade.writes.base import (
    Id,
    LabelledBody,
    LongText,
    Name,
    ShortText,
    Write,
    Written,
    company_of_body,
    require_all,
    take,
    take_values,
)
from jobauto_prefect.ledger import queries
from jobauto_prefect.ledger.records import App, Company, RunTemplate
from jobauto_prefect.ledger.wishes import WishKind, wish
from jobauto_prefect.runtime.executors import OURS, executor_faults, settings_schema

ExecutorName = Annotated[str, WithJsonSchema({"type": "string", "enum": sorted(OURS)})]
SettingsBody = Annotated[dict[str, Any], WithJsonSchema(settings_schema())]
YEAR = 365 * 24 * 3600  # seconds
Seconds = Annotated[
    float, Field(gt=0, le=YEAR), READ_NUMBER, OrText(r"^[1-9][0-9]{0,6}(\.[0-9]{1,6})?$")
]
WholeSeconds = Annotated[int, Field(ge=0, le=YEAR), READ_INTEGER, OrText(r"^(0|[1-9][0-9]{0,6})$")]
Attempts = Annotated[int, Field(ge=1, le=1000), READ_INTEGER, OrText(r"^[1-9][0-9]{0,2}$")]
TIMES = ("interv", "cron", "timezone", "delay", "deadline_offset")


class TemplateBody(LabelledBody):
    """A run template. Its natural key is its name within its company.

    The application is `app_id`, `app_uuid` or `app` (its name); the company `company_id` or
    `company` (its slug).
    """

    app_id: Id | None = None
    app_uuid: str | None = None
    app: str | None = None
    company_id: Id | None = None
    company: str | None = None
    name: Name | None = None
    active: Truth = True
    interv: Annotated[str, WithJsonSchema({"type": "string", "enum": [*CODES]})] = "n"
    cron: ShortText | None = None
    timezone: ShortText | None = None
    delay: WholeSeconds = 0
    executor: ExecutorName = "Native"
    executor_settings: SettingsBody = Field(default_factory=dict)
    pool: Name | None = None
    timeout_seconds: Seconds | None = None
    deadline_offset: ShortText | None = None
    allow_late: Truth = False
    max_attempts: Attempts | None = None
    retry_backoff: Backoff = Backoff.NONE
    retry_min_gap: WholeSeconds = 0
    retry_undeclared: Truth = False
    overlap: Overlap = Overlap.WAIT
    misfire: Misfire = Misfire.LATEST
    on_contact_lost: ContactLost = ContactLost.FINISH
    note: LongText | None = None
    success: Actions = Field(default_factory=ActionsBody)
    fail: Actions = Field(default_factory=ActionsBody)
    env: dict[str, Any] = Field(default_factory=dict)
    credentials: list[CredentialRef] = Field(default_factory=list, max_length=50)
    blocks: list[BlockBody] = Field(default_factory=list, max_length=20)


APART = {
    *("app_id", "app_uuid", "app", "company_id", "company"),
    *("env", "credentials", "blocks", "success", "fail"),
}


def write_template(write: Write) -> Written:
    """A run template, known by its name within its company."""
    body = parse_body(TemplateBody, write.fields)
    app, company = _app_of(write, body), company_of_body(write, body.company_id, body.company)
    template = _known_template(write, body, company)
    created = template is None
    if template is None or (company is not None and company is not template.company):
        require_all({"name": body.name, "app_id": app, "company_id": company} if created else {})
        write.creating("jobs", company.id if company else None)
    if template is None:
        template = RunTemplate(env={}, secrets={}, success={}, fail={}, action_secrets={})
        write.session.add(template)
    template.app = app or template.app
    template.company = company or template.company
    take(template, body, except_for=APART)
    _take_provisions(write, template, body)
    _check(template, write.settings.timezone)
    definition = parse(template.app.document)
    take_values(template, body.env, secret_keys(definition), write.box, definition)
    given = {mode: getattr(body, mode) for mode in ActionMode if mode in body.model_fields_set}
    take_actions(write, template, given)
    keep_windows(write.session, template, write.settings)
    wish(write.session, WishKind.APPLY_TEMPLATE, template.id)
    warnings = short_secrets(body.env, secret_keys(definition))
    return Written(template, created, [*assignment_warnings(write, template), *warnings])


def _take_provisions(write: Write, template: RunTemplate, body: TemplateBody) -> None:
    if "credentials" in body.model_fields_set:
        take_credentials(write, template, body.credentials)
    require_own(template)
    if "blocks" in body.model_fields_set:
        take_blocks(write, template, body.blocks)


def _app_of(write: Write, body: TemplateBody) -> App | None:
    if body.app_id is not None:
        return write.referred(App, body.app_id, "/app_id", "applications")
    if body.app_uuid is not None:
        found = queries.app_with_uuid(write.session, body.app_uuid.lower())
        message = f"there is no app with the uuid {body.app_uuid}"
        return write.found(found, "/app_uuid", message, "applications")
    if body.app is not None:
        found = queries.app_named(write.session, body.app)
        return write.found(found, "/app", f"there is no app named {body.app}", "applications")
    return None


def _known_template(
    write: Write, body: TemplateBody, company: Company | None
) -> RunTemplate | None:
    if write.record_id is not None or company is None or body.name is None:
        return write.known(RunTemplate, "jobs")
    known = queries.template_named(write.session, company.slug, body.name)
    return write.updatable(known, "jobs") if known else None


def _check(template: RunTemplate, zone: str) -> None:
    times = {name: getattr(template, name) for name in TIMES}
    faults = timing_faults(times, template.company.timezone or zone)
    if faults:
        raise InvalidInput(faults)
    require_executor(template.executor, template)


def require_executor(name: str, template: RunTemplate) -> None:
    """Refuse an executor there is none of, or that can't run a template's jobs.

    Raises:
        InvalidInput: saying which there are, or what is missing.
    """
    image = template.app.document.get("ociimage")
    faults = executor_faults(name, template.executor_settings, image)
    if faults:
        raise InvalidInput(faults)
