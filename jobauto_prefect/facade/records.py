"""How records look to clients."""

import json
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any
from urllib.parse import urlencode

from jobauto_prefect.definitions.actions import Action, ActionMode
from jobauto_prefect.definitions.masks import MASK
from jobauto_prefect.definitions.notices import Channel
from jobauto_prefect.facade.permissions import ABOUT, ROLE_IDS, Role
from jobauto_prefect.facade.values import Values
from jobauto_prefect.jobs import waits
from jobauto_prefect.ledger import queries
from jobauto_prefect.ledger.base import Labelled
from jobauto_prefect.ledger.records import (
    App,
    AppVersion,
    Artifact,
    AuditEntry,
    Calendar,
    Company,
    CompanyUser,
    Credential,
    CredentialType,
    Delivery,
    Event,
    EventRule,
    EventSource,
    Job,
    OutputLine,
    OwedAction,
    RunTemplate,
    Task,
    Token,
    Topic,
    User,
    UserRole,
)
from jobauto_prefect.ledger.store import ReadingSession
from jobauto_prefect.settings import Settings

Shown = dict[str, Any]
OUTPUT_SHOWN_BYTES = 64 * 1024


def _times(record: Any) -> Shown:
    labels = {"labels": record.labels} if isinstance(record, Labelled) else {}
    return labels | {
        "created_at": _time(record.created_at),
        "updated_at": _time(record.updated_at),
    }


def _time(instant: datetime | None) -> str | None:
    return instant.isoformat() if instant else None


def _members(record: object, *names: str) -> Shown:
    return {name: getattr(record, name) for name in names}


def app_record(app: App, settings: Settings) -> Shown:
    """The members of the definition, and ours."""
    ours = _members(app, "id", "company_id", "enabled", "topics") | _times(app)
    shown = dict(app.document) | ours
    shown["prefect_url"] = _link(settings, "flows/flow", app.flow_id)
    return shown


def version_record(version: AppVersion) -> Shown:
    """A former definition, with what it said."""
    shown = _members(version, "number", "version", "replaced_by")
    shown["replaced_at"] = _time(version.replaced_at)
    return shown | {"definition": json.loads(version.source.removeprefix("\ufeff"))}


COMPANY_MEMBERS = (
    "id",
    "slug",
    "name",
    "enabled",
    "ic",
    "email",
    "logo",
    "settings",
    "customer",
    "timezone",
    "topics",
    "calendars",
    "retention",
)


def company_record(company: Company, settings: Settings) -> Shown:
    """A company; secret values are masked."""
    shown = _members(company, *COMPANY_MEMBERS) | {"notices": _notices(company)}
    shown["env"] = Values(company.env, company.secrets).shown()
    shown["prefect_url"] = _tagged(settings, f"company:{company.slug}")
    return shown | _times(company)


TEMPLATE_MEMBERS = (
    "id",
    "app_id",
    "company_id",
    "name",
    "active",
    "interv",
    "cron",
    "timezone",
    "delay",
    "executor",
    "executors",
    "executor_settings",
    "pool",
    "queue",
    "queue_priority",
    "timeout_seconds",
    "deadline_offset",
    "allow_late",
    "max_attempts",
    "retry_backoff",
    "retry_min_gap",
    "retry_undeclared",
    "overlap",
    "misfire",
    "on_contact_lost",
    "on_closed",
    "note",
    "topics",
    "calendars",
    "retention",
)


def template_record(template: RunTemplate, settings: Settings) -> Shown:
    """A run template; `env` are its own values, secret ones masked."""
    shown = _members(template, *TEMPLATE_MEMBERS)
    shown["env"] = Values(template.env, template.secrets).shown()
    shown["credentials"] = [assignment.credential_id for assignment in template.assignments]
    shown["blocks"] = template.blocks
    shown["notices"] = _notices(template)
    shown |= {mode: _actions(template, mode) for mode in ActionMode}
    shown["prefect_url"] = _link(settings, "deployments/deployment", template.deployment_id)
    return shown | _times(template)


def _actions(template: RunTemplate, mode: ActionMode) -> Shown:
    """The actions of an end; that a webhook is signed is shown, not with what."""
    shown: Shown = dict(getattr(template, mode))
    if mode in template.action_secrets:
        shown[Action.WEBHOOK] = shown[Action.WEBHOOK] | {"secret": MASK}
    return shown


def _notices(record: Company | RunTemplate) -> Shown:
    """Who is told of what; that there is an address of a webhook is shown, not which."""
    shown: Shown = dict(record.notices)
    if Channel.SLACK in shown:
        uri = MASK if Channel.SLACK in record.notice_secrets else None
        shown[Channel.SLACK] = {"on": shown[Channel.SLACK]["on"], "uri": uri}
    return shown


JOB_MEMBERS = (
    "id",
    "app_id",
    "company_id",
    "runtemplate_id",
    "task_id",
    "attempt",
    "retry_of",
    "event_id",
    "eventrule_id",
    "state",
    "severity",
    "message",
    "exitcode",
    "schedule_type",
    "executor",
    "launched_by",
    "app_version",
    "command",
    "env",
    "undeclared",
    "warnings",
    "worker",
    "pid",
    "cancel_reason",
    "note",
)


def job_record(job: Job, settings: Settings) -> Shown:
    """A job as lists show it: without output and artifacts.

    What it waits for is others' to know: see `add_waits`.
    """
    shown = _members(job, *JOB_MEMBERS) | {"waits_for": None}
    shown |= {
        name: _time(getattr(job, name)) for name in ("schedule", "begin", "end", "created_at")
    }
    shown["flow_run_id"] = str(job.flow_run_id) if job.flow_run_id else None
    shown["prefect_url"] = _link(settings, "runs/flow-run", job.flow_run_id)
    return shown


def add_waits(
    session: ReadingSession,
    jobs: Iterable[object],
    shown: Iterable[Shown],
    settings: Settings,
    now: datetime,
) -> None:
    """Let records of jobs say what they wait for; those of other kinds stay as they are."""
    found = waits.reasons(session, (job for job in jobs if isinstance(job, Job)), settings, now)
    for record in shown:
        if record.get("id") in found and "waits_for" in record:
            record["waits_for"] = found[record["id"]]


def add_work(session: ReadingSession, records: Sequence[object], shown: Sequence[Shown]) -> None:
    """Let records of run templates say what became of their jobs; other kinds stay as they are."""
    templates = {record.id: record for record in records if isinstance(record, RunTemplate)}
    if not templates:
        return
    found = queries.work_of_templates(session, list(templates))
    for record in shown:
        work = found[record["id"]]
        record["successfull_jobs_count"] = work.succeeded
        record["failed_jobs_count"] = work.failed
        record["last_schedule"] = _time(work.last_schedule)
        record["next_schedule"] = _time(templates[record["id"]].next_schedule)


def job_details(lines: Sequence[OutputLine], artifacts: Sequence[Artifact]) -> Shown:
    """What a job's own record has beyond its row in a list."""
    return {
        "stdout": _text(lines, "stdout"),
        "stderr": _text(lines, "stderr"),
        "artifacts": [_artifact(artifact) for artifact in artifacts],
    }


def _artifact(artifact: Artifact) -> Shown:
    link = {"href": f"/api/v1/artifact/{artifact.id}"}
    return (
        link
        | _members(artifact, "id", "name", "path", "type", "content_type", "size")
        | {"created_at": _time(artifact.created_at)}
    )


def _text(lines: Sequence[OutputLine], stream: str) -> str:
    text = "".join(line.text + "\n" for line in lines if line.stream == stream)
    return text.encode()[-OUTPUT_SHOWN_BYTES:].decode(errors="ignore")


def line_record(line: OutputLine) -> Shown:
    """One line of output."""
    return _members(line, "seq", "stream", "text") | {"at": _time(line.at)}


def user_record(user: User, _settings: Settings) -> Shown:
    """A user, without its password."""
    names = ("id", "login", "email", "firstname", "lastname", "enabled")
    roles = [assignment.role for assignment in user.role_assignments]
    return _members(user, *names) | {"roles": roles} | _times(user)


def id_keyed(records: Sequence[Mapping[str, Any]]) -> dict[str, Mapping[str, Any]]:
    """A list as clients get it: record id -> record."""
    return {str(record["id"]): record for record in records}


def _link(settings: Settings, path: str, object_id: object) -> str | None:
    return f"{settings.prefect_ui}/{path}/{object_id}" if object_id else None


def _tagged(settings: Settings, tag: str) -> str:
    """The deployments that bear a tag."""
    return f"{settings.prefect_ui}/deployments?{urlencode({'deployments.tags.name': tag})}"


def task_record(task: Task, _settings: Settings) -> Shown:
    """A task; its own record has its attempts besides."""
    names = ["id", "runtemplate_id", "state", "reason", "message", "attempts"]
    names += ["fulfilled_by_job_id", "excuse", "excused_by"]
    times = ("window_start", "window_end", "deadline", "fulfilled_at", "created_at")
    return _members(task, *names) | {name: _time(getattr(task, name)) for name in times}


TYPE_MEMBERS = (
    "id",
    "company_id",
    "uuid",
    "code",
    "name",
    "description",
    "translations",
    "version",
    "url",
    "homepage",
    "logo",
    "tags",
    "fields",
    "availability",
    "source",
    "stock",
)


def credential_type_record(kind: CredentialType, _settings: Settings) -> Shown:
    """A credential type."""
    return _members(kind, *TYPE_MEMBERS) | _times(kind)


def credential_record(credential: Credential, _settings: Settings) -> Shown:
    """A credential; secret values are masked."""
    names = ("id", "name", "company_id", "credential_type_id", "max_jobs")
    values = Values(credential.values, credential.secrets).shown()
    return _members(credential, *names) | {"values": values} | _times(credential)


CALENDAR_MEMBERS = (
    *("id", "name", "timezone", "country", "subdivision"),
    *("days", "times", "periods"),
)


def calendar_record(calendar: Calendar, _settings: Settings) -> Shown:
    """A calendar."""
    return _members(calendar, *CALENDAR_MEMBERS) | _times(calendar)


def topic_record(topic: Topic, settings: Settings) -> Shown:
    """A topic."""
    shown = _members(topic, "id", "company_id", "name", "description", "color")
    return shown | {"prefect_url": _tagged(settings, f"topic:{topic.name}")} | _times(topic)


SOURCE_MEMBERS = (
    "id",
    "name",
    "company_id",
    "adapter_type",
    "db_connection",
    "db_host",
    "db_port",
    "db_database",
    "db_username",
    "enabled",
    "poll_interval",
    "consume",
    "last_processed_id",
    "poll_error",
)


def source_record(source: EventSource, _settings: Settings) -> Shown:
    """An event source; its password is masked."""
    shown = _members(source, *SOURCE_MEMBERS) | {"polled_at": _time(source.polled_at)}
    return shown | {"db_password": MASK if source.db_password else None} | _times(source)


RULE_MEMBERS = (
    "id",
    "event_source_id",
    "runtemplate_source_id",
    "runtemplate_id",
    "evidence",
    "operation",
    "on",
    "fan_out",
    "enabled",
    "priority",
)


def rule_record(rule: EventRule, _settings: Settings) -> Shown:
    """An event rule."""
    mapping = {"env_mapping": json.loads(rule.env_mapping)}
    return _members(rule, *RULE_MEMBERS) | mapping | _times(rule)


EVENT_MEMBERS = (
    "id",
    "kind",
    "state",
    "event_source_id",
    "runtemplate_id",
    "job_id",
    "company_id",
    "inversion",
    "evidence",
    "operation",
    "record_id",
    "depth",
    "emission_error",
)


def event_record(event: Event, _settings: Settings) -> Shown:
    """An event."""
    times = {name: _time(getattr(event, name)) for name in ("emitted_at", "created_at")}
    return _members(event, *EVENT_MEMBERS) | times


def event_details(
    event: Event, deliveries: Sequence[Delivery], actions: Sequence[OwedAction]
) -> Shown:
    """What is known of an event, and what it owes."""
    shown = [
        _members(delivery, "element", "state", "job_id", "error")
        | {
            "eventrule_id": delivery.rule_id,
            "flow_run_id": str(delivery.flow_run_id) if delivery.flow_run_id else None,
            "due_at": _time(delivery.due_at),
        }
        for delivery in deliveries
    ]
    return {"data": event.data, "deliveries": shown, "actions": list(map(_owed_action, actions))}


def _owed_action(action: OwedAction) -> Shown:
    """One action; the query of a webhook's address may be a secret and is not shown."""
    shown = _members(action, "id", "kind", "state", "attempts", "job_id", "error")
    times = {name: _time(getattr(action, name)) for name in ("due_at", "done_at")}
    return shown | {"target": action.target.partition("?")[0] or None} | times


AUDIT_MEMBERS = (
    "id",
    "actor",
    "user_id",
    "door",
    "address",
    "user_agent",
    "request_id",
    "entity_type",
    "entity_id",
    "company_id",
    "action",
    "changes",
)


def audit_record(entry: AuditEntry, _settings: Settings) -> Shown:
    """An audit entry."""
    return _members(entry, *AUDIT_MEMBERS) | {"created_at": _time(entry.created_at)}


def role_record(assignment: UserRole) -> Shown:
    """A role of a user, with the role's own id."""
    role = Role(assignment.role)
    return {
        "id": ROLE_IDS[role],
        "name": role.value,
        "display_name": role.replace("_", " ").capitalize(),
        "description": ABOUT[role],
        "assigned_by": assignment.assigned_by,
        "assigned_at": _time(assignment.assigned_at),
        "expires_at": _time(assignment.expires_at),
    }


def token_record(token: Token) -> Shown:
    """What is known of a token; its text is not."""
    times = ("expires_at", "revoked_at", "last_used_at", "created_at")
    return {"id": token.id, "kind": token.kind} | {
        name: _time(getattr(token, name)) for name in times
    }


def member_record(member: CompanyUser, login: str | None) -> Shown:
    """A membership."""
    shown = _members(member, "id", "company_id", "user_id", "role")
    return shown | {"login": login, "created_at": _time(member.created_at)}
