"""Applications: the definition is the record."""

import json
from typing import Any

from jobauto_prefect.definitions import Definition, check, parse, text, validate, version_numbers
from jobauto_prefect.engine.opening import keep_windows
from jobauto_prefect.errors import Conflict, Fault, InvalidDefinition
from jobauto_prefect.facade.requests import Fields
from jobauto_prefect.facade.requests import parse as parse_body
from jobauto_prefect.facade.requirements import unknown_requirements
from jobauto_prefect.facade.values import Values, resealed, secret_keys
from jobauto_prefect.facade.writes.base import LabelledBody, Write, Written, flag
from jobauto_prefect.ledger import queries
from jobauto_prefect.ledger.records import App, AppVersion, Company, RunTemplate
from jobauto_prefect.ledger.wishes import WishKind, wish

OURS = ("enabled", "created_at", "updated_at", "prefect_url", "rule_selectors")
UNREADABLE = frozenset({"duplicate", "number", "text", "key", "depth", "size", "syntax"})
REQUIRED = ("$schema", "name", "description", "executable", "environment")


def read_definition(raw: bytes) -> Fields:
    """The members of a body that is a definition or a part of one.

    Raises:
        InvalidDefinition: it is not JSON that can be kept; every fault is in it.
    """
    report = validate(raw)
    unreadable = not isinstance(report.document, dict)
    if unreadable or any(fault.rule in UNREADABLE for fault in report.faults):
        raise InvalidDefinition(report.faults)
    return dict(report.document)


def write_app(write: Write) -> Written:
    """A whole definition replaces the one of its uuid, else its name; a part of one is merged.

    Raises:
        InvalidDefinition: with every fault.
        Conflict: its version is older than the one that is here, and `force` is not said.
    """
    force = flag(write.fields.pop("force", False), "/force")
    labels = _taken_labels(write)
    given = {name: value for name, value in write.fields.items() if name not in OURS}
    app = _known_app(write, given)
    if app is None:
        write.creating("applications", None)
    document = _completed(write, app, given)
    created, warnings = app is None, list[Fault]()
    if app is None or not _same(document, app.document):
        definition, warnings = _judged(write, document)
        if app is None:
            app = App(name="", source="", document={})
            write.session.add(app)
        elif not force:
            _refuse_older(app, definition)
        _store_definition(write, app, definition)
    elif _is_raw(write, document):
        app.source = write.raw.decode()  # the same, written in another way
    if "enabled" in write.fields:
        app.enabled = flag(write.fields["enabled"], "/enabled")
    if labels is not None:
        app.labels = labels
    required = parse(app.document).requirements
    return Written(app, created, [*warnings, *unknown_requirements(write.session, required)])


def _completed(write: Write, app: App | None, given: Fields) -> Fields:
    """What is given, over what there is of it: a whole definition stands alone."""
    if app is None:
        return {**write.defaults, **given}
    whole = all(name in given for name in REQUIRED)
    return given if whole else {**app.document, **given}


def _taken_labels(write: Write) -> list[str] | None:
    """The labels given, as a list or with commas; an object of that name is the definition's."""
    given = write.fields.get("labels")
    if not isinstance(given, str | list):
        return None
    del write.fields["labels"]
    listed = [word for word in given.split(",") if word] if isinstance(given, str) else given
    return parse_body(LabelledBody, {"labels": listed}).labels


def _judged(write: Write, document: Fields) -> tuple[Definition, list[Fault]]:
    report = validate(write.raw) if _is_raw(write, document) else check(document)
    return report.definition(), list(report.warnings)


def _same(document: Fields, other: Fields) -> bool:
    """As texts: the order of members counts, for forms have it too, and `1` is not `true`."""
    return json.dumps(document) == json.dumps(other)


def _is_raw(write: Write, document: Fields) -> bool:
    """Whether the body is this document and nothing else."""
    return write.raw != b"" and read_definition(write.raw) == document


def _known_app(write: Write, document: Fields) -> App | None:
    if write.record_id is not None:
        return write.known(App, "applications")
    app = _app_of(write, document)
    return write.updatable(app, "applications") if app else None


def _app_of(write: Write, document: Fields) -> App | None:
    uuid, name = document.get("uuid"), document.get("name")
    if isinstance(uuid, str):
        return queries.app_with_uuid(write.session, uuid.lower())
    plain = isinstance(name, str | dict) and name
    return queries.app_named(write.session, _text(write, name)) if plain else None


def _text(write: Write, localized: Any) -> str:
    return text(localized, write.settings.language)


def _refuse_older(app: App, definition: Definition) -> None:
    now, then = version_numbers(app.version or ""), version_numbers(definition.version or "")
    if now is not None and then is not None and then < now:
        raise Conflict(
            f"{app.name} is here in version {app.version}; {definition.version} is older: "
            "say force to take it all the same"
        )


def _store_definition(write: Write, app: App, definition: Definition) -> None:
    """Take over the document and keep the former; values that have become secret are sealed."""
    document = dict(definition.document)
    if app.id is not None:
        write.session.add(_former(write, app))
    raw = _is_raw(write, document)
    app.source = write.raw.decode() if raw else json.dumps(document, ensure_ascii=False, indent=2)
    app.document = document
    app.uuid = definition.uuid.lower() if definition.uuid else None
    app.name = _text(write, definition.name)
    app.version = definition.version
    write.session.flush()
    _seal_values(write, app, definition)
    for template in queries.templates_of_app(write.session, app.id):
        keep_windows(write.session, template, write.settings)
        wish(write.session, WishKind.APPLY_TEMPLATE, template.id)


def _former(write: Write, app: App) -> AppVersion:
    known = queries.versions_of(write.session, app.id)
    return AppVersion(
        app_id=app.id,
        number=len(known) + 1,
        version=app.version,
        source=app.source,
        replaced_at=write.session.clock(),
        replaced_by=write.session.actor.name,
    )


def _seal_values(write: Write, app: App, definition: Definition) -> None:
    secret = secret_keys(definition)
    owners: list[Company | RunTemplate] = [*queries.templates_of_app(write.session, app.id)]
    owners += queries.all_companies(write.session) if secret else []
    for owner in owners:
        sealed = resealed(Values(owner.env, owner.secrets), secret, write.box)
        if sealed.secrets != owner.secrets:
            owner.env, owner.secrets = sealed.env, sealed.secrets
