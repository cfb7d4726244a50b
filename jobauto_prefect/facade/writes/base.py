"""What all writes share. Each works in the caller's transaction; an update changes only the
fields given.
"""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Annotated, Any, ClassVar, TypeVar

from pydantic import AfterValidator, BaseModel, Field, WithJsonSchema
from pydantic.json_schema import JsonSchemaValue
from pydantic_core import PydanticCustomError

from jobauto_prefect.definitions.records.names import BLANK_END, has_blank_end
from jobauto_prefect.definitions.records.value_rules import ValueRules
from jobauto_prefect.engine.hand_overs import Start
from jobauto_prefect.engine.outbox_worker import OutboxWorker
from jobauto_prefect.errors import Fault, Forbidden, InvalidInput
from jobauto_prefect.facade.answers import Labelled
from jobauto_prefect.facade.auth.identity import Identity
from jobauto_prefect.facade.formats.html.page_language import Shown
from jobauto_prefect.facade.http.field_types import READ_INTEGER, OrText, as_bool
from jobauto_prefect.facade.http.requests import Body, Fields, read_json_object
from jobauto_prefect.facade.writes.env import StoredValues, merge_values
from jobauto_prefect.ledger.access.ownership import company_of
from jobauto_prefect.ledger.audit.trail import WritingSession
from jobauto_prefect.ledger.base import Base, noun_of
from jobauto_prefect.ledger.queries.lookup import get_record
from jobauto_prefect.ledger.queries.names import company_with_slug
from jobauto_prefect.ledger.records import (
    Company,
    Credential,
    EventSource,
    OutboxMessage,
    RunTemplate,
)
from jobauto_prefect.ledger.secrets import SecretBox
from jobauto_prefect.settings import Settings
from jobauto_prefect.text_patterns import matching, without_nul

NO_BLANK_ENDS = r"^[^\s\x00]([^\x00]*[^\s\x00])?$"


def _refuse_blank_end(name: str) -> str:
    if has_blank_end(name):
        raise PydanticCustomError("blank", BLANK_END)
    return name


Name = Annotated[str, without_nul(min_length=1, max_length=250)]
RecordName = Annotated[
    Name,
    AfterValidator(_refuse_blank_end),
    WithJsonSchema({"type": "string", "minLength": 1, "maxLength": 250, "pattern": NO_BLANK_ENDS}),
]
"""A record's own name; a reference to one is a `Name`."""

ShortText = Annotated[str, without_nul(max_length=255)]
Note = Annotated[str, without_nul(max_length=10_000)]
"""Display texts, which lists and the audit trail repeat."""

LongText = Annotated[str, without_nul(max_length=1_000_000)]
Slug = Annotated[
    str,
    matching(
        r"^[A-Za-z0-9][A-Za-z0-9_-]{0,63}$",
        "must be up to 64 letters, digits, - and _, and begin with a letter or digit",
    ),
]
Id = Annotated[int, Field(ge=1, le=2**31 - 1), READ_INTEGER, OrText(r"^[1-9][0-9]{0,8}$")]

Ref = Annotated[Id, OrText("[^0-9]")]
"""A record's id; the route has replaced names by ids."""

LABEL = "[A-Za-z0-9][A-Za-z0-9_.-]{0,63}"
"""Pattern of a label."""

Label = Annotated[
    str,
    matching(
        f"^{LABEL}$",
        "must be up to 64 letters, digits, _, . and -, and begin with a letter or digit",
    ),
]
Labels = Annotated[list[Label], Field(max_length=20)]

CompanySlug = Annotated[
    str | None, Field(description="Slug of the company, instead of `company_id`.")
]

OBJECT_TEXT: tuple[JsonSchemaValue, ...] = (
    {"type": "string", "contentMediaType": "application/json", "pattern": "^[ \\t\\r\\n]*\\{"},
    {"type": "string", "pattern": "^[ \\t\\r\\n]*$"},
)
"""JSON Schemas of the texts that `parse_object` accepts."""

R = TypeVar("R", bound=Base)
NEVER_NULL = frozenset({"name", "slug", "login", "code", "db_database", "runtemplate_id"})
"""Fields that a body may leave out but every record has."""


def parse_object(value: Any) -> Any:
    """Parse the JSON text of an object; blank text is an empty one. Return other values unchanged.

    Raises:
        ValueError: the text is not a JSON object.
    """
    if not isinstance(value, str):
        return value
    try:
        return read_json_object(value.encode()) if value.strip(" \t\r\n") else {}
    except InvalidInput as error:
        message = "must be a JSON object, such as {example}; {reason}"
        reason = error.faults[0].message.replace("the body", "the text")
        shown = {"example": '{"key": "value"}', "reason": reason}
        raise PydanticCustomError("json", message, shown) from None


class LabelledBody(Body):
    """Base of the bodies of records that files can own."""

    record: ClassVar[type[BaseModel]] = Labelled

    labels: Annotated[
        Labels,
        Shown(
            "Owning file sets",
            "One per line. jobauto apply overwrites the record from their files.",
            control="lines",
        ),
    ] = Field(default_factory=list)


@dataclass(frozen=True, slots=True)
class WriteRequest:
    """One request to create or update a record; `record_id` None: it names none.

    `defaults` are values of a new record for what the request leaves out. `outbox_worker` is this
    process's, which can carry out the `starts` of a `WriteResult`; None: another process carries
    them out.
    """

    session: WritingSession
    box: SecretBox
    settings: Settings
    who: Identity
    fields: Fields
    record_id: int | None = None
    raw: bytes = b""
    defaults: Mapping[str, Any] = field(default_factory=dict)
    outbox_worker: OutboxWorker | None = None

    def get_for_update(self, kind: type[R], permissions: str) -> R | None:
        """Return the record with the request's id, if the user may update it; None: it has no id.

        Raises:
            NotFound: there is no such record, or the user may not see it.
            Forbidden: they may see it, but not change it.
        """
        if self.record_id is None:
            return None
        return self.authorize_update(get_record(self.session, kind, self.record_id), permissions)

    def authorize_update(self, record: R, permissions: str) -> R:
        """Return the record if the user may update it.

        Raises:
            NotFound: they may not even see it.
            Forbidden: they may see it, but not change it.
        """
        self.who.rights.require(permissions, "update", company_of(record), record)
        return record

    def authorize_create(self, permissions: str, company_id: int | None) -> None:
        """Require the permission to create a record of this kind (in this company).

        Raises:
            Forbidden: the user lacks it.
        """
        self.who.rights.require(permissions, "create", company_id)

    def authorize_move(self, record: Credential | EventSource | RunTemplate) -> None:
        """Require the permission to move a record with its secrets out of its company.

        In the other company, its secrets may be revealed, or used by anyone who configures jobs
        there; so may those of a run template's former jobs, which retries get again. A new record
        has no company.

        Raises:
            Forbidden: the user may not reveal secrets in the company it leaves.
        """
        if record.id is not None and not self.who.rights.may(
            "credentials.reveal", company_of(record)
        ):
            raise Forbidden(
                f"moving {noun_of(record)} {record.id} with its secrets to another company "
                "needs the permission credentials.reveal in its current company; ask an "
                "administrator"
            )

    def resolve_reference(self, kind: type[R], record_id: int, pointer: str, permissions: str) -> R:
        """Return a record that the body refers to.

        Raises:
            InvalidInput: there is none, or the user may not see it.
        """
        record = self.session.get(kind, record_id)
        return self.require_visible(
            record, pointer, f"there is no {noun_of(kind)} {record_id}", permissions
        )

    def require_visible(self, record: R | None, pointer: str, message: str, permissions: str) -> R:
        """Return a record that was looked up, if the user may see it.

        Raises:
            InvalidInput: it is None or retired, or the user may not see it.
        """
        gone = record is None or getattr(record, "retired_at", None) is not None
        if record is None or gone or not self.who.rights.may_read(permissions, company_of(record)):
            raise InvalidInput([Fault(pointer, "reference", message)])
        return record


@dataclass(slots=True)
class WriteResult:
    """The record that was written, and the starts of jobs that this process hands over itself."""

    record: Any
    created: bool
    warnings: list[Fault] = field(default_factory=list)
    starts: Mapping[OutboxMessage, Start] = field(default_factory=dict)


def resolve_company(
    write: WriteRequest, company_id: int | None, slug: str | None
) -> Company | None:
    """Return the company that a body names by id or slug; None: it names none."""
    if company_id is not None:
        return write.resolve_reference(Company, company_id, "/company_id", "companies")
    if slug is None:
        return None
    company = company_with_slug(write.session, slug)
    message = f"there is no company with the slug {slug}"
    return write.require_visible(company, "/company", message, "companies")


@contextmanager
def collected(faults: list[Fault]) -> Iterator[None]:
    """Collect the errors of one part of a body, so that the other parts are validated too."""
    try:
        yield
    except InvalidInput as error:
        faults += error.faults


def require_fields(body: Body, *names: str) -> None:
    """Require these fields of a new record.

    Raises:
        InvalidInput: naming every one that is missing.
    """
    require_values({name: getattr(body, name) for name in names})


def require_values(given: dict[str, Any]) -> None:
    """Require values that were looked up, like `require_fields` those of a body."""
    faults = [
        Fault(f"/{name}", "required", f"{name} is required")
        for name, value in given.items()
        if value is None
    ]
    if faults:
        raise InvalidInput(faults)


def apply_fields(
    record: Any, body: Body, except_for: frozenset[str] | set[str] = frozenset()
) -> None:
    """Apply the given fields to a record; a new one gets the defaults of the others."""
    new = record.id is None
    for name in type(body).model_fields if new else body.model_fields_set:
        if name not in except_for:
            value = getattr(body, name)
            if value is None and name in NEVER_NULL:
                raise InvalidInput([Fault(f"/{name}", "required", f"{name} can't be null")])
            setattr(record, name, value)


def apply_env(
    owner: Company | RunTemplate,
    given: Fields,
    secret: set[str],
    box: SecretBox,
    rules: ValueRules,
) -> None:
    """Apply the given values of `env`; null removes one.

    Raises:
        InvalidInput: a given value is wrong, or the record has a name that is not permitted.
    """
    if given:
        values = merge_values(StoredValues(owner.env, owner.secrets), given, secret, box, rules)
        owner.env, owner.secrets = values.env, values.secrets


def parse_flag(value: Any, pointer: str) -> bool:
    """Parse a boolean as clients write it.

    Raises:
        InvalidInput: it is neither.
    """
    try:
        return as_bool(value)
    except ValueError as error:
        raise InvalidInput([Fault(pointer, "type", f"{pointer[1:]} {error}")]) from None
