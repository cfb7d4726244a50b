"""The table of resources: names, permissions, lists and writes of each record kind."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, TypeVar

from jobauto_prefect.errors import Fault, InvalidInput
from jobauto_prefect.facade import records, rendering
from jobauto_prefect.facade.gateway.kinds import CHANGED_KINDS
from jobauto_prefect.facade.requests import Body
from jobauto_prefect.facade.spellings import as_instant, as_integer, as_truth
from jobauto_prefect.facade.writes.applications import write_app
from jobauto_prefect.facade.writes.base import Write, Written
from jobauto_prefect.facade.writes.calendars import CalendarBody, write_calendar
from jobauto_prefect.facade.writes.companies import CompanyBody, write_company
from jobauto_prefect.facade.writes.credential_types import (
    CredentialTypeBody,
    write_credential_type,
)
from jobauto_prefect.facade.writes.credentials import (
    CredentialBody,
    TopicBody,
    write_credential,
    write_topic,
)
from jobauto_prefect.facade.writes.events import RuleBody, SourceBody, write_rule, write_source
from jobauto_prefect.facade.writes.jobs import JobBody, write_job
from jobauto_prefect.facade.writes.templates import TemplateBody, write_template
from jobauto_prefect.facade.writes.users import UserBody, write_user
from jobauto_prefect.ledger import listing
from jobauto_prefect.ledger.base import BIGGEST_ID
from jobauto_prefect.ledger.deliveries import EventKind
from jobauto_prefect.ledger.listing import Condition
from jobauto_prefect.ledger.records import (
    App,
    AuditEntry,
    Calendar,
    Company,
    Credential,
    CredentialType,
    Event,
    EventRule,
    EventSource,
    Job,
    RunTemplate,
    Task,
    Topic,
    User,
)
from jobauto_prefect.ledger.states import JobState, TaskState

Convert = Callable[[str, Any], Any]
"""Name of a field and what was given to its value. Raises InvalidInput."""
T = TypeVar("T")


def _reader(read: Callable[[Any], T]) -> Callable[[str, Any], T]:
    def convert(name: str, given: Any) -> T:
        try:
            return read(given)
        except ValueError as error:
            raise InvalidInput([Fault(f"/{name}", "type", f"{name} {error}")]) from None

    return convert


def _whole(given: Any) -> int:
    number = as_integer(given)
    if 0 <= number <= BIGGEST_ID:
        return number
    raise ValueError(f"must be from 0 to {BIGGEST_ID}")


integer = _reader(_whole)
"""A number of a record."""
truth = _reader(as_truth)
"""A yes or no."""
instant = _reader(as_instant)
"""A time."""


def one_of(choices: Sequence[str]) -> Convert:
    """One of some words."""

    def convert(name: str, given: str) -> str:
        if given in choices:
            return given
        message = f"{name} must be one of {', '.join(choices)}"
        raise InvalidInput([Fault(f"/{name}", "enum", message)])

    return convert


def words(name: str, given: str) -> str:
    """Any text without NUL."""
    if "\0" in given or len(given) > 255:
        raise InvalidInput([Fault(f"/{name}", "text", f"{name} can't be looked for")])
    return given


@dataclass(frozen=True, slots=True)
class Filter:
    """A query parameter of a list: the column it looks at, and how.

    `refers_to` is the kind of record whose id or name it is.
    """

    column: str
    convert: Convert
    how: str = "eq"
    choices: Sequence[str] = ()
    refers_to: type[Any] | None = None

    def shown(self, name: str) -> rendering.Filter:
        """As pages offer it."""
        kind: Literal["text", "choice", "time", "number"] = "choice" if self.choices else "text"
        if self.convert is integer and self.refers_to is None:
            kind = "number"
        if self.convert is instant:
            kind = "time"
        return rendering.Filter(name, rendering.label(name), self.choices, kind)

    def condition(self, name: str, given: str) -> Condition:
        """The condition a request asks for. Raises InvalidInput."""
        return Condition(self.column, self.convert(name, given), self.how)


NOT_SHOWN = frozenset(
    {
        "applied_paused", "automation_id", "block_document_id", "block_type_id", "catch_up",
        "claim_id", "deployment_id", "digest", "flow_id", "flow_name", "kept_schedule",
        "next_schedule", "next_window", "retired_at", "run_number", "start_after", "traceparent",
        "worker_losses",
    }
)  # fmt: skip
"""Stored columns that no record shows."""


@dataclass(frozen=True, slots=True)
class Resource:
    """One record kind.

    `parameter` is the query parameter that may name the record in an upsert. `permissions` is
    the first part of its permissions' names; `audit` is read with `security.audit`. `paged` lists
    come newest first, 100 at a time; the others whole. `body` is what clients write, None for
    definitions; `aliases` are other names that some of its members have. `put`: PUT does what POST
    does to a record's path; `listed_at_item`: GET at the path for new records is the list. Both
    are there for one client.
    """

    item: str
    collection: str
    parameter: str
    kind: type[Any]
    permissions: str
    show: Callable[..., records.Shown]
    write: Callable[[Write], Written] | None = None
    deletable: bool = True
    paged: bool = False
    filters: Mapping[str, Filter] = field(default_factory=dict)
    columns: Sequence[str] = ()
    body: type[Body] | None = None
    aliases: Mapping[str, str] = field(default_factory=dict)
    put: bool = False
    listed_at_item: bool = False

    @property
    def orders(self) -> Sequence[str]:
        """The members a list can be ordered by: the stored ones that are no text for people."""
        return [name for name in listing.orderable(self.kind) if name not in NOT_SHOWN]

    @property
    def read(self) -> str:
        """The permission that reading takes."""
        return "security.audit" if self.permissions == "security" else f"{self.permissions}.read"


def _reference(column: str) -> Filter:
    return Filter(column, integer, refers_to=REFERRED.get(column))


REFERRED: Mapping[str, type[Any]] = {
    "app_id": App,
    "company_id": Company,
    "credential_type_id": CredentialType,
    "event_source_id": EventSource,
    "runtemplate_id": RunTemplate,
    "user_id": User,
}
"""The kinds of records that filters name by id or by name."""


def _choice(column: str, choices: Sequence[str]) -> Filter:
    return Filter(column, one_of(choices), choices=choices)


ENTITIES = (
    "App", "AuditTrail", "Backup", "Calendar", "Company", "CompanyUser", "Credential",
    "CredentialType", "EventRule", "EventSource", "Freeze", "Job", "Key", "RunTemplate",
    "RunTemplateCredential", "Task", "Token",
    "Topic", "User", "UserRole", "Login", "Worker", *(f"Prefect {kind}" for kind in CHANGED_KINDS),
)  # fmt: skip
ACTIONS = (
    "create", "update", "delete", "login", "refuse", "reveal", "intend", "fail", "lost", "archive",
    "restore",
)  # fmt: skip

RESOURCES: Sequence[Resource] = (
    Resource(
        "app", "apps", "appId", App, "applications", records.app_record, write_app,
        filters={"enabled": Filter("enabled", truth), "company_id": _reference("company_id")},
        columns=(
            "id", "name", "version", "description", "category", "enabled", "company_id",
            "updated_at",
        ),
    ),
    Resource(
        "company", "companies", "companyId", Company, "companies", records.company_record,
        write_company,
        filters={"enabled": Filter("enabled", truth)},
        columns=("id", "name", "slug", "email", "enabled", "updated_at"),
        body=CompanyBody,
    ),
    Resource(
        "runtemplate", "runtemplates", "runTemplateId", RunTemplate, "jobs",
        records.template_record, write_template,
        filters={
            "app_id": _reference("app_id"),
            "company_id": _reference("company_id"),
            "active": Filter("active", truth),
        },
        columns=("id", "name", "app_id", "company_id", "interv", "cron", "active", "updated_at"),
        body=TemplateBody, aliases={"iterv": "interv"}, listed_at_item=True,
    ),
    Resource(
        "job", "jobs", "jobId", Job, "jobs", records.job_record, write_job, paged=True,
        filters={
            "state": _choice("state", tuple(JobState)),
            "runtemplate_id": _reference("runtemplate_id"),
            "company_id": _reference("company_id"),
            "app_id": _reference("app_id"),
            "from": Filter("schedule", instant, "ge"),
            "to": Filter("schedule", instant, "lt"),
        },
        columns=(
            "id", "runtemplate_id", "company_id", "state", "severity", "exitcode", "message",
            "begin", "end",
        ),
        body=JobBody,
    ),
    Resource(
        "user", "users", "userId", User, "users", records.user_record, write_user,
        filters={"enabled": Filter("enabled", truth), "login": Filter("login", words)},
        columns=("id", "login", "firstname", "lastname", "email", "enabled", "roles"),
        body=UserBody,
    ),
    Resource(
        "credential", "credentials", "credentialId", Credential, "companies",
        records.credential_record, write_credential,
        filters={
            "company_id": _reference("company_id"),
            "credential_type_id": _reference("credential_type_id"),
        },
        columns=("id", "name", "company_id", "credential_type_id", "updated_at"),
        body=CredentialBody,
    ),
    Resource(
        "credential_type", "credential_types", "credentialTypeID", CredentialType,
        "applications", records.credential_type_record, write_credential_type,
        filters={"company_id": _reference("company_id")},
        columns=("id", "name", "code", "version", "description", "company_id", "updated_at"),
        body=CredentialTypeBody,
    ),
    Resource(
        "topic", "topics", "topicId", Topic, "applications", records.topic_record, write_topic,
        filters={"company_id": _reference("company_id")},
        columns=("id", "name", "description", "color", "company_id"),
        body=TopicBody,
    ),
    Resource(
        "calendar", "calendars", "calendarId", Calendar, "applications", records.calendar_record,
        write_calendar,
        filters={"country": Filter("country", words)},
        columns=("id", "name", "country", "subdivision", "timezone", "updated_at"),
        body=CalendarBody,
    ),
    Resource(
        "task", "tasks", "taskId", Task, "jobs", records.task_record, deletable=False, paged=True,
        filters={
            "state": _choice("state", tuple(TaskState)),
            "runtemplate_id": _reference("runtemplate_id"),
            "from": Filter("window_start", instant, "ge"),
            "to": Filter("window_start", instant, "lt"),
        },
        columns=("id", "runtemplate_id", "window_start", "window_end", "state", "attempts"),
    ),
    Resource(
        "auditlog", "auditlog", "auditLogId", AuditEntry, "security", records.audit_record,
        deletable=False, paged=True,
        filters={
            "user_id": _reference("user_id"),
            "entity_type": _choice("entity_type", ENTITIES),
            "entity_id": _reference("entity_id"),
            "action": _choice("action", ACTIONS),
            "from": Filter("created_at", instant, "ge"),
            "to": Filter("created_at", instant, "lt"),
        },
        columns=("id", "created_at", "actor", "door", "entity_type", "entity_id", "action"),
    ),
    Resource(
        "eventrule", "eventrules", "eventRuleId", EventRule, "jobs", records.rule_record,
        write_rule,
        filters={
            "runtemplate_id": _reference("runtemplate_id"),
            "event_source_id": _reference("event_source_id"),
            "enabled": Filter("enabled", truth),
        },
        columns=(
            "id", "event_source_id", "runtemplate_source_id", "evidence", "operation",
            "runtemplate_id", "enabled", "priority",
        ),
        body=RuleBody, put=True,
        aliases={
            "source_runtemplate_id": "runtemplate_source_id",
            "target_runtemplate_id": "runtemplate_id",
        },
    ),
    Resource(
        "eventsource", "eventsources", "eventSourceId", EventSource, "companies",
        records.source_record, write_source,
        filters={"enabled": Filter("enabled", truth), "company_id": _reference("company_id")},
        columns=("id", "name", "adapter_type", "db_connection", "db_host", "enabled", "company_id"),
        body=SourceBody,
    ),
    Resource(
        "event", "events", "eventId", Event, "jobs", records.event_record, deletable=False,
        paged=True,
        filters={
            "state": _choice("state", ("done", "owed", "dead")),
            "kind": _choice("kind", tuple(EventKind)),
            "event_source_id": _reference("event_source_id"),
            "runtemplate_id": _reference("runtemplate_id"),
            "company_id": _reference("company_id"),
            "evidence": Filter("evidence", words),
            "from": Filter("created_at", instant, "ge"),
            "to": Filter("created_at", instant, "lt"),
        },
        columns=(
            "id", "created_at", "kind", "event_source_id", "runtemplate_id", "evidence",
            "operation", "record_id", "state",
        ),
    ),
)  # fmt: skip
BY_ITEM: Mapping[str, Resource] = {resource.item: resource for resource in RESOURCES}
