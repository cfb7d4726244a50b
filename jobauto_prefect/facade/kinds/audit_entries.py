"""Entries of the audit trail, as shown."""

from typing import Annotated, Any, Literal, get_args

from pydantic import Field

from jobauto_prefect.facade.answers import JsonObject, Record, serialize_fields
from jobauto_prefect.facade.formats.html.page_language import Shown
from jobauto_prefect.facade.gateway.routes import AUDITED_KINDS
from jobauto_prefect.facade.http.field_types import parse_int
from jobauto_prefect.facade.kinds.resource import Filter, Resource, choice, period, reference
from jobauto_prefect.kinds import KINDS
from jobauto_prefect.ledger import records
from jobauto_prefect.ledger.base import Audited
from jobauto_prefect.settings import Settings

AuditAction = Literal[
    "create",
    "update",
    "delete",
    "login",
    "refuse",
    "reveal",
    "intend",
    "fail",
    "lost",
    "archive",
    "restore",
]
"""The actions in entries; the list's filter takes the same values."""


class AuditEntry(Record):
    """Who changed what; the entry itself is never changed or deleted."""

    actor: Annotated[str, Shown("Actor")] = Field(
        description="Who did it: the login of a user, or the name of a service or program."
    )
    user_id: int | None = Field(description="The user.")
    door: Annotated[str, Shown("Interface")] = Field(
        description="The interface the change came through: rest, console, cli, ui, prefect-api, "
        "worker or service."
    )
    address: Annotated[str | None, Shown("Address")] = Field(
        description="The address the request came from."
    )
    user_agent: Annotated[str | None, Shown("Program")] = Field(
        description="The client's User-Agent."
    )
    request_id: Annotated[str | None, Shown("Request")] = Field(
        description="The request's id, also found in the service's log."
    )
    entity_type: str = Field(description="The kind of the record.")
    entity_id: int | None = Field(description="The record that was changed.")
    company_id: int | None = Field(description="The company.")
    action: AuditAction = Field(description="What was done.")
    changes: dict[str, list[Any]] = Field(
        description="`[before, after]` by field; for secrets only that they changed."
    )


def serialize_audit_entry(entry: records.AuditEntry, _settings: Settings) -> JsonObject:
    """Return an audit entry as answers show it."""
    return serialize_fields(AuditEntry, entry)


ENTITIES = (
    *sorted(each.entity_name for each in Audited.__subclasses__()),
    *("AuditTrail", "Backup", "Database", "Key", "Login", "Scheduler", "Worker"),
    *(f"Prefect {kind}" for kind in AUDITED_KINDS),
)

RESOURCE = Resource(
    KINDS["auditlog"], records.AuditEntry, AuditEntry, serialize_audit_entry,
    filters={
        "user_id": reference("user"),
        "entity_type": choice("entity_type", ENTITIES),
        "entity_id": Filter("entity_id", parse_int),
        "action": choice("action", get_args(AuditAction)),
        **period("created_at"),
    },
)  # fmt: skip
