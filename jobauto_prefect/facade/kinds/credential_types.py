"""Credential types, as shown and written."""

from collections.abc import Iterator, Mapping
from typing import Annotated, Any, ClassVar, Literal

from pydantic import Field, StringConstraints

from jobauto_prefect.compiler.blocks import block_type_slug
from jobauto_prefect.definitions import pick_text
from jobauto_prefect.definitions.environment_names import unsafe_reason
from jobauto_prefect.definitions.records.credentials import secret_keywords
from jobauto_prefect.errors import Fault, InvalidInput
from jobauto_prefect.facade.answers import (
    Answer,
    JsonObject,
    Owned,
    prefect_link,
    serialize_fields,
)
from jobauto_prefect.facade.formats.html.page_language import Shown, Text
from jobauto_prefect.facade.http.field_types import READ_NUMBER, Boolean
from jobauto_prefect.facade.http.requests import Body
from jobauto_prefect.facade.http.requests import parse as parse_body
from jobauto_prefect.facade.kinds.credentials import enqueue_sync
from jobauto_prefect.facade.kinds.resource import Resource, reference
from jobauto_prefect.facade.writes.assignments import Variable
from jobauto_prefect.facade.writes.base import (
    LongText,
    RecordName,
    ShortText,
    Slug,
    WriteRequest,
    WriteResult,
    apply_fields,
    require_fields,
)
from jobauto_prefect.facade.writes.env import StoredValues, seal_exposed
from jobauto_prefect.facade.writes.ownership import (
    OWNER,
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
from jobauto_prefect.facade.writes.secret_destinations import Destination, destination_of
from jobauto_prefect.kinds import KINDS
from jobauto_prefect.ledger import records
from jobauto_prefect.ledger.outbox import OutboxKind, enqueue
from jobauto_prefect.ledger.queries.credentials import (
    credential_type_with_uuid,
    credential_types_coded,
    credentials_of_type,
)
from jobauto_prefect.settings import Settings
from jobauto_prefect.sources.availability import fault_of_check
from jobauto_prefect.sources.external_values import faults_of_type
from jobauto_prefect.text_patterns import matching, without_nul

Localized = str | dict[str, str]


class CredentialTypeField(Answer):
    """One field of a credential type; `keyword` is the environment key it fills."""

    keyword: str = Field(description="The environment key.")
    type: str = Field(description="The type of the value.")
    name: Localized | None = Field(default=None, description="Display name.")
    description: Localized | None = Field(default=None, description="What it is for.")
    hint: Localized | None = Field(
        default=None,
        description="An example or advice for the person who fills in the field.",
    )
    default_value: Any = Field(
        default=None, description="Used if a credential has no value for the field."
    )
    required: bool = Field(description="Whether a credential must have a value for the field.")
    options: dict[str, Any] | list[Any] | None = Field(
        default=None,
        description="The values to choose from: an object of values and their labels, or an array "
        "of values.",
    )


class Availability(Answer):
    """How to check that a credential's target is reachable."""

    url: str | None = Field(
        default=None,
        description="URL that answers with 2xx if the target is reachable; `{KEYWORD}` stands for "
        "a field.",
    )
    command: list[str] | None = Field(
        default=None,
        description="Argument vector of a command that exits with 0 if the target is reachable.",
    )
    timeout_seconds: float = Field(
        description="Seconds after which the target counts as unreachable."
    )
    retry_seconds: float = Field(description="Seconds until a waiting job checks again.")


class CredentialType(Owned):
    """A type of credential: its values, and which of them are secret."""

    uuid: str | None = Field(description="Identifies it across installations.")
    code: str = Field(description="Unique short name.")
    name: str = Field(description="Display name.")
    description: str | None = Field(description="What it is for.")
    version: str | None = Field(description="Its version.")
    url: str | None = Field(description="URL of the system it signs in to.")
    homepage: str | None = Field(description="Its home page.")
    logo: str | None = Field(description="An image: a URL or a data URL.")
    translations: dict[str, dict[str, str]] = Field(
        description="Texts in several languages, by field and language."
    )
    tags: list[str] = Field(description="Keywords.")
    fields: list[CredentialTypeField] = Field(description="Its fields.")
    availability: Availability | None = Field(
        description="How to check that a credential's target is reachable; null: no check."
    )
    source: str | None = Field(
        description="Where further values come from when a job starts; null: nowhere."
    )
    stock: bool = Field(
        description="Whether the service created it at its first start and nobody has changed it "
        "since."
    )
    prefect_url: str | None = Field(
        description="Address of its block type's page in Prefect's UI; null: it is not in Prefect "
        "yet."
    )


UUID = r"^[0-9A-Fa-f]{8}(-[0-9A-Fa-f]{4}){3}-[0-9A-Fa-f]{12}$"


Language = Annotated[str, matching(r"^[a-z]{2}$", "must be two lower-case letters, such as en")]


LocalizedName = RecordName | Annotated[dict[Language, RecordName], Field(min_length=1)]


LocalizedText = LongText | Annotated[dict[Language, LongText], Field(min_length=1)]


LOCALIZED = ("name", "description")
"""Fields that may have texts in several languages."""


class CredentialField(Body):
    """One field of a credential type; `keyword` is the environment key it fills."""

    record: ClassVar = CredentialTypeField

    keyword: Variable
    type: Literal[
        "string", "text", "password", "secret", "integer", "float", "bool", "url", "email",
        "file-path", "set",
    ] = "string"  # fmt: skip
    name: str | dict[str, str] | None = None
    description: str | dict[str, str] | None = None
    hint: str | dict[str, str] | None = None
    default_value: Any = None
    required: Boolean = False
    options: dict[str, Any] | list[Any] | None = None


Word = Annotated[str, without_nul(min_length=1, max_length=1000)]


class AvailabilityBody(Body):
    """How to check that a credential's target is reachable: either `url` or `command`.

    Both may refer to fields that are not secret, as `{KEYWORD}`. The target is reachable if the URL
    answers with 2xx, or if the command, which gets the values in its environment, exits with 0.
    Otherwise jobs wait `retry_seconds` before they check again.
    """

    record: ClassVar = Availability

    url: (
        Annotated[
            str, matching(r"^[^\x00\s]+$", "must not be empty or contain spaces", max_length=2000)
        ]
        | None
    ) = None
    command: Annotated[list[Word], Field(min_length=1, max_length=50)] | None = None
    timeout_seconds: Annotated[float, Field(gt=0, le=10), READ_NUMBER] = 5
    retry_seconds: Annotated[float, Field(ge=1, le=86400), READ_NUMBER] = 60


FIELDS_EXAMPLE = '[{"keyword": "BANK_PIN", "type": "password", "name": "PIN", "required": true}]'
AVAILABILITY_EXAMPLE = '{"url": "https://{BANK_HOST}/status"}'


class CredentialTypeBody(OwnedBody):
    """A credential type, identified by its uuid, else by its code (case-insensitive)."""

    record: ClassVar = CredentialType

    uuid: Annotated[Annotated[str, matching(UUID, "must be a UUID")] | None, Shown("UUID")] = None
    code: Annotated[Annotated[Slug, StringConstraints(min_length=2)] | None, Shown("Code")] = None
    name: Annotated[
        LocalizedName | None,
        Shown("Name", "Several languages: one per line, for example en: Bank", control="localized"),
    ] = Field(default=None, description="Display name: a text, or texts by language.")
    description: Annotated[
        LocalizedText | None,
        Shown(
            "Description",
            "Several languages: one per line, for example en: Bank",
            control="localized",
        ),
    ] = Field(default=None, description="What it is for: a text, or texts by language.")
    version: Annotated[ShortText | None, Shown("Version")] = None
    url: Annotated[ShortText | None, Shown("Address")] = None
    homepage: Annotated[ShortText | None, Shown("Home page")] = None
    logo: LongText | None = None
    tags: Annotated[
        list[ShortText], Shown("Keywords", "Separate them with commas.", control="words")
    ] = Field(default_factory=list, max_length=50)
    fields: Annotated[
        list[CredentialField],
        Shown("Fields", "JSON, for example {example}", control="json", example=FIELDS_EXAMPLE),
    ] = Field(default_factory=list, max_length=200)
    availability: Annotated[
        AvailabilityBody | None,
        Shown(
            "Availability check",
            "JSON, for example {example}",
            control="json",
            example=AVAILABILITY_EXAMPLE,
        ),
    ] = None
    source: Annotated[
        Literal["env_file", "vault"] | None,
        Shown("Source of further values", choices={"": Text("none")}),
    ] = None


APART = {*LOCALIZED, *OWNER, "fields", "availability"}


def write_credential_type(write: WriteRequest) -> WriteResult:
    """Write a credential type; its fields are replaced as a whole.

    Values of fields that have become secret are sealed. The type, its credentials and their run
    templates are updated in Prefect.

    Raises:
        InvalidInput: with every error.
    """
    body = parse_body(CredentialTypeBody, write.fields)
    owner = resolve_owner(write, body)
    kind = _find_type(write, body, owner)
    faults = list(_faults(write, body, kind))
    if faults:
        raise InvalidInput(faults)
    created, warnings = kind is None, list[Fault]()
    if kind is None:
        authorize_definition(write, owner)
        require_fields(body, "code", "name")
        kind = records.CredentialType(fields=[], translations={}, company_id=owner.company_id)
        if not owner.is_said and body.code is not None:
            others = credential_types_coded(write.session, body.code)
            warnings += namesake_warnings(write, kind, others)
    destinations, identity = _destinations(write, kind), _identity(kind)
    apply_fields(kind, body, except_for=APART)
    kind.stock = False
    _apply_texts(write, kind, body)
    if created:
        write.session.add(kind)
    else:  # before the database compares it with other records
        after = _identity(kind)
        changed = {name for name, value in identity.items() if value != after[name]}
        require_administrator(write, kind, changed)
    apply_owner(write, kind, owner)
    if "fields" in body.model_fields_set:
        kind.fields = [field.model_dump(mode="json", exclude_none=True) for field in body.fields]
    if "availability" in body.model_fields_set:
        check = body.availability
        kind.availability = check.model_dump(exclude_none=True) if check else None
    _refuse_other_destinations(destinations, _destinations(write, kind))
    write.session.flush()
    enqueue(write.session, OutboxKind.APPLY_CREDENTIAL_TYPE, kind.id)
    _update_credentials(write, kind)
    return WriteResult(kind, created, warnings)


def _identity(kind: records.CredentialType) -> Mapping[str, Any]:
    names = kind.translations.get("name", kind.name)
    return {"code": kind.code, "uuid": kind.uuid and kind.uuid.lower(), "name": names}


def _faults(
    write: WriteRequest, body: CredentialTypeBody, kind: records.CredentialType | None
) -> Iterator[Fault]:
    seen = set[str]()
    for place, field in enumerate(body.fields):
        at = f"/fields/{place}/keyword"
        if field.keyword in seen:
            yield Fault(at, "duplicate", f"{field.keyword} is declared twice; remove one")
        elif reason := unsafe_reason(field.keyword):
            yield Fault(at, "name", f"{field.keyword} {reason}")
        seen.add(field.keyword)
    fields = [field.model_dump() for field in body.fields]
    if kind is not None and "fields" not in body.model_fields_set:
        fields = kind.fields
    if body.availability is not None:
        yield from fault_of_check(body.availability.model_dump(), write.settings, fields)
    source: str | None = body.source
    if kind is not None and "source" not in body.model_fields_set:
        source = kind.source
    yield from faults_of_type(source, [field["keyword"] for field in fields])


def _destinations(write: WriteRequest, kind: records.CredentialType) -> dict[int, Destination]:
    """Return the addresses to which secrets of this type's credentials are sent.

    Only for credentials with secrets that the writer may not read.
    """
    held = credentials_of_type(write.session, kind.id) if kind.id else ()
    return {
        credential.id: destination_of(kind, credential.values, credential.secrets, write.box)
        for credential in held
        if credential.secrets
        and not write.who.rights.may("credentials.reveal", credential.company_id)
    }


def _refuse_other_destinations(
    before: Mapping[int, Destination], after: Mapping[int, Destination]
) -> None:
    changed = {
        (name, number)
        for number, destination in before.items()
        for name in destination.differences(after[number])
    }
    faults = []
    for member in sorted({name for name, _ in changed}):
        held = ", ".join(str(number) for name, number in sorted(changed) if name == member)
        message = (
            f"changing {member} would send the secrets of these credentials elsewhere: {held}; "
            "remove the secrets first (null) and set them again afterwards, or ask somebody who "
            "may reveal them"
        )
        pointer = "/availability/command" if member == "availability" else "/fields"
        faults.append(Fault(pointer, "secret", message))
    if faults:
        raise InvalidInput(faults)


def _apply_texts(
    write: WriteRequest, kind: records.CredentialType, body: CredentialTypeBody
) -> None:
    """Set one text for lists, and all texts if there are several languages."""
    translations = dict(kind.translations)
    for member in LOCALIZED:
        if member not in body.model_fields_set:
            continue
        value = getattr(body, member)
        if member == "name" and value is None:
            require_fields(body, "name")
        translations.pop(member, None)
        if isinstance(value, dict):
            translations[member] = value
            value = pick_text(value, write.settings.language)
        setattr(kind, member, value)
    kind.translations = translations


def _update_credentials(write: WriteRequest, kind: records.CredentialType) -> None:
    secret = secret_keywords(kind.fields)
    for credential in credentials_of_type(write.session, kind.id):
        sealed = seal_exposed(
            StoredValues(credential.values, credential.secrets), secret, write.box
        )
        if sealed.secrets != credential.secrets:
            credential.values, credential.secrets = sealed.env, sealed.secrets
        enqueue_sync(write.session, credential)


def _find_type(
    write: WriteRequest, body: CredentialTypeBody, owner: Owner
) -> records.CredentialType | None:
    if write.record_id is not None:
        return write.get_for_update(records.CredentialType, "applications")
    if body.uuid is not None:
        of_uuid = credential_type_with_uuid(write.session, body.uuid)
        if (kind := authorize_visible(write, of_uuid)) is not None:
            return kind
    if body.code is None:
        return None
    coded = credential_types_coded(write.session, body.code)
    return select_named(write, owner, coded)


def serialize_credential_type(kind: records.CredentialType, settings: Settings) -> JsonObject:
    """Return a credential type as answers show it."""
    slug = block_type_slug(kind.code, kind.id) if kind.block_type_id else None
    link = prefect_link(settings, "blocks/catalog", slug)
    return serialize_fields(CredentialType, kind, prefect_url=link)


RESOURCE = Resource(
    KINDS["credential_type"], records.CredentialType, CredentialType, serialize_credential_type,
    write_credential_type,
    filters={"company_id": reference("company")},
    body=CredentialTypeBody,
)  # fmt: skip
