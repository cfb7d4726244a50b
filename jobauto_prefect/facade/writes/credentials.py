"""Credentials and topics."""

from collections.abc import Iterator, Sequence
from typing import Annotated, Any, ClassVar

from pydantic import Field, StringConstraints, WithJsonSchema, field_validator

from jobauto_prefect.definitions import to_text
from jobauto_prefect.definitions.mask import MASK
from jobauto_prefect.definitions.records.credentials import (
    field_defaults,
    missing_fields,
    secret_keywords,
    value_faults,
)
from jobauto_prefect.errors import Conflict, Fault, InvalidInput
from jobauto_prefect.facade.http.field_types import READ_NUMBER
from jobauto_prefect.facade.http.requests import parse as parse_body
from jobauto_prefect.facade.models import credentials, topics
from jobauto_prefect.facade.writes.base import (
    CompanySlug,
    LabelledBody,
    Note,
    RecordName,
    Ref,
    WriteRequest,
    WriteResult,
    apply_fields,
    require_fields,
    require_values,
    resolve_company,
)
from jobauto_prefect.facade.writes.env import short_secret_warnings
from jobauto_prefect.facade.writes.ownership import (
    OWNER,
    OwnedBody,
    apply_owner,
    authorize_definition,
    namesake_warnings,
    require_accessible,
    require_administrator,
    require_visible_definition,
    resolve_owner,
    select_named,
)
from jobauto_prefect.facade.writes.secret_destinations import (
    Destination,
    destination_of,
    resubmission_fault,
)
from jobauto_prefect.ledger.audit.trail import WritingSession
from jobauto_prefect.ledger.outbox import OutboxKind, enqueue
from jobauto_prefect.ledger.queries.credentials import (
    credential_named,
    credential_type_usable_as,
    templates_with,
)
from jobauto_prefect.ledger.queries.topics import bearers_of, rename_in, topics_named
from jobauto_prefect.ledger.records import Company, Credential, CredentialType, Topic
from jobauto_prefect.sources import availability, external_values


class CredentialBody(LabelledBody):
    """A credential, known by its name within its company.

    The type is `credential_type_id` or `credential_type` (its code). `values` are by field;
    a blank or masked secret keeps the one there is, but has to be given again, or null, where the
    type or an address among the values changes. `value` is that of a type with one field. So many
    jobs as `max_jobs` may use it at a time; null: as many as like.
    """

    record: ClassVar = credentials.Credential

    name: RecordName | None = None
    company_id: Ref | None = None
    company: CompanySlug = None
    credential_type_id: Ref | None = None
    credential_type: str | None = Field(
        default=None, description="Code of the credential type, instead of `credential_type_id`."
    )
    values: dict[str, Any] = Field(default_factory=dict)
    value: Any = Field(
        default=None,
        description="The value of a type that has one field, instead of `values`.",
    )
    max_jobs: Annotated[int, Field(ge=1, le=10_000), READ_NUMBER] | None = None


def write_credential(write: WriteRequest) -> WriteResult:
    """Write a credential, held to the fields of its type; its secret values are stored encrypted.

    Raises:
        InvalidInput: with every error.
        Conflict: it would move to another company, and run templates have it.
    """
    body = parse_body(CredentialBody, write.fields)
    company = resolve_company(write, body.company_id, body.company)
    credential = _find_credential(write, body, company)
    owner = company or (credential.company if credential else None)
    kind = _resolve_type(write, body, owner)
    created = credential is None
    moved = credential is None or (company is not None and company.id != credential.company_id)
    if moved:
        type_reference = body.credential_type_id or body.credential_type
        names = {"name": body.name, "company_id": company, "credential_type_id": type_reference}
        require_values(names if created else {})
        write.authorize_create("companies", company.id if company else None)
    if owner is not None and (
        used := kind or (credential.credential_type if credential and moved else None)
    ):
        require_accessible(write, used, owner, "/credential_type_id")
    if credential is None:
        credential = Credential(values={}, secrets={})
        write.session.add(credential)
    before = _destination_of(write, credential) if credential.secrets else None
    credential.name = body.name or credential.name
    _apply_company(write, credential, company)
    credential.credential_type = kind or credential.credential_type
    if created or "labels" in body.model_fields_set:
        credential.labels = body.labels
    if "max_jobs" in body.model_fields_set:
        credential.max_jobs = body.max_jobs
    given = _values_of(credential, body)
    warnings = _apply_values(write, credential, given, before, created=created)
    write.session.flush()
    enqueue_sync(write.session, credential)
    return WriteResult(credential, created, warnings)


def enqueue_sync(session: WritingSession, credential: Credential) -> None:
    """Enqueue a credential's block, and the run templates whose parameters leave out its values."""
    enqueue(session, OutboxKind.APPLY_CREDENTIAL, credential.id)
    for template in templates_with(session, [credential.id]):
        enqueue(session, OutboxKind.APPLY_TEMPLATE, template.id)


def _apply_company(write: WriteRequest, credential: Credential, company: Company | None) -> None:
    if company is None or company.id == credential.company_id:
        return
    users = templates_with(write.session, [credential.id]) if credential.id else ()
    if users:
        named = ", ".join(f"runtemplate {template.id}" for template in users)
        raise Conflict(f"these have it, take it from them first: {named}")
    write.authorize_move(credential)
    credential.company_id = company.id


def _values_of(credential: Credential, body: CredentialBody) -> dict[str, Any]:
    if "value" not in body.model_fields_set:
        return body.values
    names = [field["keyword"] for field in credential.credential_type.fields]
    if len(names) != 1:
        message = f"the credential type has {len(names)} fields; give values, by their names"
        raise InvalidInput([Fault("/value", "ambiguous", message)])
    return {names[0]: body.value, **body.values}


def _resolve_type(
    write: WriteRequest, body: CredentialBody, company: Company | None
) -> CredentialType | None:
    """Return the type that a body names, among those its company may use; None: it names none."""
    if company is None:
        return None
    if body.credential_type_id is not None:
        kind = write.session.get(CredentialType, body.credential_type_id)
        message = f"there is no credential_type {body.credential_type_id}"
        return require_visible_definition(write, kind, "/credential_type_id", message)
    if body.credential_type is None:
        return None
    kind = credential_type_usable_as(write.session, body.credential_type, company.id)
    message = f"there is no credential type with the code {body.credential_type}"
    return require_visible_definition(write, kind, "/credential_type", message)


def _find_credential(
    write: WriteRequest, body: CredentialBody, company: Company | None
) -> Credential | None:
    if write.record_id is not None or company is None or body.name is None:
        return write.get_for_update(Credential, "companies")
    credential = credential_named(write.session, company.id, body.name)
    return write.authorize_update(credential, "companies") if credential else None


def _destination_of(write: WriteRequest, credential: Credential) -> Destination:
    kind = credential.credential_type
    return destination_of(kind, credential.values, credential.secrets, write.box)


def _apply_values(
    write: WriteRequest,
    credential: Credential,
    given: dict[str, Any],
    before: Destination | None,
    *,
    created: bool,
) -> list[Fault]:
    """Take the values given, null removes one; return warnings of required ones still to come.

    `before` is where the stored secrets were sent, None: there are none.

    A credential may be made empty and filled then, and files hold no secrets: required values may
    be missing but where others are given to a new credential, or where they are taken away.
    """
    fields = credential.credential_type.fields
    secret = secret_keywords(fields)
    kept = {
        name: value
        for name, value in given.items()
        if name not in secret or value is None or to_text(value) not in ("", MASK)
    }
    faults = [*value_faults(fields, kept)]
    texts = {name: to_text(value) for name, value in kept.items() if value is not None}
    plain = {name: text for name, text in texts.items() if name not in secret}
    sealed = write.box.seal({name: text for name, text in texts.items() if name in secret})
    values = {name: text for name, text in credential.values.items() if name not in kept} | plain
    secrets = {name: text for name, text in credential.secrets.items() if name not in kept} | sealed
    lacking = [field["keyword"] for field in missing_fields(fields, {*values, *secrets})]
    needed = {*kept, *(set(lacking) - secret if created and kept else ())}
    faults += [
        Fault(f"/values/{name}", "required", f"{name} is required")
        for name in lacking
        if name in needed
    ]
    kind, shown = credential.credential_type, {**field_defaults(fields), **values}
    faults += availability.faults_of_values(kind.availability, shown, write.settings)
    faults += external_values.faults_of_values(
        kind.source, shown, credential.company_id, write.settings
    )
    stale = credential.secrets.keys() - kept.keys()
    credential.values, credential.secrets = values, secrets
    changed = list(before.differences(_destination_of(write, credential))) if before else []
    faults += [
        resubmission_fault(f"/values/{name}", name, changed) for name in sorted(stale) if changed
    ]
    if faults:
        raise InvalidInput(faults)
    return [*_missing_warnings(lacking), *short_secret_warnings(texts, secret, "values")]


def _missing_warnings(lacking: Sequence[str]) -> Iterator[Fault]:
    for name in lacking:
        message = f"{name} is required; no job with this credential starts without it"
        yield Fault(f"/values/{name}", "required", message)


class TopicBody(OwnedBody):
    """A topic, known by its name; `color` is six hexadecimal digits."""

    record: ClassVar = topics.Topic

    name: RecordName | None = None
    description: Note | None = None
    color: Annotated[
        str,
        StringConstraints(pattern=r"^[0-9A-Fa-f]{6}$"),
        WithJsonSchema({"type": "string", "pattern": "^#?[0-9A-Fa-f]{6}$"}),
    ] = "C0C0C0"

    @field_validator("color", mode="before")
    @classmethod
    def _without_hash(cls, value: Any) -> Any:
        return value.removeprefix("#") if isinstance(value, str) else value


def write_topic(write: WriteRequest) -> WriteResult:
    """Write a topic."""
    body = parse_body(TopicBody, write.fields)
    owner = resolve_owner(write, body)
    named = topics_named(write.session, body.name) if body.name else ()
    topic = write.get_for_update(Topic, "applications") or (
        select_named(write, owner, named) if write.record_id is None else None
    )
    created, warnings = topic is None, list[Fault]()
    if topic is None:
        authorize_definition(write, owner)
        require_fields(body, "name")
        topic = Topic(company_id=owner.company_id)
        warnings += [] if owner.is_said else namesake_warnings(write, topic, named)
        write.session.add(topic)
    elif body.name is not None:
        require_administrator(write, topic, {"name"} if body.name != topic.name else ())
    is_renamed = not created and body.name not in (None, topic.name)
    before, bearers = topic.name, bearers_of(write.session, topic) if is_renamed else []
    apply_fields(topic, body, except_for=OWNER)
    rename_in(write.session, bearers, before, topic.name)
    apply_owner(write, topic, owner)
    write.session.flush()
    return WriteResult(topic, created, warnings)
