"""Run templates, as shown and written."""

from collections.abc import Mapping, Sequence
from typing import Annotated, Any, ClassVar, Literal

from pydantic import Field, WithJsonSchema

from jobauto_prefect.compiler.scheduling.schedule import CODES
from jobauto_prefect.compiler.scheduling.schedule_errors import schedule_faults, unused_cron
from jobauto_prefect.definitions import (
    Backoff,
    ContactLost,
    Misfire,
    OnClosed,
    Overlap,
    to_text,
)
from jobauto_prefect.definitions.records.actions import Action, ActionMode
from jobauto_prefect.definitions.records.value_rules import ValueRules
from jobauto_prefect.definitions.values import MASK
from jobauto_prefect.errors import Fault, Forbidden, InvalidInput
from jobauto_prefect.facade.answers import (
    JsonObject,
    Labelled,
    isoformat,
    prefect_link,
    serialize_fields,
)
from jobauto_prefect.facade.http.field_types import (
    READ_INTEGER,
    READ_NUMBER,
    Boolean,
    OrText,
    parse_bool,
    parse_int,
    parse_text,
)
from jobauto_prefect.facade.http.requests import Fields
from jobauto_prefect.facade.http.requests import parse as parse_body
from jobauto_prefect.facade.kinds.calendars import CalendarRefs, apply_calendars
from jobauto_prefect.facade.kinds.resource import NAME, Filter, Resource, body_link, reference
from jobauto_prefect.facade.kinds.topics import TopicRefs, apply_topics, require_own_topics
from jobauto_prefect.facade.writes.actions import Actions, ActionsBody, apply_actions
from jobauto_prefect.facade.writes.assignments import (
    BlockBody,
    CredentialRef,
    TemplateBlock,
    apply_blocks,
    apply_credentials,
    assignment_warnings,
    require_own_credentials,
)
from jobauto_prefect.facade.writes.base import (
    CompanySlug,
    LabelledBody,
    Name,
    Note,
    RecordName,
    Ref,
    ShortText,
    WriteRequest,
    WriteResult,
    apply_env,
    apply_fields,
    collected,
    require_values,
    resolve_company,
)
from jobauto_prefect.facade.writes.env import StoredValues, address_warnings, short_secret_warnings
from jobauto_prefect.facade.writes.executors import (
    ExecutorName,
    require_usable_executors,
    settle_template_approval,
    unapproved_when_written,
)
from jobauto_prefect.facade.writes.notices import (
    Notices,
    NoticesBody,
    apply_notices,
    serialize_notices,
)
from jobauto_prefect.facade.writes.ownership import require_accessible, require_visible_definition
from jobauto_prefect.facade.writes.retention import RetentionBody, authorize_retention
from jobauto_prefect.facade.writes.vouchers import vouch_for_moved
from jobauto_prefect.jobs.windows.due_windows import keep_windows
from jobauto_prefect.kinds import KINDS
from jobauto_prefect.ledger import records
from jobauto_prefect.ledger.outbox import OutboxKind, enqueue
from jobauto_prefect.ledger.queries.applications import app_usable_as, app_with_uuid
from jobauto_prefect.ledger.queries.names import template_named
from jobauto_prefect.ledger.queries.run_templates import work_of_templates
from jobauto_prefect.ledger.queries.topics import topics_of
from jobauto_prefect.ledger.records import (
    App,
    Company,
)
from jobauto_prefect.ledger.store import ReadingSession
from jobauto_prefect.runtime.executors.registry import settings_schema
from jobauto_prefect.settings import Settings
from jobauto_prefect.text_patterns import matching

Bound = Literal["jobs_days", "jobs_count", "output_days", "runs_days", "tasks_days"]


class RunTemplate(Labelled):
    """How a company runs an application: when, where and with which values."""

    app_id: int = Field(description="The application.")
    company_id: int = Field(description="The company.")
    name: str = Field(description="Its name.")
    active: bool = Field(description="Whether the run template starts jobs.")
    interv: Literal["n", "i", "h", "d", "w", "m", "y", "c"] = Field(
        title="Interval",
        description="How often it runs: n never, i every minute, h hour, d day, w week, m month, y "
        "year, c by `cron`.",
    )
    cron: str | None = Field(
        description="Cron expression with five fields, or a nickname such as `@daily`, for the "
        "interval `c`."
    )
    timezone: str | None = Field(
        description="IANA name of the time zone of its schedule; null: the company's, else the "
        "service's."
    )
    delay: int = Field(description="Seconds from the start of a window to the start of its job.")
    executor: str = Field(
        description="What runs the command: Native, Docker, Podman, Kubernetes, or an executor "
        "that a package adds."
    )
    executors: list[str] = Field(
        description="Executors that a job may name instead of `executor`; empty: none."
    )
    executor_settings: dict[str, Any] = Field(
        description="Settings of executors. An executor ignores the settings of other executors, "
        "so you can change `executor` without changing the settings. Replaced as a "
        "whole."
    )
    pool: str | None = Field(description="The work pool; null: the service's default.")
    queue: str | None = Field(
        description="The work queue in its work pool; null: the default queue."
    )
    queue_priority: int | None = Field(
        description="Priority of its queue. When workers are busy, jobs of the queue with the "
        "lowest number start first; null: the priority stays as it is."
    )
    timeout_seconds: float | None = Field(
        description="Seconds a job may run; null: the service's default."
    )
    deadline_offset: str | None = Field(
        description="Deadline of a window: a time after its start (`+3h`, `+1h30m`), or the next "
        "occurrence of a time of day (`HH:MM`); null: the end of the window."
    )
    allow_late: bool = Field(
        description="Whether a success after the deadline counts as `fulfilled_late` rather than "
        "`failed`."
    )
    max_attempts: int | None = Field(
        description="Maximum number of attempts for a window, including the first; null: 3. Only "
        "some ends are retried."
    )
    retry_backoff: Backoff = Field(
        description="How the wait between attempts grows. `none`, `fixed`: the wait stays the "
        "same; `linear`: it grows by `retry_min_gap` with each attempt; "
        "`exponential`: it doubles with each attempt."
    )
    retry_min_gap: int = Field(description="Minimum seconds between two attempts.")
    retry_undeclared: bool = Field(
        description="Whether to retry after a non-zero exit code that the definition does not "
        "declare."
    )
    overlap: Overlap = Field(
        description="What happens if a window opens while a job of an earlier window still runs. "
        "`wait`: the new job starts after the earlier job has ended; `skip`: the new "
        "window is skipped; `parallel`: both run."
    )
    misfire: Misfire = Field(
        description="Which windows that passed during an outage run afterwards: the `latest` one, "
        "`all`, or none (`skip`)."
    )
    on_contact_lost: ContactLost = Field(
        description="What happens to a job whose worker has no contact with the service for one "
        "lease: `finish` lets it run, `stop` ends it."
    )
    on_closed: OnClosed = Field(
        description="What happens to windows whose jobs would start in closed time. `excuse`: all "
        "are excused; `move`: when the closed time ends, the newest one runs, and the "
        "others are excused. With `move` and `misfire` `all`, all of them run, in "
        "order."
    )
    note: str | None = Field(description="Free text.")
    topics: list[str] = Field(
        description="Names of its topics. In requests: names or ids; a name means the company's "
        "own topic; if there is none, the shared one."
    )
    calendars: list[str] = Field(
        description="Names of the calendars that close windows of the run template. In requests:"
        " names or ids."
    )
    all_topics: list[str] | None = Field(
        default=None,
        description="Its own topics, its application's and its company's, without duplicates; not "
        "in lists.",
    )
    retention: dict[Bound, int] = Field(
        description="Its own retention limits; 0: no limit. Days to keep ended jobs "
        "(`jobs_days`), their output (`output_days`), their flow runs in Prefect "
        "(`runs_days`) and tasks (`tasks_days`); number of ended jobs to keep "
        "(`jobs_count`)."
    )
    notices: Notices = Field(
        description="Who is notified about the run template's jobs, by channel. If a channel is"
        " left out, the company's setting applies. Replaced as a whole."
    )
    success: dict[Action, dict[str, Any]] = Field(
        description="Actions after a success or a warning, by name."
    )
    fail: dict[Action, dict[str, Any]] = Field(description="Actions after an error, by name.")
    env: dict[str, str] = Field(
        title="Environment",
        description="Values by environment key; secret ones are masked in answers. null removes a "
        "value.",
    )
    credentials: list[int] = Field(
        description="The credentials whose values its jobs get. If two credentials set the same "
        "key, the later one wins."
    )
    blocks: list[TemplateBlock] = Field(
        description="Prefect blocks that the service does not manage; naming them needs "
        "`system.config`."
    )
    prefect_url: str | None = Field(
        description="Address of its page in Prefect's UI; null: it is not in Prefect yet."
    )


SettingsBody = Annotated[dict[str, Any], WithJsonSchema(settings_schema())]


YEAR = 365 * 24 * 3600  # seconds


Seconds = Annotated[
    float, Field(gt=0, le=YEAR), READ_NUMBER, OrText(r"^[1-9][0-9]{0,6}(\.[0-9]{1,6})?$")
]


WholeSeconds = Annotated[int, Field(ge=0, le=YEAR), READ_INTEGER, OrText(r"^(0|[1-9][0-9]{0,6})$")]


Attempts = Annotated[int, Field(ge=1, le=1000), READ_INTEGER, OrText(r"^[1-9][0-9]{0,2}$")]


QueueName = Annotated[
    str,
    matching(r"^[^/%&<>\x00]+$", "must not contain / % & < > or NUL", min_length=1, max_length=250),
]
"""What Prefect accepts as the name of a work queue."""


QueuePriority = Annotated[
    int, Field(ge=1, le=1_000_000), READ_INTEGER, OrText(r"^[1-9][0-9]{0,5}$")
]


TIMES = ("interv", "cron", "timezone", "delay", "deadline_offset")


class TemplateBody(LabelledBody):
    """A run template. Its natural key is its name within its company.

    The application is `app_id`, `app_uuid` or `app` (its name); the company `company_id` or
    `company` (its slug).
    """

    record: ClassVar = RunTemplate

    app_id: Ref | None = None
    app_uuid: str | None = Field(
        default=None, description="UUID of the application, instead of `app_id`."
    )
    app: str | None = Field(
        default=None, description="Name of the application, instead of `app_id`."
    )
    company_id: Ref | None = None
    company: CompanySlug = None
    name: RecordName | None = None
    active: Boolean = True
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
    allow_late: Boolean = False
    max_attempts: Attempts | None = None
    retry_backoff: Backoff = Backoff.NONE
    retry_min_gap: WholeSeconds = 0
    retry_undeclared: Boolean = False
    overlap: Overlap = Overlap.WAIT
    misfire: Misfire = Misfire.LATEST
    on_contact_lost: ContactLost = ContactLost.FINISH
    on_closed: OnClosed = OnClosed.EXCUSE
    note: Note | None = None
    topics: TopicRefs = Field(default_factory=list)
    calendars: CalendarRefs = Field(default_factory=list)
    retention: RetentionBody = Field(default_factory=RetentionBody)
    notices: NoticesBody | None = None
    success: Actions = Field(default_factory=ActionsBody.model_construct)
    fail: Actions = Field(default_factory=ActionsBody.model_construct)
    env: dict[str, Any] = Field(default_factory=dict)
    credentials: list[CredentialRef] = Field(
        default_factory=list,
        max_length=50,
        description="Credentials, by id or by name within the company; they replace the current "
        "ones.",
    )
    blocks: list[BlockBody] = Field(default_factory=list, max_length=20)


REFERENCES = frozenset({"app_id", "app_uuid", "app", "company_id", "company"})


APART = {
    *REFERENCES,
    *("env", "credentials", "blocks", "topics", "calendars", "success", "fail", "notices"),
}


CONFIGURE = "companies", "update"
"""The permission to configure a company's run templates; a `user` only runs them."""


OPERATED = frozenset({"active", "note"})
"""Fields that need only `jobs.update`."""


def write_template(write: WriteRequest) -> WriteResult:
    """Write a run template, identified by its name within its company.

    Raises:
        Forbidden: the user may only run it, or the change needs an administrator.
        InvalidInput: with every error.
    """
    body = parse_body(TemplateBody, write.fields)
    company = resolve_company(write, body.company_id, body.company)
    template = _find_template(write, body, company)
    owner = company or (template.company if template else None)
    app = _resolve_app(write, body, owner)
    created = template is None
    if template is None:
        app_reference = body.app_id or body.app_uuid or body.app
        require_values({"name": body.name, "app_id": app_reference, "company_id": company})
        template = records.RunTemplate(
            env={}, secrets={}, success={}, fail={}, action_secrets={}, assignments=[],
            notices={}, notice_secrets={}, approved={},
        )  # fmt: skip
    else:
        _require_configuring(write, template, body, app, company)
    moved = _authorize_move(write, template, company)
    if owner is not None and (app or moved):
        require_accessible(write, app or template.app, owner, "/app_id")
    unapproved_before = [] if created else unapproved_when_written(write, template)
    if created:
        write.session.add(template)
    template.app = app or template.app
    template.company = company or template.company
    authorize_retention(write, template, body, template.company.id)
    on_closed_before = template.on_closed
    apply_fields(template, body, except_for=APART)
    closed_anew = not created and template.on_closed != on_closed_before
    settle_template_approval(write, template, unapproved_before)
    _apply_provisions(write, template, body, created=created)
    if "calendars" in body.model_fields_set:
        closed_anew |= apply_calendars(write, template, body.calendars)
    _validate(template, write.settings.timezone)
    warnings = _apply_env(write, template, body.env) if body.env else []
    given = {mode: getattr(body, mode) for mode in ActionMode if mode in body.model_fields_set}
    if given or template.success or template.fail:
        apply_actions(write, template, given)
    if "notices" in body.model_fields_set:
        warnings += apply_notices(write, template, body.notices)
    if moved and not created:
        vouch_for_moved(write, template)
    keep_windows(write.session, template, write.settings, closed_anew=closed_anew)
    write.session.flush()  # assigns the id of a new one
    enqueue(write.session, OutboxKind.APPLY_TEMPLATE, template.id)
    if template.assignments or template.app.definition.requirements:
        warnings = assignment_warnings(write, template) + warnings
    if body.model_fields_set & {"interv", "cron"}:
        warnings += unused_cron(template.interv, template.cron)
    return WriteResult(template, created, warnings)


def _authorize_move(
    write: WriteRequest, template: records.RunTemplate, company: Company | None
) -> bool:
    """Return whether a run template moves to another company; require the permission there."""
    if company is None or company is template.company:
        return False
    write.who.rights.require(*CONFIGURE, company.id)
    write.authorize_move(template)
    return True


def _require_configuring(
    write: WriteRequest,
    template: records.RunTemplate,
    body: TemplateBody,
    app: App | None,
    company: Company | None,
) -> None:
    """Require the permission to configure it for changes beyond `active` and the note.

    Raises:
        Forbidden: naming the fields that would change.
    """
    permission = ".".join(CONFIGURE)
    if write.who.rights.may(permission, template.company_id):
        return
    shown = serialize_template(template, write.settings)
    given = body.model_fields_set - OPERATED - REFERENCES
    changed = {name for name in given if not _is_unchanged(name, write.fields, body, shown)}
    changed |= {"app_id"} if app not in (None, template.app) else set()
    changed |= {"company_id"} if company not in (None, template.company) else set()
    if changed:
        raise Forbidden(
            f"changing {', '.join(sorted(changed))} of a run template needs the permission "
            f"{permission}; ask an administrator"
        )


def _is_unchanged(name: str, fields: Fields, body: TemplateBody, shown: Mapping[str, Any]) -> bool:
    """Whether the given value of a field equals the one the record shows."""
    if name == "env":
        stored = shown["env"]
        return all(
            stored.get(key) == (None if value is None else to_text(value))
            for key, value in body.env.items()
        )
    return shown[name] in (fields.get(name), getattr(body, name))


def _apply_env(write: WriteRequest, template: records.RunTemplate, given: Fields) -> list[Fault]:
    """Apply the given values; return warnings for those that can't be right or can't be masked."""
    definition = template.app.definition
    rules = ValueRules(definition, write.settings.extra_env)
    apply_env(template, given, definition.secret_keys, write.box, rules)
    return [
        *short_secret_warnings(given, definition.secret_keys),
        *address_warnings(given, definition),
    ]


def _apply_provisions(
    write: WriteRequest, template: records.RunTemplate, body: TemplateBody, *, created: bool
) -> None:
    """Apply credentials, blocks and topics; those it keeps must exist in its company, too."""
    faults: list[Fault] = []
    with collected(faults):
        if "credentials" in body.model_fields_set:
            apply_credentials(write, template, body.credentials)
        elif not created:
            require_own_credentials(template)
    with collected(faults):
        if "blocks" in body.model_fields_set:
            apply_blocks(write, template, body.blocks)
    with collected(faults):
        if "topics" in body.model_fields_set:
            apply_topics(write, template, body.topics)
        elif not created:
            require_own_topics(write, template)
    if faults:
        raise InvalidInput(faults)


def _resolve_app(write: WriteRequest, body: TemplateBody, company: Company | None) -> App | None:
    """Return the application a body names; by name, only among those its company may use.

    None: it names none, or no company is known.
    """
    if company is None:
        return None
    if body.app_id is not None:
        app = write.session.get(App, body.app_id)
        return require_visible_definition(
            write, app, "/app_id", f"there is no application {body.app_id}"
        )
    if body.app_uuid is not None:
        app = app_with_uuid(write.session, body.app_uuid.lower())
        message = f"there is no application with the uuid {body.app_uuid}"
        return require_visible_definition(write, app, "/app_uuid", message)
    if body.app is not None:
        app = app_usable_as(write.session, body.app, company.id)
        return require_visible_definition(
            write, app, "/app", f"there is no application named {body.app}"
        )
    return None


def _find_template(
    write: WriteRequest, body: TemplateBody, company: Company | None
) -> records.RunTemplate | None:
    if write.record_id is not None or company is None or body.name is None:
        return write.get_for_update(records.RunTemplate, "jobs")
    template = template_named(write.session, company.slug, body.name)
    return write.authorize_update(template, "jobs") if template else None


def _validate(template: records.RunTemplate, zone: str) -> None:
    times = {name: getattr(template, name) for name in TIMES}
    faults = schedule_faults(times, template.company.timezone or zone)
    if faults:
        raise InvalidInput(faults)
    require_usable_executors(template)


def serialize_template(template: records.RunTemplate, settings: Settings) -> JsonObject:
    """Return a run template as answers show it; `env` are its own values, secret ones masked."""
    return serialize_fields(
        RunTemplate,
        template,
        env=StoredValues(template.env, template.secrets).shown(),
        credentials=[assignment.credential_id for assignment in template.assignments],
        notices=serialize_notices(template),
        prefect_url=prefect_link(settings, "deployments/deployment", template.deployment_id),
        **{mode.value: _serialize_actions(template, mode) for mode in ActionMode},
    )


def _serialize_actions(template: records.RunTemplate, mode: ActionMode) -> JsonObject:
    """Return the actions after a job ends; they show that a webhook is signed, not its secret."""
    shown: JsonObject = dict(getattr(template, mode))
    if mode in template.action_secrets:
        shown[Action.WEBHOOK] = shown[Action.WEBHOOK] | {"secret": MASK}
    return shown


def add_job_counts(
    session: ReadingSession, listed: Sequence[records.RunTemplate], shown: Sequence[JsonObject]
) -> None:
    """Add the results of run templates' jobs."""
    templates = {record.id: record for record in listed}
    work_by_template = work_of_templates(session, list(templates))
    for record in shown:
        work = work_by_template[record["id"]]
        record["successfull_jobs_count"] = work.succeeded
        record["failed_jobs_count"] = work.failed
        record["last_schedule"] = isoformat(work.last_schedule)
        record["next_schedule"] = isoformat(templates[record["id"]].next_schedule)


def _all_topics(template: records.RunTemplate) -> JsonObject:
    """Return the topics of a run template, its application and its company."""
    return {"all_topics": [*topics_of(template)]}


RESOURCE = Resource(
    KINDS["runtemplate"], records.RunTemplate, RunTemplate, serialize_template, write_template,
    filters={
        "name": NAME,
        "app_id": reference("app"),
        "company_id": reference("company"),
        "topic": Filter("topics", parse_text, "has"),
        "credential_id": Filter("id", parse_int, "credential", refers_to="credential"),
        "active": Filter("active", parse_bool),
    },
    body=TemplateBody, written=_all_topics, count_work=add_job_counts, listed_at_item=True,
    details=lambda _session, template, _settings: _all_topics(template),
    links={"run": body_link("writeJob", "runtemplate_id")},
)  # fmt: skip
