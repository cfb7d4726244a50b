"""Prefect's objects of records: the column with an object's id, the message that deletes it."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from jobauto_prefect.ledger.audit.trail import WritingSession
from jobauto_prefect.ledger.base import Base
from jobauto_prefect.ledger.outbox import OutboxKind, enqueue
from jobauto_prefect.ledger.records import (
    App,
    Credential,
    CredentialType,
    EventRule,
    Job,
    RunTemplate,
)


@dataclass(frozen=True, slots=True)
class PrefectObject:
    """The column in which the engine stores the id, and the messages that delete and apply it.

    `application` None: a flow run is created once.
    """

    column: str
    deletion: OutboxKind
    application: OutboxKind | None = None


PREFECT_OBJECTS: Mapping[type[Base], PrefectObject] = {
    CredentialType: PrefectObject(
        "block_type_id", OutboxKind.RETIRE_BLOCK_TYPE, OutboxKind.APPLY_CREDENTIAL_TYPE
    ),
    Credential: PrefectObject(
        "block_document_id", OutboxKind.RETIRE_BLOCK, OutboxKind.APPLY_CREDENTIAL
    ),
    App: PrefectObject("flow_id", OutboxKind.RETIRE_FLOW, OutboxKind.APPLY_APP),
    RunTemplate: PrefectObject(
        "deployment_id", OutboxKind.RETIRE_DEPLOYMENT, OutboxKind.APPLY_TEMPLATE
    ),
    EventRule: PrefectObject("automation_id", OutboxKind.RETIRE_AUTOMATION, OutboxKind.APPLY_RULE),
    Job: PrefectObject("flow_run_id", OutboxKind.DELETE_RUN),
}
"""In the order in which they are applied: objects that others refer to come first."""


def lock_object_id(session: WritingSession, record: Base) -> None:
    """Lock a record that has an object, and refresh the object's id.

    A concurrent writer of the id sees the deletion once this transaction has ended.
    """
    if known := PREFECT_OBJECTS.get(type(record)):
        session.refresh(record, [known.column], with_for_update={"key_share": True})


def enqueue_deletion(session: WritingSession, record: Any) -> None:
    """Enqueue the deletion of a record's object in Prefect, if it has one."""
    known = PREFECT_OBJECTS.get(type(record))
    object_id = getattr(record, known.column) if known else None
    if known and object_id is not None:
        enqueue(session, known.deletion, record.id, {"id": str(object_id)})


def withdraw(session: WritingSession, record: Base) -> None:
    """Enqueue the messages for Prefect about a deleted record."""
    if isinstance(record, EventRule):  # its run template's deployment lists its triggers
        enqueue(session, OutboxKind.APPLY_TEMPLATE, record.runtemplate_id)
    enqueue_deletion(session, record)
