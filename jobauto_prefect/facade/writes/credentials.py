"""Credentials and topics."""

from collections.abc import Iterator, Sequence
from typing import Annotated, Any

from pydantic import Field, StringConstraints, WithJsonSchema, field_validator

from jobauto_prefect.definitions import to_text
from jobauto_prefect.definitions.credentials import missing, secret_keywords, value_faults
from jobauto_prefect.errors import Conflict, Fault, InvalidInput
from jobauto_prefect.facade.requests import parse as parse_body
from jobauto_prefect.facade.values import short_secrets
from jobauto_prefect.facade.writes.base import (
    Id,
    LabelledBody,
    LongText,
    Name,
    Write,
    Written,
    company_of_body,
    require,
    require_all,
    take,
)
from jobauto_prefect.ledger import queries
from jobauto_prefect.ledger.audit import WritingSession
from jobauto_prefect.ledger.credentials import templates_with
from jobauto_prefect.ledger.records import Company, Credential, CredentialType, Topic
from jobauto_prefect.ledger.secrets import MASK
from jobauto_prefect.ledger.wishes import WishKind, wish


class CredentialBody(LabelledBody):
    """A credential, known by its name within its company.

    The type is `credential_type_id` or `credential_type` (its code). `values` are its members;
    a blank or masked secret keeps the one there is. `value` is that of a type with one field.
    """

    name: Name | None = None
    company_id: Id | None = None
    company: str | None = None
    credential_type_id: Id | None = None
    credential_type: str | None = None
    values: dict[str, Any] = Field(default_factory=dict)
    value: Any = None


def write_credential(write: Write) -> Written:
    """A credential, held to the fields of its type; its secret values are stored encrypted.

    Raises:
        InvalidInput: with every fault.
        Conflict: it would move to another company, and run templates have it.
    """
    body = parse_body(CredentialBody, write.fields)
    company = company_of_body(write, body.company_id, body.company)
    kind = _type_of(write, body)
    known = _known_credential(write, body, company)
    created = known is None
    if known is None or (company is not None and company.id != known.company_id):
        names = {"name": body.name, "company_id": company, "credential_type_id": kind}
        require_all(names if created else {})
        write.creating("companies", company.id if company else None)
    if known is None:
        known = Credential(values={}, secrets={})
        write.session.add(known)
    known.name = body.name or known.name
    _take_company(write, known, company)
    known.credential_type = kind or known.credential_type
    if created or "labels" in body.model_fields_set:
        known.labels = body.labels
    warnings = _take_values(write, known, _values_of(known, body), created=created)
    write.session.flush()
    tell_prefect(write.session, known)
    return Written(known, created, warnings)


def tell_prefect(session: WritingSession, credential: Credential) -> None:
    """The block of a credential, and the run templates whose parameters leave out its values."""
    wish(session, WishKind.APPLY_CREDENTIAL, credential.id)
    for template in templates_with(session, [credential.id]):
        wish(session, WishKind.APPLY_TEMPLATE, template.id)


def _take_company(write: Write, credential: Credential, company: Company | None) -> None:
    if company is None or company.id == credential.company_id:
        return
    users = templates_with(write.session, [credential.id]) if credential.id else ()
    if users:
        named = ", ".join(f"runtemplate {one.id}" for one in users)
        raise Conflict(f"these have it, take it from them first: {named}")
    credential.company_id = company.id


def _values_of(credential: Credential, body: CredentialBody) -> dict[str, Any]:
    if "value" not in body.model_fields_set:
        return body.values
    names = [one["keyword"] for one in credential.credential_type.fields]
    if len(names) != 1:
        message = f"the credential type has {len(names)} fields; give values, by their names"
        raise InvalidInput([Fault("/value", "ambiguous", message)])
    return {names[0]: body.value, **body.values}


def _type_of(write: Write, body: CredentialBody) -> CredentialType | None:
    if body.credential_type_id is not None:
        pointer = "/credential_type_id"
        return write.referred(CredentialType, body.credential_type_id, pointer, "applications")
    if body.credential_type is None:
        return None
    found = queries.credential_type_known_as(write.session, None, body.credential_type)
    message = f"there is no credential type with the code {body.credential_type}"
    return write.found(found, "/credential_type", message, "applications")


def _known_credential(
    write: Write, body: CredentialBody, company: Company | None
) -> Credential | None:
    if write.record_id is not None or company is None or body.name is None:
        return write.known(Credential, "companies")
    known = queries.credential_named(write.session, company.id, body.name)
    return write.updatable(known, "companies") if known else None


def _take_values(
    write: Write, credential: Credential, given: dict[str, Any], *, created: bool
) -> list[Fault]:
    """Take the values given, null removes one; warnings about required ones still to come.

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
    lacking = [one["keyword"] for one in missing(fields, {*values, *secrets})]
    needed = {*kept, *(set(lacking) - secret if created and kept else ())}
    faults += [
        Fault(f"/values/{name}", "required", f"{name} is required")
        for name in lacking
        if name in needed
    ]
    if faults:
        raise InvalidInput(faults)
    credential.values, credential.secrets = values, secrets
    return [*_still_to_come(lacking), *short_secrets(texts, secret, "values")]


def _still_to_come(lacking: Sequence[str]) -> Iterator[Fault]:
    for name in lacking:
        message = f"{name} is required; no job with this credential starts without it"
        yield Fault(f"/values/{name}", "required", message)


class TopicBody(LabelledBody):
    """A topic, known by its name; `color` is six hexadecimal digits."""

    name: Name | None = None
    description: LongText | None = None
    color: Annotated[
        str,
        StringConstraints(pattern=r"^[0-9A-Fa-f]{6}$"),
        WithJsonSchema({"type": "string", "pattern": "^#?[0-9A-Fa-f]{6}$"}),
    ] = "C0C0C0"

    @field_validator("color", mode="before")
    @classmethod
    def _without_hash(cls, value: Any) -> Any:
        return value.removeprefix("#") if isinstance(value, str) else value


def write_topic(write: Write) -> Written:
    """A topic."""
    body = parse_body(TopicBody, write.fields)
    topic = write.known(Topic, "applications")
    if topic is None and body.name:
        named = queries.topic_named(write.session, body.name)
        topic = write.updatable(named, "applications") if named else None
    created = topic is None
    if topic is None:
        write.creating("applications", None)
        require(body, "name")
        topic = Topic()
        write.session.add(topic)
    take(topic, body)
    write.session.flush()
    return Written(topic, created)
