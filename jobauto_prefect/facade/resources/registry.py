"""The table of resources: names, permissions, lists and writes of each record kind."""

from collections.abc import Mapping, Sequence
from typing import Any, get_args

from jobauto_prefect.definitions.kinds import KINDS
from jobauto_prefect.facade.gateway.routes import AUDITED_KINDS
from jobauto_prefect.facade.http.field_types import (
    parse_bool,
    parse_datetime,
    parse_enum,
    parse_enums,
    parse_int,
    parse_text,
)
from jobauto_prefect.facade.kinds.applications import serialize_app, write_app
from jobauto_prefect.facade.kinds.audit_entries import AuditAction, serialize_audit_entry
from jobauto_prefect.facade.kinds.calendars import CalendarBody, serialize_calendar, write_calendar
from jobauto_prefect.facade.kinds.companies import CompanyBody, serialize_company, write_company
from jobauto_prefect.facade.kinds.credential_types import (
    CredentialTypeBody,
    serialize_credential_type,
    write_credential_type,
)
from jobauto_prefect.facade.kinds.credentials import (
    CredentialBody,
    serialize_credential,
    write_credential,
)
from jobauto_prefect.facade.kinds.event_rules import RuleBody, serialize_rule, write_rule
from jobauto_prefect.facade.kinds.event_sources import SourceBody, serialize_source, write_source
from jobauto_prefect.facade.kinds.events import serialize_event
from jobauto_prefect.facade.kinds.jobs import JobBody, serialize_job, write_job
from jobauto_prefect.facade.kinds.resource import Filter, Resource
from jobauto_prefect.facade.kinds.run_templates import (
    TemplateBody,
    serialize_template,
    write_template,
)
from jobauto_prefect.facade.kinds.tasks import serialize_task
from jobauto_prefect.facade.kinds.topics import TopicBody, serialize_topic, write_topic
from jobauto_prefect.facade.kinds.users import UserBody, serialize_user, write_user
from jobauto_prefect.ledger.events.deliveries import EventKind
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


def _reference(column: str) -> Filter:
    return Filter(column, parse_int, refers_to=REFERRED.get(column))


REFERRED: Mapping[str, type[Any]] = {
    "app_id": App,
    "company_id": Company,
    "credential_type_id": CredentialType,
    "event_source_id": EventSource,
    "runtemplate_id": RunTemplate,
    "runtemplate_source_id": RunTemplate,
    "user_id": User,
}
"""The kinds of records that filters name by id or by name."""


def _choice(column: str, choices: Sequence[str]) -> Filter:
    return Filter(column, parse_enum(choices), choices=choices)


def _choices(column: str, choices: Sequence[str]) -> Filter:
    return Filter(column, parse_enums(choices), choices=choices, several=True)


ENTITIES = (
    "App", "AuditTrail", "Backup", "Calendar", "Company", "CompanyUser", "Credential",
    "CredentialType", "EventRule", "EventSource", "Freeze", "Job", "Key", "RunTemplate",
    "RunTemplateCredential", "Task", "Token",
    "Topic", "User", "UserRole", "Login", "Worker", *(f"Prefect {kind}" for kind in AUDITED_KINDS),
)  # fmt: skip

NAME = Filter("name", parse_text, "contains")
TEMPLATE_NAME = Filter("runtemplate_id", parse_text, "template")

RESOURCES: Sequence[Resource] = (
    Resource(
        KINDS["app"], App, serialize_app, write_app,
        filters={
            "name": NAME,
            "enabled": Filter("enabled", parse_bool),
            "company_id": _reference("company_id"),
        },
    ),
    Resource(
        KINDS["company"], Company, serialize_company,
        write_company,
        filters={"name": NAME, "enabled": Filter("enabled", parse_bool)},
        body=CompanyBody,
    ),
    Resource(
        KINDS["runtemplate"], RunTemplate, serialize_template, write_template,
        filters={
            "name": NAME,
            "app_id": _reference("app_id"),
            "company_id": _reference("company_id"),
            "topic": Filter("topics", parse_text, "has"),
            "credential_id": Filter("id", parse_int, "credential", refers_to=Credential),
            "active": Filter("active", parse_bool),
        },
        body=TemplateBody, listed_at_item=True,
    ),
    Resource(
        KINDS["job"], Job, serialize_job, write_job,
        filters={
            "state": _choices("state", tuple(JobState)),
            "runtemplate_id": _reference("runtemplate_id"),
            "runtemplate": TEMPLATE_NAME,
            "company_id": _reference("company_id"),
            "app_id": _reference("app_id"),
            "from": Filter("schedule", parse_datetime, "ge"),
            "to": Filter("schedule", parse_datetime, "lt"),
            "ended_from": Filter("end", parse_datetime, "ge"),
            "ended_to": Filter("end", parse_datetime, "lt"),
            "message": Filter("message", parse_text, "contains"),
            "worker": Filter("worker", parse_text),
            "retry_of": _reference("retry_of"),
        },
        body=JobBody,
    ),
    Resource(
        KINDS["user"], User, serialize_user, write_user,
        filters={"enabled": Filter("enabled", parse_bool), "login": Filter("login", parse_text)},
        body=UserBody,
    ),
    Resource(
        KINDS["credential"], Credential, serialize_credential, write_credential,
        filters={
            "name": NAME,
            "company_id": _reference("company_id"),
            "credential_type_id": _reference("credential_type_id"),
        },
        body=CredentialBody,
    ),
    Resource(
        KINDS["credential_type"], CredentialType, serialize_credential_type, write_credential_type,
        filters={"company_id": _reference("company_id")},
        body=CredentialTypeBody,
    ),
    Resource(
        KINDS["topic"], Topic, serialize_topic,
        write_topic,
        filters={"company_id": _reference("company_id")},
        body=TopicBody,
    ),
    Resource(
        KINDS["calendar"], Calendar, serialize_calendar, write_calendar,
        filters={"country": Filter("country", parse_text)},
        body=CalendarBody,
    ),
    Resource(
        KINDS["task"], Task, serialize_task,
        filters={
            "state": _choices("state", tuple(TaskState)),
            "runtemplate_id": _reference("runtemplate_id"),
            "runtemplate": TEMPLATE_NAME,
            "company_id": Filter("company_id", parse_int, "company", refers_to=Company),
            "from": Filter("window_start", parse_datetime, "ge"),
            "to": Filter("window_start", parse_datetime, "lt"),
        },
    ),
    Resource(
        KINDS["auditlog"], AuditEntry, serialize_audit_entry,
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
        KINDS["eventrule"], EventRule, serialize_rule,
        write_rule,
        filters={
            "runtemplate_id": _reference("runtemplate_id"),
            "runtemplate_source_id": _reference("runtemplate_source_id"),
            "event_source_id": _reference("event_source_id"),
            "enabled": Filter("enabled", parse_bool),
        },
        body=RuleBody, put=True,
    ),
    Resource(
        KINDS["eventsource"], EventSource, serialize_source, write_source,
        filters={"enabled": Filter("enabled", parse_bool), "company_id": _reference("company_id")},
        body=SourceBody,
    ),
    Resource(
        KINDS["event"], Event, serialize_event,
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
BY_ITEM: Mapping[str, Resource] = {resource.kind.item: resource for resource in RESOURCES}
