"""Event sources, as shown and written."""

from collections.abc import Iterator, Mapping
from datetime import datetime
from typing import Annotated, Any, ClassVar, Literal

from pydantic import Field, WithJsonSchema, field_validator
from pydantic.json_schema import JsonSchemaValue

from jobauto_prefect.definitions.records.source_addresses import (
    ADDRESS_FIELDS,
    USUAL_PORTS,
    changed_address_fields,
)
from jobauto_prefect.definitions.values import MASK
from jobauto_prefect.errors import Conflict, Fault, InvalidInput
from jobauto_prefect.facade.answers import JsonObject, Labelled, serialize_fields
from jobauto_prefect.facade.formats.html.page_language import Shown, Text
from jobauto_prefect.facade.http.field_types import READ_INTEGER, UNSIGNED, Boolean, OrText
from jobauto_prefect.facade.http.requests import parse as parse_body
from jobauto_prefect.facade.kinds.resource import ENABLED, Resource, reference
from jobauto_prefect.facade.writes.base import (
    LabelledBody,
    Name,
    RecordName,
    Ref,
    ShortText,
    WriteRequest,
    WriteResult,
    apply_fields,
    require_fields,
    resolve_company,
)
from jobauto_prefect.facade.writes.secret_destinations import resubmission_fault
from jobauto_prefect.facade.writes.vouchers import vouch_for_moved
from jobauto_prefect.kinds import KINDS
from jobauto_prefect.ledger import records
from jobauto_prefect.ledger.base import BIGGEST_ID
from jobauto_prefect.ledger.queries.events import sources_named
from jobauto_prefect.ledger.records import Company
from jobauto_prefect.settings import Settings
from jobauto_prefect.sources.targets import fault_of, source_rules, source_target
from jobauto_prefect.text_patterns import matching


class EventSource(Labelled):
    """A database to which webhooks write changes; its password is masked."""

    name: str = Field(description="Its name.")
    company_id: int | None = Field(description="The company.")
    adapter_type: str = Field(description="What writes the changes into the database.")
    db_connection: Literal["mysql", "pgsql", "sqlite"] = Field(description="The kind of database.")
    db_host: str = Field(description="Its host.")
    db_port: str = Field(description="Its port; in requests, empty means the default.")
    db_database: str = Field(description="Name of the database; for SQLite the path of its file.")
    db_username: str | None = Field(description="Its user.")
    db_password: Literal["********"] | None = Field(
        description="Its password, masked in answers; it stays as it is if sent blank or masked."
    )
    enabled: bool = Field(description="Whether it may be used.")
    poll_interval: int = Field(description="Seconds between two polls.")
    consume: Literal["delete", "keep"] = Field(
        description="What happens to changes once they are stored: they are deleted from the "
        "adapter database, or kept."
    )
    last_processed_id: int = Field(
        description="The highest number among the changes that were read. In requests: reading "
        "starts after this number."
    )
    poll_error: Annotated[str | None, Shown("Poll error")] = Field(
        description="Why the last poll failed; null: it did not."
    )
    polled_at: Annotated[datetime | None, Shown("Last poll")] = Field(
        description="When it was last polled; null: never."
    )


Interval = Annotated[int, Field(ge=1, le=86_400), READ_INTEGER, OrText(r"^[1-9][0-9]{0,3}$")]


Position = Annotated[int, Field(ge=0, le=BIGGEST_ID), READ_INTEGER, OrText(UNSIGNED)]


PORT = r"^([1-9][0-9]{0,3}|[1-5][0-9]{4}|6[0-4][0-9]{3}|65[0-4][0-9]{2}|655[0-2][0-9]|6553[0-5])?$"
"""1 to 65535, or empty."""


PORTS: JsonSchemaValue = {
    "anyOf": [
        {"type": "integer", "minimum": 1, "maximum": 65_535},
        {"type": "string", "pattern": PORT},
    ]
}


class SourceBody(LabelledBody):
    """An event source, identified by its name within its company. A blank or masked password keeps
    the stored password. If kind, host, port, database or user change, the password must be sent
    again; null: there is none any more.
    """

    record: ClassVar = EventSource

    name: Annotated[RecordName | None, Shown("Name")] = None
    company_id: Ref | None = None
    company: str | None = Field(
        default=None,
        description="Slug of the company, instead of `company_id`. A new event source with "
        "neither belongs to no company.",
    )
    adapter_type: Annotated[Name, Shown("Adapter")] = "abraflexi-webhook"
    db_connection: Annotated[Literal["mysql", "pgsql", "sqlite"], Shown("Kind")] = "mysql"
    db_host: Annotated[ShortText, Shown("Host")] = "localhost"
    db_port: Annotated[
        Annotated[
            str, matching(PORT, "must be a port from 1 to 65535, or empty"), WithJsonSchema(PORTS)
        ],
        Shown("Port", "Leave empty for the default: 3306 for mysql, 5432 for pgsql."),
    ] = ""
    db_database: Annotated[Name | None, Shown("Database name or file path")] = None
    db_username: Annotated[ShortText | None, Shown("Database user")] = None
    db_password: Annotated[ShortText | None, Shown("Password", control="secret")] = None
    enabled: Annotated[Boolean, Shown("Enabled")] = True
    poll_interval: Annotated[Interval, Shown("Poll interval (seconds)")] = 60
    consume: Annotated[
        Literal["delete", "keep"],
        Shown(
            "After reading",
            choices={"delete": Text("delete the changes"), "keep": Text("keep the changes")},
        ),
    ] = "delete"
    last_processed_id: Annotated[Position | None, Shown("Last change read")] = None

    @field_validator("db_port", mode="before")
    @classmethod
    def _port_as_text(cls, value: Any) -> Any:
        if isinstance(value, float) and value.is_integer():  # as in JSON Schema
            value = int(value)
        return str(value) if isinstance(value, int) and not isinstance(value, bool) else value


PASSWORD = "db_password"  # noqa: S105 - the name of a field


APART = {"company_id", "company", PASSWORD, "last_processed_id"}


def write_source(write: WriteRequest) -> WriteResult:
    """Write an event source; its password is stored encrypted."""
    body = parse_body(SourceBody, write.fields)
    company = resolve_company(write, body.company_id, body.company)
    source = _find_source(write, body, company)
    created = source is None
    if source is None or (company is not None and company.id != source.company_id):
        write.authorize_create("companies", company.id if company else None)
        if source is not None:
            write.authorize_move(source)
    if source is None:
        require_fields(body, "name", "db_database")
        source = records.EventSource()
        write.session.add(source)
    before = {name: getattr(source, name) for name in ADDRESS_FIELDS}
    apply_fields(source, body, except_for=APART)
    if not body.db_port:
        source.db_port = _usual_port(source, body, before)
    if company is not None and company.id != source.company_id:
        source.company_id = company.id
        if not created:
            vouch_for_moved(write, source)
    if body.last_processed_id is not None:
        source.start_after = source.last_processed_id = body.last_processed_id
    changed = changed_address_fields(
        before, {name: getattr(source, name) for name in ADDRESS_FIELDS}
    )
    faults = [*_apply_password(write, source, body, changed)]
    fault = fault_of(source_target(source, write.box), source_rules(write.settings))
    if fault is not None:
        member = "db_database" if source.db_connection == "sqlite" else "db_host"
        faults.append(Fault(f"/{member}", "target", fault))
    if faults:
        raise InvalidInput(faults)
    write.session.flush()
    return WriteResult(source, created)


def _usual_port(source: records.EventSource, body: SourceBody, before: Mapping[str, Any]) -> str:
    """Return the default port: that of the database kind, unless a body keeps another."""
    kept = None if "db_port" in body.model_fields_set else before["db_port"]
    if kept and kept != USUAL_PORTS.get(before["db_connection"]):
        return str(kept)
    return USUAL_PORTS.get(source.db_connection, "3306")


def _apply_password(
    write: WriteRequest, source: records.EventSource, body: SourceBody, changed: list[str]
) -> Iterator[Fault]:
    """Store or forget a source's password.

    `changed` are the address fields that differ from those the stored password is for.
    """
    if body.db_password and body.db_password != MASK:
        source.db_password = write.box.seal({PASSWORD: body.db_password})[PASSWORD]
    elif source.db_password and changed:
        if PASSWORD not in body.model_fields_set or body.db_password is not None:
            yield resubmission_fault(f"/{PASSWORD}", PASSWORD, changed)
        source.db_password = None


def _find_source(
    write: WriteRequest, body: SourceBody, company: Company | None
) -> records.EventSource | None:
    """Find the source by name, in the company if one is given.

    Raises:
        Conflict: no company is given, and several visible ones have a source of this name.
    """
    if write.record_id is not None or not body.name:
        return write.get_for_update(records.EventSource, "companies")
    owner_id, is_said = company and company.id, body.model_fields_set & {"company_id", "company"}
    named = [
        source
        for source in sources_named(write.session, body.name)
        if (source.company_id == owner_id if is_said else True)
        and write.who.rights.may_read("companies", source.company_id)
    ]
    if len(named) > 1:
        raise Conflict("several companies have a source of this name; set company_id")
    return write.authorize_update(named[0], "companies") if named else None


def serialize_source(source: records.EventSource, _settings: Settings) -> JsonObject:
    """Return an event source as answers show it; its password is masked."""
    password = MASK if source.db_password else None
    return serialize_fields(EventSource, source, db_password=password)


RESOURCE = Resource(
    KINDS["eventsource"], records.EventSource, EventSource, serialize_source, write_source,
    filters={"enabled": ENABLED, "company_id": reference("company")},
    body=SourceBody,
)  # fmt: skip
