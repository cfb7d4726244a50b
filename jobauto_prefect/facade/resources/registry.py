"""The table of resources: names, permissions, lists and writes of each record kind."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, get_args

from jobauto_prefect.facade import formats
from jobauto_prefect.facade.gateway.routes import AUDITED_KINDS
from jobauto_prefect.facade.http.field_types import (
    Convert,
    parse_bool,
    parse_datetime,
    parse_enum,
    parse_int,
    parse_text,
)
from jobauto_prefect.facade.http.requests import Body
from jobauto_prefect.facade.models.audit_entries import AuditAction
from jobauto_prefect.facade.models.catalog import KINDS
from jobauto_prefect.facade.models.common import RecordKind
from jobauto_prefect.facade.serializers.common import JsonObject
from jobauto_prefect.facade.serializers.definitions import (
    serialize_app,
    serialize_calendar,
    serialize_company,
    serialize_credential,
    serialize_credential_type,
    serialize_template,
    serialize_topic,
)
from jobauto_prefect.facade.serializers.events import (
    serialize_event,
    serialize_rule,
    serialize_source,
)
from jobauto_prefect.facade.serializers.jobs import serialize_job, serialize_task
from jobauto_prefect.facade.serializers.users import serialize_audit_entry, serialize_user
from jobauto_prefect.facade.writes.applications import write_app
from jobauto_prefect.facade.writes.base import WriteRequest, WriteResult
from jobauto_prefect.facade.writes.calendars import CalendarBody, write_calendar
from jobauto_prefect.facade.writes.companies import CompanyBody, write_company
from jobauto_prefect.facade.writes.credential_types import CredentialTypeBody, write_credential_type
from jobauto_prefect.facade.writes.credentials import (
    CredentialBody,
    TopicBody,
    write_credential,
    write_topic,
)
from jobauto_prefect.facade.writes.events import RuleBody, SourceBody, write_rule, write_source
from jobauto_prefect.facade.writes.jobs import JobBody, write_job
from jobauto_prefect.facade.writes.run_templates import TemplateBody, write_template
from jobauto_prefect.facade.writes.users import UserBody, write_user
from jobauto_prefect.ledger.events.deliveries import EventKind
from jobauto_prefect.ledger.queries import lists
from jobauto_prefect.ledger.queries.lists import Condition
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

    def shown(self, name: str) -> formats.ListFilter:
        """Return the filter as pages offer it."""
        kind: Literal["text", "choice", "time", "number"] = "choice" if self.choices else "text"
        if self.convert is parse_int and self.refers_to is None:
            kind = "number"
        if self.convert is parse_datetime:
            kind = "time"
        return formats.ListFilter(name, formats.field_label(name), self.choices, kind)

    def condition(self, name: str, given: str) -> Condition:
        """Return the condition a request asks for. Raises InvalidInput."""
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
    definitions; `aliases` are other names that some of its fields have. `put`: PUT does what POST
    does to a record's path; `listed_at_item`: GET at the path for new records is the list. Both
    are there for one client.
    """

    record_kind: RecordKind
    parameter: str
    kind: type[Any]
    permissions: str
    show: Callable[..., JsonObject]
    write: Callable[[WriteRequest], WriteResult] | None = None
    deletable: bool = True
    paged: bool = False
    filters: Mapping[str, Filter] = field(default_factory=dict)
    body: type[Body] | None = None
    aliases: Mapping[str, str] = field(default_factory=dict)
    put: bool = False
    listed_at_item: bool = False

    @property
    def item(self) -> str:
        """The resource's name in paths of records: `runtemplate`."""
        return self.record_kind.item

    @property
    def collection(self) -> str:
        """The resource's name in paths of lists: `runtemplates`."""
        return self.record_kind.collection

    @property
    def orders(self) -> Sequence[str]:
        """The fields a list can be ordered by: the stored ones that are no text for people."""
        return [name for name in lists.orderable(self.kind) if name not in NOT_SHOWN]

    @property
    def read(self) -> str:
        """The permission that reading takes."""
        return "security.audit" if self.permissions == "security" else f"{self.permissions}.read"


def _reference(column: str) -> Filter:
    return Filter(column, parse_int, refers_to=REFERRED.get(column))


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
    return Filter(column, parse_enum(choices), choices=choices)


ENTITIES = (
    "App", "AuditTrail", "Backup", "Calendar", "Company", "CompanyUser", "Credential",
    "CredentialType", "EventRule", "EventSource", "Freeze", "Job", "Key", "RunTemplate",
    "RunTemplateCredential", "Task", "Token",
    "Topic", "User", "UserRole", "Login", "Worker", *(f"Prefect {kind}" for kind in AUDITED_KINDS),
)  # fmt: skip

RESOURCES: Sequence[Resource] = (
    Resource(
        KINDS["app"], "appId", App, "applications", serialize_app, write_app,
        filters={"enabled": Filter("enabled", parse_bool), "company_id": _reference("company_id")},
    ),
    Resource(
        KINDS["company"], "companyId", Company, "companies", serialize_company,
        write_company,
        filters={"enabled": Filter("enabled", parse_bool)},
        body=CompanyBody,
    ),
    Resource(
        KINDS["runtemplate"], "runTemplateId", RunTemplate, "jobs",
        serialize_template, write_template,
        filters={
            "app_id": _reference("app_id"),
            "company_id": _reference("company_id"),
            "active": Filter("active", parse_bool),
        },
        body=TemplateBody, aliases={"iterv": "interv"}, listed_at_item=True,
    ),
    Resource(
        KINDS["job"], "jobId", Job, "jobs", serialize_job, write_job, paged=True,
        filters={
            "state": _choice("state", tuple(JobState)),
            "runtemplate_id": _reference("runtemplate_id"),
            "company_id": _reference("company_id"),
            "app_id": _reference("app_id"),
            "from": Filter("schedule", parse_datetime, "ge"),
            "to": Filter("schedule", parse_datetime, "lt"),
        },
        body=JobBody,
    ),
    Resource(
        KINDS["user"], "userId", User, "users", serialize_user, write_user,
        filters={"enabled": Filter("enabled", parse_bool), "login": Filter("login", parse_text)},
        body=UserBody,
    ),
    Resource(
        KINDS["credential"], "credentialId", Credential, "companies",
        serialize_credential, write_credential,
        filters={
            "company_id": _reference("company_id"),
            "credential_type_id": _reference("credential_type_id"),
        },
        body=CredentialBody,
    ),
    Resource(
        KINDS["credential_type"], "credentialTypeID", CredentialType,
        "applications", serialize_credential_type, write_credential_type,
        filters={"company_id": _reference("company_id")},
        body=CredentialTypeBody,
    ),
    Resource(
        KINDS["topic"], "topicId", Topic, "applications", serialize_topic,
        write_topic,
        filters={"company_id": _reference("company_id")},
        body=TopicBody,
    ),
    Resource(
        KINDS["calendar"], "calendarId", Calendar, "applications",
        serialize_calendar, write_calendar,
        filters={"country": Filter("country", parse_text)},
        body=CalendarBody,
    ),
    Resource(
        KINDS["task"], "taskId", Task, "jobs", serialize_task,
        deletable=False, paged=True,
        filters={
            "state": _choice("state", tuple(TaskState)),
            "runtemplate_id": _reference("runtemplate_id"),
            "from": Filter("window_start", parse_datetime, "ge"),
            "to": Filter("window_start", parse_datetime, "lt"),
        },
    ),
    Resource(
        KINDS["auditlog"], "auditLogId", AuditEntry, "security",
        serialize_audit_entry, deletable=False, paged=True,
        filters={
            "user_id": _reference("user_id"),
            "entity_type": _choice("entity_type", ENTITIES),
            "entity_id": _reference("entity_id"),
            "action": _choice("action", get_args(AuditAction)),
            "from": Filter("created_at", parse_datetime, "ge"),
            "to": Filter("created_at", parse_datetime, "lt"),
        },
    ),
    Resource(
        KINDS["eventrule"], "eventRuleId", EventRule, "jobs", serialize_rule,
        write_rule,
        filters={
            "runtemplate_id": _reference("runtemplate_id"),
            "event_source_id": _reference("event_source_id"),
            "enabled": Filter("enabled", parse_bool),
        },
        body=RuleBody, put=True,
        aliases={
            "source_runtemplate_id": "runtemplate_source_id",
            "target_runtemplate_id": "runtemplate_id",
        },
    ),
    Resource(
        KINDS["eventsource"], "eventSourceId", EventSource, "companies",
        serialize_source, write_source,
        filters={"enabled": Filter("enabled", parse_bool), "company_id": _reference("company_id")},
        body=SourceBody,
    ),
    Resource(
        KINDS["event"], "eventId", Event, "jobs", serialize_event, deletable=False,
        paged=True,
        filters={
            "state": _choice("state", ("done", "owed", "dead")),
            "kind": _choice("kind", tuple(EventKind)),
            "event_source_id": _reference("event_source_id"),
            "runtemplate_id": _reference("runtemplate_id"),
            "company_id": _reference("company_id"),
            "evidence": Filter("evidence", parse_text),
            "from": Filter("created_at", parse_datetime, "ge"),
            "to": Filter("created_at", parse_datetime, "lt"),
        },
    ),
)  # fmt: skip
BY_ITEM: Mapping[str, Resource] = {resource.item: resource for resource in RESOURCES}
