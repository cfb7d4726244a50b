"""Applications: the definition is the record."""

import json
from collections.abc import Sequence
from typing import Any

from jobauto_prefect.definitions import (
    Definition,
    check,
    pick_text,
    validate,
    version_numbers,
)
from jobauto_prefect.errors import Conflict, Fault, InvalidDefinition
from jobauto_prefect.facade.http.requests import WHOLE_BODY, Body, Fields, read_json_object
from jobauto_prefect.facade.http.requests import parse as parse_body
from jobauto_prefect.facade.writes.base import LabelledBody, WriteRequest, WriteResult, parse_flag
from jobauto_prefect.facade.writes.env import StoredValues, seal_exposed
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
from jobauto_prefect.facade.writes.topics import (
    TopicRefs,
    apply_existing_topics,
    apply_topics,
    require_own_topics,
)
from jobauto_prefect.jobs.claims.credential_warnings import unknown_requirements
from jobauto_prefect.jobs.windows.due_windows import keep_windows
from jobauto_prefect.ledger.outbox import OutboxKind, enqueue
from jobauto_prefect.ledger.queries.applications import app_with_uuid, apps_named, versions_of
from jobauto_prefect.ledger.queries.companies import all_companies
from jobauto_prefect.ledger.queries.run_templates import templates_of_app
from jobauto_prefect.ledger.queries.topics import enqueue_bearer
from jobauto_prefect.ledger.records import App, AppVersion, Company, RunTemplate

READ_ONLY = ("created_at", "updated_at", "prefect_url")
"""What every record that was read has: where one comes back these are no keys of a document."""

OURS = ("enabled", "company_id")
RECORD_FIELDS = ("id", "enabled", "company_id", "labels", "topics", "rule_selectors", *READ_ONLY)
"""What records have beside the definition, which may have keys of these names, too."""

UNREADABLE = frozenset({"duplicate", "number", "text", "key", "depth", "size", "syntax"})


class TopicsBody(Body):
    """The topics of an application, in a request that is a definition besides."""

    topics: TopicRefs


REQUIRED = ("$schema", "name", "description", "executable", "environment")


def read_definition(raw: bytes) -> Fields:
    """Return the keys of a body that is a definition or a part of one.

    Raises:
        InvalidDefinition: it is not JSON that can be kept; every error is in it.
    """
    report = validate(raw)
    unreadable = not isinstance(report.document, dict)
    if unreadable or any(fault.rule in UNREADABLE for fault in report.faults):
        raise InvalidDefinition(report.faults)
    return dict(report.document)


def write_app(write: WriteRequest) -> WriteResult:
    """Write an application: a whole definition replaces that of its uuid, else name; a part merges.

    Raises:
        InvalidDefinition: with every error.
        Conflict: its version is older than the one that is here, and `force` is not said; or it
            can't belong to that company.
    """
    force = parse_flag(write.fields.pop("force", False), "/force")
    labels, owner = _pop_labels(write), _resolve_owner(write)
    topics = _parse_topics(write)
    is_definition = write.fields.pop("definition", None) is WHOLE_BODY
    given = read_definition(write.raw) if is_definition else _document_in(write)
    app = _find_app(write, given, owner)
    if app is None:
        authorize_definition(write, owner)
    document = given if is_definition else _complete(write, app, given)
    created, warnings = app is None, list[Fault]()
    if app is not None:
        require_administrator(write, app, _identity_changed(app, document))
    if app is None or not _is_same(document, app.document):
        definition, warnings = _validate(write, document)
        if app is None:
            app = App(name="", source="", document={}, company_id=owner.company_id)
            # Before it is added: a query would flush it, and what it holds so far be a version.
            warnings += _namesakes(write, app, definition, owner)
            write.session.add(app)
        elif not force:
            _refuse_older(app, definition)
        _store_definition(write, app, definition)
    elif _is_raw(write, document):
        app.source = write.raw.decode()  # the same, written in another way
    if apply_owner(write, app, owner):
        _seal_values(write, app, app.definition)
    if "enabled" in write.fields:
        app.enabled = parse_flag(write.fields["enabled"], "/enabled")
    if labels is not None:
        app.labels = labels
    warnings += _apply_topics(write, app, topics, given)
    required = app.definition.requirements
    unknown = unknown_requirements(write.session, required, app.company_id)
    return WriteResult(app, created, [*warnings, *unknown])


def _document_in(write: WriteRequest) -> Fields:
    """Return the keys of the definition, or of a part of one, among those of a request."""
    ours = (*OURS, *RECORD_FIELDS) if _is_record(write) else OURS
    ours = (*ours, "topics") if _says_topics(write) else ours
    return {name: value for name, value in write.fields.items() if name not in ours}


def _resolve_owner(write: WriteRequest) -> Owner:
    """Return whose it is to be; a definition may have a key `company` of its own."""
    given = {name: write.fields[name] or None for name in ("company_id",) if name in write.fields}
    return resolve_owner(write, parse_body(OwnedBody, given))


def _identity_changed(app: App, document: Fields) -> set[str]:
    """Return what of a new document tells applications apart and is not as it was."""
    before = {"uuid": app.uuid, "name": app.document.get("name")}
    uuid = document.get("uuid")
    after = {
        "uuid": uuid.lower() if isinstance(uuid, str) else uuid,
        "name": document.get("name"),
    }
    return {name for name in before if before[name] != after[name]}


def _namesakes(write: WriteRequest, app: App, definition: Definition, owner: Owner) -> list[Fault]:
    if owner.is_said:
        return []
    return namesake_warnings(write, app, apps_named(write.session, _text(write, definition.name)))


def _complete(write: WriteRequest, app: App | None, given: Fields) -> Fields:
    """Return what is given, over what there is of it: a whole definition stands alone."""
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


def _pop_labels(write: WriteRequest) -> list[str] | None:
    """Take the labels given, as a list or with commas; an object of that name is the definition's.

    None: no labels are given.
    """
    given = write.fields.get("labels")
    if not isinstance(given, str | list):
        return None
    del write.fields["labels"]
    listed = [word for word in given.split(",") if word] if isinstance(given, str) else given
    return parse_body(LabelledBody, {"labels": listed}).labels


def _says_topics(write: WriteRequest) -> bool:
    """Whether `topics` are those attached, and not the definition's own.

    They are attached in the query, in a part of a definition without its `executable`, and in a
    record that was read.
    """
    if "topics" not in write.fields:
        return False
    is_part = "executable" not in write.fields
    return is_part or _is_record(write) or "topics" not in read_json_object(write.raw)


def _is_record(write: WriteRequest) -> bool:
    return all(name in write.fields for name in READ_ONLY)


def _parse_topics(write: WriteRequest) -> list[int | str] | None:
    """Return the topics that are attached; None: nothing is said."""
    if not _says_topics(write):
        return None
    given = write.fields["topics"]
    listed = [word.strip() for word in given.split(",")] if isinstance(given, str) else given
    return parse_body(TopicsBody, {"topics": listed}).topics


def _apply_topics(
    write: WriteRequest, app: App, topics: list[int | str] | None, document: Fields
) -> list[Fault]:
    """Attach what is said, else what a definition lists itself and there are topics for."""
    before, listed = app.topics, document.get("topics")
    warnings = list[Fault]()
    if topics is not None:
        apply_topics(write, app, topics)
    elif isinstance(listed, list) and all(isinstance(name, str) for name in listed):
        warnings = apply_existing_topics(write, app, listed)
    require_own_topics(write, app)
    if app.topics != before:
        write.session.flush()
        enqueue_bearer(write.session, app)
    return warnings


def _validate(write: WriteRequest, document: Fields) -> tuple[Definition, list[Fault]]:
    report = validate(write.raw) if _is_raw(write, document) else check(document)
    return report.definition(), list(report.warnings)


def _is_same(document: Fields, other: Fields) -> bool:
    """Whether documents are the same as texts: the order of keys counts, and `1` is not `true`."""
    return json.dumps(document) == json.dumps(other)


def _is_raw(write: WriteRequest, document: Fields) -> bool:
    """Whether the body is this document and nothing else."""
    return write.raw != b"" and read_definition(write.raw) == document


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
            f"{app.name} is here in version {app.version}; {definition.version} is older: "
            "say force to take it all the same"
        )


def _store_definition(write: WriteRequest, app: App, definition: Definition) -> None:
    """Take over the document and keep the former; values that have become secret are sealed."""
    document = dict(definition.document)
    if app.id is not None:
        write.session.add(_former_version(write, app))
    raw = _is_raw(write, document)
    app.source = write.raw.decode() if raw else json.dumps(document, ensure_ascii=False, indent=2)
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


def _former_version(write: WriteRequest, app: App) -> AppVersion:
    versions = versions_of(write.session, app.id)
    return AppVersion(
        app_id=app.id,
        number=len(versions) + 1,
        version=app.version,
        source=app.source,
        replaced_at=write.session.clock(),
        replaced_by=write.session.actor.name,
    )


def _companies_with(write: WriteRequest, app: App) -> Sequence[Company]:
    """Return the companies that may use an application."""
    if app.company_id is None:
        return all_companies(write.session)
    return [write.session.get_one(Company, app.company_id)]


def _seal_values(write: WriteRequest, app: App, definition: Definition) -> None:
    secret = definition.secret_keys
    owners: list[Company | RunTemplate] = [*templates_of_app(write.session, app.id)]
    owners += _companies_with(write, app) if secret else []
    for owner in owners:
        sealed = seal_exposed(StoredValues(owner.env, owner.secrets), secret, write.box)
        if sealed.secrets != owner.secrets:
            owner.env, owner.secrets = sealed.env, sealed.secrets
