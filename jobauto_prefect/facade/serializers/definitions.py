"""Serializers of what people define: applications, companies, run templates, credentials, …"""

import json

from jobauto_prefect.compiler.blocks import block_type_slug
from jobauto_prefect.definitions.mask import MASK
from jobauto_prefect.definitions.records.actions import Action, ActionMode
from jobauto_prefect.definitions.records.notices import Channel
from jobauto_prefect.facade.models import calendars, companies, credentials, run_templates, topics
from jobauto_prefect.facade.models.applications import Application, ApplicationVersion
from jobauto_prefect.facade.serializers.common import (
    JsonObject,
    prefect_link,
    serialize_fields,
    tag_link,
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
    link = prefect_link(settings, "flows/flow", app.flow_id)
    shown = dict(app.document) | serialize_fields(Application, app, prefect_url=link)
    shown.pop("topics", None)
    # Published clients take text there and no list: a record without topics has no such member.
    return shown | ({"topics": app.topics} if app.topics else {})


def serialize_version(version: AppVersion) -> JsonObject:
    """Return a former definition, with what it said."""
    definition = json.loads(version.source.removeprefix("\ufeff"))
    return serialize_fields(ApplicationVersion, version, definition=definition)


def serialize_company(company: Company, settings: Settings) -> JsonObject:
    """Return a company as answers show it; secret values are masked."""
    return serialize_fields(
        companies.Company,
        company,
        notices=_serialize_notices(company),
        env=StoredValues(company.env, company.secrets).shown(),
        prefect_url=tag_link(settings, f"company:{company.slug}"),
    )


def serialize_template(template: RunTemplate, settings: Settings) -> JsonObject:
    """Return a run template as answers show it; `env` are its own values, secret ones masked."""
    return serialize_fields(
        run_templates.RunTemplate,
        template,
        env=StoredValues(template.env, template.secrets).shown(),
        credentials=[assignment.credential_id for assignment in template.assignments],
        notices=_serialize_notices(template),
        prefect_url=prefect_link(settings, "deployments/deployment", template.deployment_id),
        **{mode.value: _serialize_actions(template, mode) for mode in ActionMode},
    )


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


def serialize_credential_type(kind: CredentialType, settings: Settings) -> JsonObject:
    """Return a credential type as answers show it."""
    slug = block_type_slug(kind.code, kind.id) if kind.block_type_id else None
    link = prefect_link(settings, "blocks/catalog", slug)
    return serialize_fields(credentials.CredentialType, kind, prefect_url=link)


def serialize_credential(credential: Credential, settings: Settings) -> JsonObject:
    """Return a credential as answers show it; secret values are masked."""
    values = StoredValues(credential.values, credential.secrets).shown()
    link = prefect_link(settings, "blocks/block", credential.block_document_id)
    return serialize_fields(credentials.Credential, credential, values=values, prefect_url=link)


def serialize_calendar(calendar: Calendar, _settings: Settings) -> JsonObject:
    """Return a calendar as answers show it."""
    return serialize_fields(calendars.Calendar, calendar)


def serialize_topic(topic: Topic, settings: Settings) -> JsonObject:
    """Return a topic as answers show it."""
    link = tag_link(settings, f"topic:{topic.name}")
    return serialize_fields(topics.Topic, topic, prefect_url=link)
