"""Prefect's objects of records: the column that has an object's id, the message that deletes it."""

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
    """Where the engine notes its id, at any time, and what is enqueued to delete and to apply it.

    `application` None: a flow run is made once.
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
"""In the order in which they are applied: what others refer to comes first."""


def lock_object_id(session: WritingSession, record: Base) -> None:
    """Lock a record that has an object, and read the object's id as it is then.

    Whoever notes the id later reads that the record is deleted, once this transaction is over.
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
    """Enqueue what Prefect has to hear of a record that is deleted."""
    if isinstance(record, EventRule):  # the deployment of its run template tells what starts it
        enqueue(session, OutboxKind.APPLY_TEMPLATE, record.runtemplate_id)
    enqueue_deletion(session, record)
