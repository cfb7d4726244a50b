"""Credential types."""

from collections.abc import Iterator
from typing import Annotated, Any, Literal

from pydantic import Field, StringConstraints

from jobauto_prefect.definitions import text
from jobauto_prefect.definitions.credentials import secret_keywords
from jobauto_prefect.errors import Fault, InvalidInput
from jobauto_prefect.facade.requests import Body
from jobauto_prefect.facade.requests import parse as parse_body
from jobauto_prefect.facade.spellings import READ_NUMBER, Truth
from jobauto_prefect.facade.values import Values, resealed
from jobauto_prefect.facade.writes.base import (
    LabelledBody,
    LongText,
    Name,
    ShortText,
    Slug,
    Write,
    Written,
    require,
    take,
)
from jobauto_prefect.facade.writes.credentials import tell_prefect
from jobauto_prefect.ledger import queries
from jobauto_prefect.ledger.credentials import credentials_of_type
from jobauto_prefect.ledger.records import CredentialType
from jobauto_prefect.ledger.wishes import WishKind, wish
from jobauto_prefect.runtime import refused_names
from jobauto_prefect.sources.availability import fault_of_check

Language = Annotated[str, StringConstraints(pattern=r"^[a-z]{2}$")]
LocalizedName = Name | Annotated[dict[Language, Name], Field(min_length=1)]
LocalizedText = LongText | Annotated[dict[Language, LongText], Field(min_length=1)]
LOCALIZED = ("name", "description")
"""Members that may be in several languages."""


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


Word = Annotated[str, StringConstraints(min_length=1, max_length=1000, pattern=r"^[^\x00]*$")]


class AvailabilityBody(Body):
    """How to find out whether what a credential opens is there: one of `url` and `command`.

    Both may name fields that are no secrets, as `{KEYWORD}`. A URL is there when it answers with
    2xx; a command, which gets the values in its environment, when it ends with 0. Where it is not
    there, jobs wait `retry_seconds` until they ask again.
    """

    url: Annotated[str, StringConstraints(max_length=2000, pattern=r"^[^\x00\s]+$")] | None = None
    command: Annotated[list[Word], Field(min_length=1, max_length=50)] | None = None
    timeout_seconds: Annotated[float, Field(gt=0, le=10), READ_NUMBER] = 5
    retry_seconds: Annotated[float, Field(ge=1, le=86400), READ_NUMBER] = 60


class CredentialTypeBody(LabelledBody):
    """A credential type, known by its uuid, else its code in any case."""

    uuid: Annotated[str, StringConstraints(pattern=r"^[0-9A-Fa-f-]{36}$")] | None = None
    code: Annotated[Slug, StringConstraints(min_length=2)] | None = None
    name: LocalizedName | None = None
    description: LocalizedText | None = None
    version: ShortText | None = None
    url: ShortText | None = None
    homepage: ShortText | None = None
    logo: LongText | None = None
    tags: list[ShortText] = Field(default_factory=list, max_length=50)
    fields: list[CredentialField] = Field(default_factory=list, max_length=200)
    availability: AvailabilityBody | None = None


APART = {*LOCALIZED, "fields", "availability"}


def write_credential_type(write: Write) -> Written:
    """A credential type; its fields are replaced as a whole.

    Values of fields that have become secret are sealed. Prefect is told of it, of its credentials
    and of their run templates.

    Raises:
        InvalidInput: with every fault.
    """
    body = parse_body(CredentialTypeBody, write.fields)
    faults = list(_faults(write, body))
    if faults:
        raise InvalidInput(faults)
    known = _known_type(write, body)
    created = known is None
    if known is None:
        write.creating("applications", None)
        require(body, "code", "name")
        known = CredentialType(fields=[], translations={})
        write.session.add(known)
    take(known, body, except_for=APART)
    _take_texts(write, known, body)
    if "fields" in body.model_fields_set:
        known.fields = [one.model_dump(mode="json", exclude_none=True) for one in body.fields]
    if "availability" in body.model_fields_set:
        check = body.availability
        known.availability = check.model_dump(exclude_none=True) if check else None
    write.session.flush()
    wish(write.session, WishKind.APPLY_CREDENTIAL_TYPE, known.id)
    _follow(write, known)
    return Written(known, created)


def _faults(write: Write, body: CredentialTypeBody) -> Iterator[Fault]:
    seen = set[str]()
    for place, one in enumerate(body.fields):
        at = f"/fields/{place}/keyword"
        if one.keyword in seen:
            yield Fault(at, "duplicate", f"{one.keyword} is there twice")
        elif refused_names(None, [one.keyword]):
            yield Fault(at, "name", f"{one.keyword} can't be set: it is the service's or unsafe")
        seen.add(one.keyword)
    if body.availability is not None:
        yield from fault_of_check(
            body.availability.model_dump(),
            write.settings,
            [one.model_dump() for one in body.fields] if body.fields else None,
        )


def _take_texts(write: Write, known: CredentialType, body: CredentialTypeBody) -> None:
    """One text for lists, and all of them where there are several."""
    translations = dict(known.translations)
    for member in LOCALIZED:
        if member not in body.model_fields_set:
            continue
        said = getattr(body, member)
        if member == "name" and said is None:
            require(body, "name")
        translations.pop(member, None)
        if isinstance(said, dict):
            translations[member] = said
            said = text(said, write.settings.language)
        setattr(known, member, said)
    known.translations = translations


def _follow(write: Write, kind: CredentialType) -> None:
    secret = secret_keywords(kind.fields)
    for credential in credentials_of_type(write.session, kind.id):
        sealed = resealed(Values(credential.values, credential.secrets), secret, write.box)
        if sealed.secrets != credential.secrets:
            credential.values, credential.secrets = sealed.env, sealed.secrets
        tell_prefect(write.session, credential)


def _known_type(write: Write, body: CredentialTypeBody) -> CredentialType | None:
    if write.record_id is not None:
        return write.known(CredentialType, "applications")
    known = queries.credential_type_known_as(write.session, body.uuid, body.code)
    return write.updatable(known, "applications") if known else None
