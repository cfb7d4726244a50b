"""Run templates."""

from collections.abc import Mapping
from typing import Annotated, Any

from pydantic import Field, StringConstraints, WithJsonSchema

from jobauto_prefect.compiler.schedule import CODES
from jobauto_prefect.compiler.timing import timing_faults
from jobauto_prefect.definitions import (
    Backoff,
    ContactLost,
    Misfire,
    OnClosed,
    Overlap,
    parse,
    to_text,
)
from jobauto_prefect.definitions.actions import ActionMode
from jobauto_prefect.definitions.value_rules import ValueRules
from jobauto_prefect.errors import Forbidden, InvalidInput
from jobauto_prefect.facade.access import allow
from jobauto_prefect.facade.records import template_record
from jobauto_prefect.facade.requests import Fields
from jobauto_prefect.facade.requests import parse as parse_body
from jobauto_prefect.facade.spellings import READ_INTEGER, READ_NUMBER, OrText, Truth
from jobauto_prefect.facade.values import doubtful_values, short_secrets
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
    LabelledBody,
    LongText,
    Name,
    Ref,
    ShortText,
    Write,
    Written,
    company_of_body,
    require_all,
    take,
    take_values,
)
from jobauto_prefect.facade.writes.calendars import CalendarRefs, take_calendars
from jobauto_prefect.facade.writes.executors import (
    ExecutorName,
    exposed,
    require_isolation,
    require_usable,
)
from jobauto_prefect.facade.writes.notices import NoticesBody, take_notices
from jobauto_prefect.facade.writes.ownership import require_accessible, visible_definition
from jobauto_prefect.facade.writes.retention import RetentionBody
from jobauto_prefect.facade.writes.topics import TopicRefs, require_own_topics, take_topics
from jobauto_prefect.jobs.windows import keep_windows
from jobauto_prefect.ledger import queries
from jobauto_prefect.ledger.records import App, Company, RunTemplate
from jobauto_prefect.ledger.wishes import WishKind, wish
from jobauto_prefect.runtime.executors import settings_schema

SettingsBody = Annotated[dict[str, Any], WithJsonSchema(settings_schema())]
YEAR = 365 * 24 * 3600  # seconds
Seconds = Annotated[
    float, Field(gt=0, le=YEAR), READ_NUMBER, OrText(r"^[1-9][0-9]{0,6}(\.[0-9]{1,6})?$")
]
WholeSeconds = Annotated[int, Field(ge=0, le=YEAR), READ_INTEGER, OrText(r"^(0|[1-9][0-9]{0,6})$")]
Attempts = Annotated[int, Field(ge=1, le=1000), READ_INTEGER, OrText(r"^[1-9][0-9]{0,2}$")]
QueueName = Annotated[
    str, StringConstraints(min_length=1, max_length=250, pattern=r"^[^/%&<>\x00]+$")
]
"""What Prefect takes for the name of a work queue."""
QueuePriority = Annotated[
    int, Field(ge=1, le=1_000_000), READ_INTEGER, OrText(r"^[1-9][0-9]{0,5}$")
]
TIMES = ("interv", "cron", "timezone", "delay", "deadline_offset")


class TemplateBody(LabelledBody):
    """A run template. Its natural key is its name within its company.

    The application is `app_id`, `app_uuid` or `app` (its name); the company `company_id` or
    `company` (its slug).
    """

    app_id: Ref | None = None
    app_uuid: str | None = None
    app: str | None = None
    company_id: Ref | None = None
    company: str | None = None
    name: Name | None = None
    active: Truth = True
    interv: Annotated[str, WithJsonSchema({"type": "string", "enum": [*CODES]})] = "n"
    cron: ShortText | None = None
    timezone: ShortText | None = None
    delay: WholeSeconds = 0
    executor: ExecutorName = "Native"
    executors: list[ExecutorName] = Field(
        default_factory=list, max_length=20, json_schema_extra={"uniqueItems": True}
    )
    executor_settings: SettingsBody = Field(default_factory=dict)
    pool: Name | None = None
    queue: QueueName | None = None
    queue_priority: QueuePriority | None = None
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
    on_closed: OnClosed = OnClosed.EXCUSE
    note: LongText | None = None
    topics: TopicRefs = Field(default_factory=list)
    calendars: CalendarRefs = Field(default_factory=list)
    retention: RetentionBody = Field(default_factory=RetentionBody)
    notices: NoticesBody | None = None
    success: Actions = Field(default_factory=ActionsBody)
    fail: Actions = Field(default_factory=ActionsBody)
    env: dict[str, Any] = Field(default_factory=dict)
    credentials: list[CredentialRef] = Field(default_factory=list, max_length=50)
    blocks: list[BlockBody] = Field(default_factory=list, max_length=20)


REFERENCES = frozenset({"app_id", "app_uuid", "app", "company_id", "company"})
APART = {
    *REFERENCES,
    *("env", "credentials", "blocks", "topics", "calendars", "success", "fail", "notices"),
}


CONFIGURE = "companies", "update"
"""The permission to say what a company's run templates run, and how; a `user` runs them."""
OPERATED = frozenset({"active", "note"})
"""Members that `jobs.update` is enough for."""


def write_template(write: Write) -> Written:
    """A run template, known by its name within its company.

    Raises:
        Forbidden: who asks may only run it, or would choose an executor that isolates nothing.
        InvalidInput: with every fault.
    """
    body = parse_body(TemplateBody, write.fields)
    company = company_of_body(write, body.company_id, body.company)
    template = _known_template(write, body, company)
    owner = company or (template.company if template else None)
    app = _app_of(write, body, owner)
    created = template is None
    if template is None:
        said = body.app_id or body.app_uuid or body.app
        require_all({"name": body.name, "app_id": said, "company_id": company})
        template = RunTemplate(
            env={}, secrets={}, success={}, fail={}, action_secrets={}, assignments=[],
            notices={}, notice_secrets={},
        )  # fmt: skip
    else:
        _require_configuring(write, template, body, app, company)
    moved = company is not None and company is not template.company
    if company is not None and moved:
        allow(write.who, *CONFIGURE, company.id)
    if owner is not None and (app or moved):
        require_accessible(write, app or template.app, owner, "/app_id")
    exposed_before = frozenset() if created else exposed(template)
    if created:
        write.session.add(template)
    template.app = app or template.app
    template.company = company or template.company
    on_closed_before = template.on_closed
    take(template, body, except_for=APART)
    closed_anew = template.on_closed != on_closed_before
    require_isolation(write.who, template, exposed_before)
    _take_provisions(write, template, body)
    if "calendars" in body.model_fields_set:
        closed_anew |= take_calendars(write, template, body.calendars)
    _check(template, write.settings.timezone)
    definition = parse(template.app.document)
    rules = ValueRules(definition, write.settings.extra_env)
    take_values(template, body.env, definition.secret_keys, write.box, rules)
    given = {mode: getattr(body, mode) for mode in ActionMode if mode in body.model_fields_set}
    take_actions(write, template, given)
    said = "notices" in body.model_fields_set
    warnings = take_notices(write, template, body.notices) if said else []
    keep_windows(write.session, template, write.settings, closed_anew=closed_anew)
    wish(write.session, WishKind.APPLY_TEMPLATE, template.id)
    warnings += short_secrets(body.env, definition.secret_keys)
    warnings += doubtful_values(body.env, definition)
    return Written(template, created, [*assignment_warnings(write, template), *warnings])


def _require_configuring(
    write: Write,
    template: RunTemplate,
    body: TemplateBody,
    app: App | None,
    company: Company | None,
) -> None:
    """Who changes more than whether it is active, and its note, may configure it.

    Raises:
        Forbidden: naming the members that would change.
    """
    permission = ".".join(CONFIGURE)
    if write.who.rights.may(permission, template.company_id):
        return
    shown = template_record(template, write.settings)
    given = body.model_fields_set - OPERATED - REFERENCES
    changed = {name for name in given if not _is_kept(name, write.fields, body, shown)}
    changed |= {"app_id"} if app not in (None, template.app) else set()
    changed |= {"company_id"} if company not in (None, template.company) else set()
    if changed:
        raise Forbidden(
            f"changing {', '.join(sorted(changed))} of a run template needs the permission "
            f"{permission}; ask an administrator"
        )


def _is_kept(name: str, fields: Fields, body: TemplateBody, shown: Mapping[str, Any]) -> bool:
    """Whether what is given for a member is what the record shows already."""
    if name == "env":
        known = shown["env"]
        return all(
            known.get(key) == (None if value is None else to_text(value))
            for key, value in body.env.items()
        )
    return shown[name] in (fields.get(name), getattr(body, name))


def _take_provisions(write: Write, template: RunTemplate, body: TemplateBody) -> None:
    if "credentials" in body.model_fields_set:
        take_credentials(write, template, body.credentials)
    require_own(template)
    if "blocks" in body.model_fields_set:
        take_blocks(write, template, body.blocks)
    if "topics" in body.model_fields_set:
        take_topics(write, template, body.topics)
    require_own_topics(write, template)


def _app_of(write: Write, body: TemplateBody, company: Company | None) -> App | None:
    """The application that a body names, by name among those its company may use.

    None: it names none, or no company is known.
    """
    if company is None:
        return None
    if body.app_id is not None:
        found = write.session.get(App, body.app_id)
        return visible_definition(write, found, "/app_id", f"there is no app {body.app_id}")
    if body.app_uuid is not None:
        found = queries.app_with_uuid(write.session, body.app_uuid.lower())
        message = f"there is no app with the uuid {body.app_uuid}"
        return visible_definition(write, found, "/app_uuid", message)
    if body.app is not None:
        found = queries.app_usable_as(write.session, body.app, company.id)
        return visible_definition(write, found, "/app", f"there is no app named {body.app}")
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
    require_usable(template)
