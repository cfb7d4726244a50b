"""Credentials, as shown and written."""

from typing import Annotated, Any, ClassVar

from pydantic import Field

from jobauto_prefect.definitions import to_text
from jobauto_prefect.definitions.records.credentials import (
    field_defaults,
    missing_fields,
    secret_keywords,
    value_faults,
)
from jobauto_prefect.definitions.values import MASK
from jobauto_prefect.errors import Conflict, Fault, InvalidInput
from jobauto_prefect.facade.answers import (
    JsonObject,
    Labelled,
    prefect_link,
    serialize_fields,
)
from jobauto_prefect.facade.formats.html.page_language import Shown
from jobauto_prefect.facade.http.field_types import READ_NUMBER
from jobauto_prefect.facade.http.requests import parse as parse_body
from jobauto_prefect.facade.kinds.resource import NAME, Resource, reference
from jobauto_prefect.facade.writes.base import (
    CompanySlug,
    LabelledBody,
    RecordName,
    Ref,
    WriteRequest,
    WriteResult,
    require_values,
    resolve_company,
)
from jobauto_prefect.facade.writes.env import StoredValues, short_secret_warnings
from jobauto_prefect.facade.writes.ownership import (
    require_accessible,
    require_visible_definition,
)
from jobauto_prefect.facade.writes.secret_destinations import (
    Destination,
    destination_of,
    resubmission_fault,
)
from jobauto_prefect.kinds import KINDS
from jobauto_prefect.ledger import records
from jobauto_prefect.ledger.audit.trail import WritingSession
from jobauto_prefect.ledger.outbox import OutboxKind, enqueue
from jobauto_prefect.ledger.queries.credentials import (
    credential_named,
    credential_type_usable_as,
    templates_with,
)
from jobauto_prefect.ledger.records import (
    Company,
    CredentialType,
)
from jobauto_prefect.settings import Settings
from jobauto_prefect.sources import availability, external_values


class Credential(Labelled):
    """A company's values for a credential type; secret ones are masked."""

    name: str = Field(description="Its name.")
    company_id: int = Field(description="The company.")
    credential_type_id: int = Field(description="The credential type.")
    max_jobs: int | None = Field(
        description="How many jobs may use it at the same time; null: no limit."
    )
    values: dict[str, str] = Field(
        description="Its values by keyword. Secrets are masked in answers; a secret that is sent "
        "blank or masked stays as it is."
    )
    prefect_url: str | None = Field(
        description="Address of its block's page in Prefect's UI; null: it is not in Prefect yet."
    )


class CredentialBody(LabelledBody):
    """A credential, identified by its name within its company.

    The type is `credential_type_id` or `credential_type` (its code). `values` are by field. A blank
    or masked secret keeps the stored secret. If the type or an address among the values changes,
    each secret must be sent again, or null. `value` is the value of a type with one field. At most
    `max_jobs` jobs may use the credential at the same time; null: no limit.
    """

    record: ClassVar = Credential

    name: Annotated[RecordName | None, Shown("Name")] = None
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
    max_jobs: Annotated[
        Annotated[int, Field(ge=1, le=10_000), READ_NUMBER] | None,
        Shown("Concurrent jobs", "Leave empty for no limit."),
    ] = None


def write_credential(write: WriteRequest) -> WriteResult:
    """Write a credential, validated against its type; secret values are stored encrypted.

    Raises:
        InvalidInput: with every error.
        Conflict: it would move to another company while run templates use it.
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
        credential = records.Credential(values={}, secrets={})
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


def enqueue_sync(session: WritingSession, credential: records.Credential) -> None:
    """Enqueue a credential's block, and the run templates whose parameters leave out its values."""
    enqueue(session, OutboxKind.APPLY_CREDENTIAL, credential.id)
    for template in templates_with(session, credential.id):
        enqueue(session, OutboxKind.APPLY_TEMPLATE, template.id)


def _apply_company(
    write: WriteRequest, credential: records.Credential, company: Company | None
) -> None:
    if company is None or company.id == credential.company_id:
        return
    users = templates_with(write.session, credential.id) if credential.id else ()
    if users:
        named = ", ".join(f"run template {template.id}" for template in users)
        raise Conflict(f"run templates use it; remove it from these first: {named}")
    write.authorize_move(credential)
    credential.company_id = company.id


def _values_of(credential: records.Credential, body: CredentialBody) -> dict[str, Any]:
    if "value" not in body.model_fields_set:
        return body.values
    names = [field["keyword"] for field in credential.credential_type.fields]
    if len(names) != 1:
        message = f"the credential type has {len(names)} fields; send values by field instead"
        raise InvalidInput([Fault("/value", "ambiguous", message)])
    return {names[0]: body.value, **body.values}


def _resolve_type(
    write: WriteRequest, body: CredentialBody, company: Company | None
) -> CredentialType | None:
    """Return the type a body names, among those its company may use; None if it names none."""
    if company is None:
        return None
    if body.credential_type_id is not None:
        kind = write.session.get(CredentialType, body.credential_type_id)
        message = f"there is no credential type {body.credential_type_id}"
        return require_visible_definition(write, kind, "/credential_type_id", message)
    if body.credential_type is None:
        return None
    kind = credential_type_usable_as(write.session, body.credential_type, company.id)
    message = f"there is no credential type with the code {body.credential_type}"
    return require_visible_definition(write, kind, "/credential_type", message)


def _find_credential(
    write: WriteRequest, body: CredentialBody, company: Company | None
) -> records.Credential | None:
    if write.record_id is not None or company is None or body.name is None:
        return write.get_for_update(records.Credential, "companies")
    credential = credential_named(write.session, company.id, body.name)
    return write.authorize_update(credential, "companies") if credential else None


def _destination_of(write: WriteRequest, credential: records.Credential) -> Destination:
    kind = credential.credential_type
    return destination_of(kind, credential.values, credential.secrets, write.box)


def _apply_values(
    write: WriteRequest,
    credential: records.Credential,
    given: dict[str, Any],
    before: Destination | None,
    *,
    created: bool,
) -> list[Fault]:
    """Apply the given values (null removes one); return warnings for required ones missing.

    `before` is where the stored secrets were sent; None: there are none. A credential may be
    created empty and filled later, and files hold no secrets: required values may be missing,
    unless a new credential has others or they are being removed.
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
    missing = [
        Fault(f"/values/{name}", "required",
              f"{name} is required; no job with this credential starts without it")
        for name in lacking
    ]  # fmt: skip
    return [*missing, *short_secret_warnings(texts, secret, "values")]


def serialize_credential(credential: records.Credential, settings: Settings) -> JsonObject:
    """Return a credential as answers show it; secret values are masked."""
    values = StoredValues(credential.values, credential.secrets).shown()
    link = prefect_link(settings, "blocks/block", credential.block_document_id)
    return serialize_fields(Credential, credential, values=values, prefect_url=link)


RESOURCE = Resource(
    KINDS["credential"], records.Credential, Credential, serialize_credential, write_credential,
    filters={
        "name": NAME,
        "company_id": reference("company"),
        "credential_type_id": reference("credential_type"),
    },
    body=CredentialBody,
)  # fmt: skip
