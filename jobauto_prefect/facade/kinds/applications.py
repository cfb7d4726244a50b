"""Applications: reading and writing the record with its definition."""

import json
from collections.abc import Collection, Iterator
from datetime import datetime
from typing import Annotated, Any, ClassVar

from fastapi import Depends, Request
from pydantic import Field, WithJsonSchema
from pydantic.json_schema import JsonSchemaValue

from jobauto_prefect.compiler.events.suggestions import suggest_selectors
from jobauto_prefect.definitions import (
    Definition,
    check,
    pick_text,
    read_keys,
    schema,
    validate,
    version_numbers,
)
from jobauto_prefect.definitions.records.names import name_faults
from jobauto_prefect.errors import Conflict, Fault, Forbidden, InvalidDefinition
from jobauto_prefect.facade.answers import (
    Answer,
    JsonObject,
    Owned,
    prefect_link,
    serialize_fields,
)
from jobauto_prefect.facade.auth.identity import CurrentUser
from jobauto_prefect.facade.http.field_types import Boolean
from jobauto_prefect.facade.http.parameters import query
from jobauto_prefect.facade.http.requests import (
    WHOLE_BODY,
    Body,
    Fields,
    RawBody,
    merge_fields,
    parse,
    read_json_object,
    read_write_query,
)
from jobauto_prefect.facade.kinds.resource import (
    ENABLED,
    NAME,
    BodyReader,
    Resource,
    link,
    reference,
)
from jobauto_prefect.facade.kinds.topics import (
    TopicRefs,
    apply_existing_topics,
    apply_topics,
    require_own_topics,
)
from jobauto_prefect.facade.writes.base import LABEL, Labels, WriteRequest, WriteResult, parse_flag
from jobauto_prefect.facade.writes.env import StoredValues, seal_exposed
from jobauto_prefect.facade.writes.executors import forbid_more
from jobauto_prefect.facade.writes.ownership import (
    OwnedBody,
    Owner,
    apply_owner,
    authorize_definition,
    authorize_visible,
    namesake_warnings,
    require_administrator,
    resolve_owner,
    select_named,
)
from jobauto_prefect.jobs.claims.approval import approve_definition, unapproved_in_definition
from jobauto_prefect.jobs.claims.credentials import unknown_requirements
from jobauto_prefect.jobs.windows.due_windows import keep_windows
from jobauto_prefect.kinds import KINDS
from jobauto_prefect.ledger.outbox import OutboxKind, enqueue
from jobauto_prefect.ledger.queries.applications import app_with_uuid, apps_named, versions_of
from jobauto_prefect.ledger.queries.companies import all_companies
from jobauto_prefect.ledger.queries.run_templates import templates_of_app
from jobauto_prefect.ledger.queries.topics import enqueue_bearer
from jobauto_prefect.ledger.records import (
    App,
    AppVersion,
    Company,
    RunTemplate,
)
from jobauto_prefect.ledger.store import ReadingSession
from jobauto_prefect.settings import Settings


class OfferedSelector(Answer):
    """A selector; `type` is a field type, the format of a whole value, or `file`."""

    selector: str = Field(description="The selector, as `env_mapping` takes it.")
    type: str = Field(description="The type of the value.")
    description: str = Field(description="What it is for.")


class Application(Owned):
    """An application: the fields of its definition, and the service's own."""

    enabled: bool = Field(description="Whether it may be used.")
    topics: list[str] = Field(
        default_factory=list,
        description="Names of its topics; left out if it has none. In requests: names or ids; a "
        "name means the company's own topic; if there is none, the shared one.",
    )
    prefect_url: str | None = Field(
        description="Address of its page in Prefect's UI; null: it is not in Prefect yet."
    )
    rule_selectors: list[OfferedSelector] = Field(
        default_factory=list,
        description="Selectors that event rules can use for the ends of its jobs; not in lists.",
    )

    @classmethod
    def field_names(cls) -> Collection[str]:
        """Also return the fields of definitions."""
        return {*schema()["properties"], *cls.model_fields}

    @classmethod
    def field_titles(cls) -> dict[str, str]:
        """Also return titles from the schema of definitions, including those of nested fields."""
        parts = [schema(), *schema()["definitions"].values()]
        of_definition = {
            name: declared["title"]
            for part in parts
            for name, declared in part.get("properties", {}).items()
            if "title" in declared
        }
        return of_definition | super().field_titles()


class ApplicationVersion(Answer):
    """A former definition, replaced by a later one."""

    number: int = Field(description="Number of the definition within its application, from 1.")
    version: str | None = Field(description="Its version.")
    replaced_at: datetime = Field(description="When it was replaced.")
    replaced_by: str = Field(description="Who replaced it.")
    definition: dict[str, Any] = Field(description="The former definition.")


READ_ONLY = ("created_at", "updated_at", "prefect_url")
"""Fields of every record read; in a body sent back they are not keys of the definition."""


OURS = ("enabled", "company_id")


RECORD_FIELDS = frozenset(Application.model_fields)
"""A record's fields beside the definition, which may have keys of the same names."""


REQUIRED = schema()["required"]
"""Keys that only a whole definition has."""


LABELS: JsonSchemaValue = {
    "anyOf": [
        {"type": "array", "items": {"type": "string", "pattern": f"^{LABEL}$"}, "maxItems": 20},
        {"type": "string", "pattern": f"^({LABEL}(,{LABEL}){{0,19}})?$"},
        {"type": "object"},
    ]
}
"""An object of this name belongs to the definition."""


TOPICS: JsonSchemaValue = {
    "anyOf": [
        {"type": "array", "items": {"type": ["string", "integer"]}, "maxItems": 50},
        {"type": "string"},
    ]
}


class ApplicationBody(OwnedBody):
    """A whole definition, or a part, which is merged into the existing definition. Fields of
    answers that are not part of a definition are ignored.
    """

    record: ClassVar = Application

    enabled: Boolean = True
    labels: Annotated[Labels, WithJsonSchema(LABELS)] = Field(default_factory=list)
    topics: Annotated[TopicRefs, WithJsonSchema(TOPICS)] = Field(
        default_factory=list,
        description="Topics to attach, by name or id; comma-separated in the query. A whole "
        "definition keeps its own key `topics`; those of its topics that exist are "
        "attached.",
    )
    force: Boolean = Field(
        default=False,
        description="Accept a definition whose version is older than the current one.",
    )


DEFINITION = query(
    "definition", {"type": "boolean", "default": False},
    "The body is nothing but a definition: keys such as `id` and `enabled` belong to the "
    "definition. The service's own fields are in the query.",
)  # fmt: skip


def read_definition_fields(raw: RawBody, request: Request) -> Fields:
    """Read a body like `read_body_fields`, or as a definition: each error with line and column.

    With `definition` in the query all its keys are the document's; the write reads them.
    """
    given = read_write_query(request)
    if parse_flag(given.pop("definition", False), "/definition"):
        return given | {"definition": WHOLE_BODY}
    return merge_fields(given, read_keys(raw) if raw.strip() else {})


async def require_definition_writer(who: CurrentUser) -> None:
    """Require the permission to write definitions first: validating one is slow.

    Raises:
        Forbidden: they may not write definitions.
    """
    if not any(who.rights.anywhere(f"applications.{action}") for action in ("create", "update")):
        raise Forbidden("this needs the permission applications.update; ask an administrator")


def _query_names(body: type[Body]) -> Iterator[str]:
    yield from ("definition", *schema()["properties"])
    yield from body.model_fields.keys() - {"company"}  # part of the definition


def parse_application(write: WriteRequest) -> ApplicationBody:
    """Return the fields beside the definition; `force` and labels come from the fields.

    Raises:
        InvalidInput: with every error.
    """
    given = {name: write.fields[name] for name in OURS if name in write.fields}
    if "company_id" in given:
        given["company_id"] = given["company_id"] or None
    if "force" in write.fields:
        given["force"] = write.fields.pop("force")
    if isinstance(write.fields.get("labels"), str | list):
        labels = write.fields.pop("labels")
        is_text = isinstance(labels, str)
        given["labels"] = [word for word in labels.split(",") if word] if is_text else labels
    if _says_topics(write):
        topics = write.fields["topics"]
        is_text = isinstance(topics, str)
        given["topics"] = [word.strip() for word in topics.split(",")] if is_text else topics
    return parse(ApplicationBody, given)


def document_in(write: WriteRequest) -> Fields:
    """Return the request's keys that belong to the definition, or to a part of one."""
    ours = (*OURS, *RECORD_FIELDS) if _is_record(write) else OURS
    ours = (*ours, "topics") if _says_topics(write) else ours
    return {name: value for name, value in write.fields.items() if name not in ours}


def complete_document(write: WriteRequest, app: App | None, given: Fields) -> Fields:
    """Merge the given keys into the existing definition; a whole definition replaces it."""
    if app is None:
        return {**write.defaults, **given}
    whole = all(name in given for name in REQUIRED)
    if whole and _is_record(write):
        own = {name: app.document[name] for name in app.document if name in RECORD_FIELDS}
        return {
            name: given.get(name, own.get(name))
            for name in dict.fromkeys((*write.fields, *own))
            if name in given or name in own
        }
    return given if whole else {**app.document, **given}


def _says_topics(write: WriteRequest) -> bool:
    """Whether `topics` are attached topics rather than the definition's own key.

    They are if sent in the query, in a part of a definition without `executable`, or in a record
    that was read.
    """
    if "topics" not in write.fields:
        return False
    is_part = "executable" not in write.fields
    return is_part or _is_record(write) or "topics" not in read_json_object(write.raw)


def _is_record(write: WriteRequest) -> bool:
    return all(name in write.fields for name in READ_ONLY)


def write_app(write: WriteRequest) -> WriteResult:
    """Write an application: a whole one replaces the one of its uuid, else name; a part is merged.

    Raises:
        InvalidDefinition: with every error.
        Forbidden: the change needs an administrator.
        Conflict: its version is older than the current one and `force` is not set, or it can't
            belong to that company.
    """
    body = parse_application(write)
    owner = resolve_owner(write, body)
    is_definition = write.fields.pop("definition", None) is WHOLE_BODY
    given = read_keys(write.raw) if is_definition else document_in(write)
    app = _find_app(write, given, owner)
    if app is None:
        authorize_definition(write, owner)
    document = given if is_definition else complete_document(write, app, given)
    is_raw = is_definition or (write.raw != b"" and read_keys(write.raw) == document)
    created, warnings = app is None, list[Fault]()
    unapproved_before = _unapproved(write, app) if app else []
    if app is not None:
        require_administrator(write, app, _identity_changed(app, document))
    # As text: the order of keys counts, and `1` is not `true`.
    if app is None or json.dumps(document) != json.dumps(app.document):
        definition, warnings = _validate(write, document, is_raw=is_raw)
        if app is None:
            app = App(name="", source="", document={}, approved={}, company_id=owner.company_id)
            # Before it is added: a query would flush it and make a version of the incomplete
            # record.
            name = _text(write, definition.name)
            others = () if owner.is_said else apps_named(write.session, name)
            warnings += namesake_warnings(write, app, others)
            write.session.add(app)
        elif not body.force:
            _refuse_older(app, definition)
        _store_definition(write, app, definition, is_raw=is_raw)
    elif is_raw:
        app.source = write.raw.decode()  # the same content, formatted differently
    if apply_owner(write, app, owner):
        _seal_values(write, app, app.definition)
    if write.who.rights.system_wide:
        approve_definition(app)
    else:
        forbid_more(_unapproved(write, app), unapproved_before)
    for name in body.model_fields_set & {"enabled", "labels"}:
        setattr(app, name, getattr(body, name))
    warnings += _apply_topics(write, app, body, given)
    required = app.definition.requirements
    unknown = unknown_requirements(write.session, required, app.company_id)
    return WriteResult(app, created, [*warnings, *unknown])


def _unapproved(write: WriteRequest, app: App) -> list[str]:
    return unapproved_in_definition(app, app.company_id, write.settings)


def _identity_changed(app: App, document: Fields) -> set[str]:
    """Return the identifying fields that a new document changes."""
    before = {"uuid": app.uuid, "name": app.document.get("name")}
    uuid = document.get("uuid")
    after = {
        "uuid": uuid.lower() if isinstance(uuid, str) else uuid,
        "name": document.get("name"),
    }
    return {name for name in before if before[name] != after[name]}


def _apply_topics(
    write: WriteRequest, app: App, body: ApplicationBody, document: Fields
) -> list[Fault]:
    """Attach the given topics, else those the definition lists, as far as they exist."""
    before, listed = app.topics, document.get("topics")
    warnings = list[Fault]()
    if "topics" in body.model_fields_set:
        apply_topics(write, app, body.topics)
    elif isinstance(listed, list) and all(isinstance(name, str) for name in listed):
        warnings = apply_existing_topics(write, app, listed)
    require_own_topics(write, app)
    if app.topics != before:
        write.session.flush()
        enqueue_bearer(write.session, app)
    return warnings


def _validate(
    write: WriteRequest, document: Fields, *, is_raw: bool
) -> tuple[Definition, list[Fault]]:
    report = validate(write.raw) if is_raw else check(document)
    faults = [*report.faults, *name_faults(document)]
    if faults:
        raise InvalidDefinition(faults)
    return report.definition(), list(report.warnings)


def _find_app(write: WriteRequest, document: Fields, owner: Owner) -> App | None:
    if write.record_id is not None:
        return write.get_for_update(App, "applications")
    uuid, name = document.get("uuid"), document.get("name")
    if isinstance(uuid, str):
        return authorize_visible(write, app_with_uuid(write.session, uuid.lower()))
    if not isinstance(name, str | dict) or not name:
        return None
    return select_named(write, owner, apps_named(write.session, _text(write, name)))


def _text(write: WriteRequest, localized: Any) -> str:
    return pick_text(localized, write.settings.language)


def _refuse_older(app: App, definition: Definition) -> None:
    now, then = version_numbers(app.version or ""), version_numbers(definition.version or "")
    if now is not None and then is not None and then < now:
        raise Conflict(
            f"{app.name} already has version {app.version}; {definition.version} is older: "
            "set force to replace it anyway"
        )


def _store_definition(
    write: WriteRequest, app: App, definition: Definition, *, is_raw: bool
) -> None:
    """Store the document and keep the former one; seal values that have become secret."""
    document = dict(definition.document)
    if app.id is not None:
        former = AppVersion(
            app_id=app.id,
            number=len(versions_of(write.session, app.id)) + 1,
            version=app.version,
            source=app.source,
            replaced_at=write.session.clock(),
            replaced_by=write.session.actor.name,
        )
        write.session.add(former)
    if is_raw:
        app.source = write.raw.decode()
    else:
        app.source = json.dumps(document, ensure_ascii=False, indent=2)
    app.document = document
    app.uuid = definition.uuid.lower() if definition.uuid else None
    app.name = _text(write, definition.name)
    app.version = definition.version
    write.session.flush()
    _seal_values(write, app, definition)
    enqueue(write.session, OutboxKind.APPLY_APP, app.id)
    for template in templates_of_app(write.session, app.id):
        keep_windows(write.session, template, write.settings)
        enqueue(write.session, OutboxKind.APPLY_TEMPLATE, template.id)


def _seal_values(write: WriteRequest, app: App, definition: Definition) -> None:
    secret = definition.secret_keys
    owners: list[Company | RunTemplate] = [*templates_of_app(write.session, app.id)]
    if secret:  # of the companies that may use it
        owners += (
            all_companies(write.session)
            if app.company_id is None
            else [write.session.get_one(Company, app.company_id)]
        )
    for owner in owners:
        sealed = seal_exposed(StoredValues(owner.env, owner.secrets), secret, write.box)
        if sealed.secrets != owner.secrets:
            owner.env, owner.secrets = sealed.env, sealed.secrets


def serialize_app(app: App, settings: Settings) -> JsonObject:
    """Return the fields of the definition, and the service's own."""
    link = prefect_link(settings, "flows/flow", app.flow_id)
    shown = dict(app.document) | serialize_fields(Application, app, prefect_url=link)
    shown.pop("topics", None)
    # Published clients expect a text here, not a list: a record without topics omits the member.
    return shown | ({"topics": app.topics} if app.topics else {})


def serialize_version(version: AppVersion) -> JsonObject:
    """Return a former definition with its content."""
    definition = json.loads(version.source.removeprefix("\ufeff"))
    return serialize_fields(ApplicationVersion, version, definition=definition)


def _details(_session: ReadingSession, app: App, settings: Settings) -> JsonObject:
    offered = suggest_selectors(app.definition, settings.language)
    return {
        "rule_selectors": [
            {"selector": offer.selector, "type": offer.type, "description": offer.description}
            for offer in offered
        ]
    }


RESOURCE = Resource(
    KINDS["app"], App, Application, serialize_app, write_app,
    filters={"name": NAME, "enabled": ENABLED, "company_id": reference("company")},
    body=ApplicationBody, details=_details,
    reader=BodyReader(
        Annotated[Fields, Depends(read_definition_fields)], _query_names,
        parameters=(DEFINITION,), dependencies=(Depends(require_definition_writer),),
    ),
    note=" A definition with an older version than the current definition needs `force`.",
    links={
        "definition": link("getDefinition", "appId"), "versions": link("listVersions", "appId"),
    },
)  # fmt: skip
