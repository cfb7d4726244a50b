"""Credentials, their types, and topics."""

from typing import Annotated, Any, Literal

from pydantic import Field, StringConstraints, WithJsonSchema, field_validator

from jobauto_prefect.definitions import to_text
from jobauto_prefect.errors import Fault, InvalidInput
from jobauto_prefect.facade.requests import Body
from jobauto_prefect.facade.requests import parse as parse_body
from jobauto_prefect.facade.spellings import Truth
from jobauto_prefect.facade.writes.base import (
    Id,
    LabelledBody,
    LongText,
    Name,
    ShortText,
    Slug,
    Write,
    Written,
    company_of_body,
    require,
    require_all,
    take,
)
from jobauto_prefect.ledger import queries
from jobauto_prefect.ledger.records import Company, Credential, CredentialType, Topic
from jobauto_prefect.ledger.secrets import MASK

SECRET_TYPES = frozenset({"password", "secret"})


class CredentialField(Body):
    """One member of a credential type; `keyword` is the environment key it fills."""

    keyword: Annotated[str, StringConstraints(pattern=r"^[A-Za-z_][A-Za-z0-9_]{0,127}$")]
    type: Literal[
        "string", "text", "password", "secret", "integer", "float", "bool", "url", "email",
        "file-path", "set",
    ] = "string"  # fmt: skip
    name: str | dict[str, str] | None = None
    description: str | dict[str, str] | None = None
    hint: str | dict[str, str] | None = None
    default_value: Any = None
    required: Truth = False
    options: dict[str, Any] | list[Any] | None = None


class CredentialTypeBody(LabelledBody):
    """A credential type, known by its uuid, else its code."""

    uuid: Annotated[str, StringConstraints(pattern=r"^[0-9A-Fa-f-]{36}$")] | None = None
    code: Annotated[Slug, StringConstraints(min_length=2)] | None = None
    name: Name | None = None
    description: LongText | None = None
    version: ShortText | None = None
    url: ShortText | None = None
    homepage: ShortText | None = None
    logo: LongText | None = None
    fields: list[CredentialField] = Field(default_factory=list, max_length=200)


def write_credential_type(write: Write) -> Written:
    """A credential type; its fields are replaced as a whole."""
    body = parse_body(CredentialTypeBody, write.fields)
    known = _known_type(write, body)
    created = known is None
    if known is None:
        write.creating("applications", None)
        require(body, "code", "name")
        known = CredentialType(fields=[])
        write.session.add(known)
    take(known, body, except_for={"fields"})
    if "fields" in body.model_fields_set:
        known.fields = [one.model_dump(mode="json", exclude_none=True) for one in body.fields]
    write.session.flush()
    return Written(known, created)


def _known_type(write: Write, body: CredentialTypeBody) -> CredentialType | None:
    if write.record_id is not None:
        return write.known(CredentialType, "applications")
    known = queries.credential_type_known_as(write.session, body.uuid, body.code)
    return write.updatable(known, "applications") if known else None


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
    """A credential; its secret values are stored encrypted."""
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
    known.company_id = company.id if company else known.company_id
    known.credential_type = kind or known.credential_type
    if created or "labels" in body.model_fields_set:
        known.labels = body.labels
    _take_values(write, known, _values_of(known, body))
    write.session.flush()
    return Written(known, created)


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


def _take_values(write: Write, credential: Credential, given: dict[str, Any]) -> None:
    types = {one["keyword"]: one.get("type") for one in credential.credential_type.fields}
    unknown = sorted(set(given) - set(types))
    if unknown:
        message = f"the credential type has no field {', '.join(unknown)}"
        raise InvalidInput([Fault("/values", "unknown", message)])
    values, sealed = dict(credential.values), dict(credential.secrets)
    for name, value in given.items():
        secret = types[name] in SECRET_TYPES
        text = "" if value is None else to_text(value)
        if secret and value is not None and text in ("", MASK):
            continue
        values.pop(name, None)
        sealed.pop(name, None)
        if value is not None:
            (sealed if secret else values).update(
                write.box.seal({name: text}) if secret else {name: text}
            )
    credential.values, credential.secrets = values, sealed


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
