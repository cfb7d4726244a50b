"""Serializers of what people define: applications, companies, run templates, credentials, …"""

import json

from jobauto_prefect.definitions.mask import MASK
from jobauto_prefect.definitions.records.actions import Action, ActionMode
from jobauto_prefect.definitions.records.notices import Channel
from jobauto_prefect.facade.serializers.common import (
    JsonObject,
    isoformat,
    pick_fields,
    prefect_link,
    tag_link,
    timestamps,
)
from jobauto_prefect.facade.writes.env import StoredValues
from jobauto_prefect.ledger.records import (
    App,
    AppVersion,
    Calendar,
    Company,
    Credential,
    CredentialType,
    RunTemplate,
    Topic,
)
from jobauto_prefect.settings import Settings


def serialize_app(app: App, settings: Settings) -> JsonObject:
    """Return the fields of the definition, and ours."""
    ours = pick_fields(app, "id", "company_id", "enabled", "topics") | timestamps(app)
    shown = dict(app.document) | ours
    shown["prefect_url"] = prefect_link(settings, "flows/flow", app.flow_id)
    return shown


def serialize_version(version: AppVersion) -> JsonObject:
    """Return a former definition, with what it said."""
    shown = pick_fields(version, "number", "version", "replaced_by")
    shown["replaced_at"] = isoformat(version.replaced_at)
    return shown | {"definition": json.loads(version.source.removeprefix("\ufeff"))}


COMPANY_FIELDS = (
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


def serialize_company(company: Company, settings: Settings) -> JsonObject:
    """Return a company as answers show it; secret values are masked."""
    shown = pick_fields(company, *COMPANY_FIELDS) | {"notices": _serialize_notices(company)}
    shown["env"] = StoredValues(company.env, company.secrets).shown()
    shown["prefect_url"] = tag_link(settings, f"company:{company.slug}")
    return shown | timestamps(company)


TEMPLATE_FIELDS = (
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


def serialize_template(template: RunTemplate, settings: Settings) -> JsonObject:
    """Return a run template as answers show it; `env` are its own values, secret ones masked."""
    shown = pick_fields(template, *TEMPLATE_FIELDS)
    shown["env"] = StoredValues(template.env, template.secrets).shown()
    shown["credentials"] = [assignment.credential_id for assignment in template.assignments]
    shown["blocks"] = template.blocks
    shown["notices"] = _serialize_notices(template)
    shown |= {mode: _serialize_actions(template, mode) for mode in ActionMode}
    shown["prefect_url"] = prefect_link(settings, "deployments/deployment", template.deployment_id)
    return shown | timestamps(template)


def _serialize_actions(template: RunTemplate, mode: ActionMode) -> JsonObject:
    """Return the actions of an end; that a webhook is signed is shown, not with what."""
    shown: JsonObject = dict(getattr(template, mode))
    if mode in template.action_secrets:
        shown[Action.WEBHOOK] = shown[Action.WEBHOOK] | {"secret": MASK}
    return shown


def _serialize_notices(record: Company | RunTemplate) -> JsonObject:
    """Return who is told of what; that there is an address of a webhook is shown, not which."""
    shown: JsonObject = dict(record.notices)
    if Channel.SLACK in shown:
        uri = MASK if Channel.SLACK in record.notice_secrets else None
        shown[Channel.SLACK] = {"on": shown[Channel.SLACK]["on"], "uri": uri}
    return shown


TYPE_FIELDS = (
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


def serialize_credential_type(kind: CredentialType, _settings: Settings) -> JsonObject:
    """Return a credential type as answers show it."""
    return pick_fields(kind, *TYPE_FIELDS) | timestamps(kind)


def serialize_credential(credential: Credential, _settings: Settings) -> JsonObject:
    """Return a credential as answers show it; secret values are masked."""
    names = ("id", "name", "company_id", "credential_type_id", "max_jobs")
    values = StoredValues(credential.values, credential.secrets).shown()
    return pick_fields(credential, *names) | {"values": values} | timestamps(credential)


CALENDAR_FIELDS = (
    *("id", "name", "timezone", "country", "subdivision"),
    *("days", "times", "periods"),
)


def serialize_calendar(calendar: Calendar, _settings: Settings) -> JsonObject:
    """Return a calendar as answers show it."""
    return pick_fields(calendar, *CALENDAR_FIELDS) | timestamps(calendar)


def serialize_topic(topic: Topic, settings: Settings) -> JsonObject:
    """Return a topic as answers show it."""
    shown = pick_fields(topic, "id", "company_id", "name", "description", "color")
    return shown | {"prefect_url": tag_link(settings, f"topic:{topic.name}")} | timestamps(topic)
