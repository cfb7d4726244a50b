"""Credentials and topics."""

from collections.abc import Iterator, Sequence
from typing import Annotated, Any

from pydantic import Field, StringConstraints, WithJsonSchema, field_validator

from jobauto_prefect.definitions import to_text
from jobauto_prefect.definitions.credentials import defaults, missing, secret_keywords, value_faults
from jobauto_prefect.definitions.masks import MASK
from jobauto_prefect.errors import Conflict, Fault, InvalidInput
from jobauto_prefect.facade.destinations import Destination, destination_of, given_again
from jobauto_prefect.facade.requests import parse as parse_body
from jobauto_prefect.facade.spellings import READ_NUMBER
from jobauto_prefect.facade.values import short_secrets
from jobauto_prefect.facade.writes.base import (
    LabelledBody,
    LongText,
    Name,
    Ref,
    Write,
    Written,
    company_of_body,
    require,
    require_all,
    take,
)
from jobauto_prefect.facade.writes.ownership import (
    OWNER,
    OwnedBody,
    create_definition,
    namesakes,
    owner_of_body,
    require_accessible,
    require_wide,
    take_owner,
    updatable_named,
    visible_definition,
)
from jobauto_prefect.ledger import queries
from jobauto_prefect.ledger.audit import WritingSession
from jobauto_prefect.ledger.credentials import templates_with
from jobauto_prefect.ledger.records import Company, Credential, CredentialType, Topic
from jobauto_prefect.ledger.topics import bearers_of, rename_in
from jobauto_prefect.ledger.wishes import WishKind, wish
from jobauto_prefect.sources import availability, external_values


class CredentialBody(LabelledBody):
    """A credential, known by its name within its company.

    The type is `credential_type_id` or `credential_type` (its code). `values` are its members;
    a blank or masked secret keeps the one there is, but has to be given again, or null, where the
    type or an address among the values changes. `value` is that of a type with one field. So many
    jobs as `max_jobs` may use it at a time; null: as many as like.
    """

    name: Name | None = None
    company_id: Ref | None = None
    company: str | None = None
    credential_type_id: Ref | None = None
    credential_type: str | None = None
    values: dict[str, Any] = Field(default_factory=dict)
    value: Any = None
    max_jobs: Annotated[int, Field(ge=1, le=10_000), READ_NUMBER] | None = None


def write_credential(write: Write) -> Written:
    """A credential, held to the fields of its type; its secret values are stored encrypted.

    Raises:
        InvalidInput: with every fault.
        Conflict: it would move to another company, and run templates have it.
    """
    body = parse_body(CredentialBody, write.fields)
    company = company_of_body(write, body.company_id, body.company)
    known = _known_credential(write, body, company)
    owner = company or (known.company if known else None)
    kind = _type_of(write, body, owner)
    created = known is None
    moved = known is None or (company is not None and company.id != known.company_id)
    if moved:
        said = body.credential_type_id or body.credential_type
        names = {"name": body.name, "company_id": company, "credential_type_id": said}
        require_all(names if created else {})
        write.creating("companies", company.id if company else None)
    if owner is not None and (used := kind or (known.credential_type if known and moved else None)):
        require_accessible(write, used, owner, "/credential_type_id")
    if known is None:
        known = Credential(values={}, secrets={})
        write.session.add(known)
    before = _destination_of(write, known) if known.secrets else None
    known.name = body.name or known.name
    _take_company(write, known, company)
    known.credential_type = kind or known.credential_type
    if created or "labels" in body.model_fields_set:
        known.labels = body.labels
    if "max_jobs" in body.model_fields_set:
        known.max_jobs = body.max_jobs
    given = _values_of(known, body)
    warnings = _take_values(write, known, given, before, created=created)
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


def _type_of(write: Write, body: CredentialBody, company: Company | None) -> CredentialType | None:
    """The type that a body names, among those its company may use; None: it names none."""
    if company is None:
        return None
    if body.credential_type_id is not None:
        found = write.session.get(CredentialType, body.credential_type_id)
        message = f"there is no credential_type {body.credential_type_id}"
        return visible_definition(write, found, "/credential_type_id", message)
    if body.credential_type is None:
        return None
    found = queries.credential_type_usable_as(write.session, body.credential_type, company.id)
    message = f"there is no credential type with the code {body.credential_type}"
    return visible_definition(write, found, "/credential_type", message)


def _known_credential(
    write: Write, body: CredentialBody, company: Company | None
) -> Credential | None:
    if write.record_id is not None or company is None or body.name is None:
        return write.known(Credential, "companies")
    known = queries.credential_named(write.session, company.id, body.name)
    return write.updatable(known, "companies") if known else None


def _destination_of(write: Write, credential: Credential) -> Destination:
    kind = credential.credential_type
    return destination_of(kind, credential.values, credential.secrets, write.box)


def _take_values(
    write: Write,
    credential: Credential,
    given: dict[str, Any],
    before: Destination | None,
    *,
    created: bool,
) -> list[Fault]:
    """Take the values given, null removes one; warnings about required ones still to come.

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
    lacking = [one["keyword"] for one in missing(fields, {*values, *secrets})]
    needed = {*kept, *(set(lacking) - secret if created and kept else ())}
    faults += [
        Fault(f"/values/{name}", "required", f"{name} is required")
        for name in lacking
        if name in needed
    ]
    kind, shown = credential.credential_type, {**defaults(fields), **values}
    faults += availability.faults_of_values(kind.availability, shown, write.settings)
    slug = write.session.get_one(Company, credential.company_id).slug
    faults += external_values.faults_of_values(kind.source, shown, slug, write.settings)
    stale = credential.secrets.keys() - kept.keys()
    credential.values, credential.secrets = values, secrets
    changed = list(before.differences(_destination_of(write, credential))) if before else []
    faults += [given_again(f"/values/{name}", name, changed) for name in sorted(stale) if changed]
    if faults:
        raise InvalidInput(faults)
    return [*_still_to_come(lacking), *short_secrets(texts, secret, "values")]


def _still_to_come(lacking: Sequence[str]) -> Iterator[Fault]:
    for name in lacking:
        message = f"{name} is required; no job with this credential starts without it"
        yield Fault(f"/values/{name}", "required", message)


class TopicBody(OwnedBody):
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
    owner = owner_of_body(write, body)
    named = queries.topics_named(write.session, body.name) if body.name else ()
    topic = write.known(Topic, "applications") or (
        updatable_named(write, owner, named) if write.record_id is None else None
    )
    created, warnings = topic is None, list[Fault]()
    if topic is None:
        create_definition(write, owner)
        require(body, "name")
        topic = Topic(company_id=owner.company_id)
        warnings += [] if owner.is_said else namesakes(write, topic, named)
        write.session.add(topic)
    elif body.name is not None:
        require_wide(write, topic, {"name"} if body.name != topic.name else ())
    is_renamed = not created and body.name not in (None, topic.name)
    before, bearers = topic.name, bearers_of(write.session, topic) if is_renamed else []
    take(topic, body, except_for=OWNER)
    rename_in(write.session, bearers, before, topic.name)
    take_owner(write, topic, owner)
    write.session.flush()
    return Written(topic, created, warnings)
