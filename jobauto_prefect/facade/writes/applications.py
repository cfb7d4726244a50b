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
from jobauto_prefect.definitions.records.names import name_faults
from jobauto_prefect.errors import Conflict, Fault, InvalidDefinition
from jobauto_prefect.facade.http.requests import WHOLE_BODY, Fields
from jobauto_prefect.facade.writes.application_fields import (
    ApplicationBody,
    complete_document,
    document_in,
    parse_application,
    read_definition,
)
from jobauto_prefect.facade.writes.base import WriteRequest, WriteResult
from jobauto_prefect.facade.writes.env import StoredValues, seal_exposed
from jobauto_prefect.facade.writes.executors import forbid_more
from jobauto_prefect.facade.writes.ownership import (
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
    apply_existing_topics,
    apply_topics,
    require_own_topics,
)
from jobauto_prefect.jobs.claims.approval import approve_definition, unapproved_in_definition
from jobauto_prefect.jobs.claims.credential_warnings import unknown_requirements
from jobauto_prefect.jobs.windows.due_windows import keep_windows
from jobauto_prefect.ledger.outbox import OutboxKind, enqueue
from jobauto_prefect.ledger.queries.applications import app_with_uuid, apps_named, versions_of
from jobauto_prefect.ledger.queries.companies import all_companies
from jobauto_prefect.ledger.queries.run_templates import templates_of_app
from jobauto_prefect.ledger.queries.topics import enqueue_bearer
from jobauto_prefect.ledger.records import App, AppVersion, Company, RunTemplate


def write_app(write: WriteRequest) -> WriteResult:
    """Write an application: a whole definition replaces that of its uuid, else name; a part merges.

    Raises:
        InvalidDefinition: with every error.
        Forbidden: who asks would change what needs an administrator.
        Conflict: its version is older than the one that is here, and `force` is not said; or it
            can't belong to that company.
    """
    body = parse_application(write)
    owner = resolve_owner(write, body)
    is_definition = write.fields.pop("definition", None) is WHOLE_BODY
    given = read_definition(write.raw) if is_definition else document_in(write)
    app = _find_app(write, given, owner)
    if app is None:
        authorize_definition(write, owner)
    document = given if is_definition else complete_document(write, app, given)
    created, warnings = app is None, list[Fault]()
    unapproved_before = _unapproved(write, app) if app else []
    if app is not None:
        require_administrator(write, app, _identity_changed(app, document))
    if app is None or not _is_same(document, app.document):
        definition, warnings = _validate(write, document)
        if app is None:
            app = App(name="", source="", document={}, approved={}, company_id=owner.company_id)
            # Before it is added: a query would flush it, and what it holds so far be a version.
            warnings += _namesakes(write, app, definition, owner)
            write.session.add(app)
        elif not body.force:
            _refuse_older(app, definition)
        _store_definition(write, app, definition)
    elif _is_raw(write, document):
        app.source = write.raw.decode()  # the same, written in another way
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


def _apply_topics(
    write: WriteRequest, app: App, body: ApplicationBody, document: Fields
) -> list[Fault]:
    """Attach what is said, else what a definition lists itself and there are topics for."""
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


def _validate(write: WriteRequest, document: Fields) -> tuple[Definition, list[Fault]]:
    report = validate(write.raw) if _is_raw(write, document) else check(document)
    faults = [*report.faults, *name_faults(document)]
    if faults:
        raise InvalidDefinition(faults)
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
