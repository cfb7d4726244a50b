"""The outbox: messages for Prefect, committed with the record they are about.

Here messages are enqueued, claimed and completed; `engine/message_handlers.py` says what each kind
does, and `engine/outbox_worker.py` does it.
"""

from collections.abc import Collection, Iterable, Sequence
from datetime import datetime, timedelta
from enum import IntEnum, StrEnum
from typing import Any
from uuid import UUID

from sqlalchemy import ColumnElement, Select, and_, delete, func, or_, select, update
from sqlalchemy.orm import Session

from jobauto_prefect.ledger import queues
from jobauto_prefect.ledger.audit.trail import SERVICE, WritingSession
from jobauto_prefect.ledger.records import OutboxMessage
from jobauto_prefect.ledger.store import Ledger

WRITER_SPAN = timedelta(seconds=10)
"""How long a message belongs to its writer, who handles it right after the commit.

If the writer dies, others handle it after that; if it is slow, both do, which is harmless.
"""

TOLD_WITHIN = timedelta(seconds=10)
"""Within what time a worker has told Prefect that a claim was refused."""

FIRST_WAIT = timedelta(seconds=0.5)
LONGEST_WAIT = timedelta(minutes=5)
LOCKED_WAIT = timedelta(seconds=0.2)


ENQUEUED = "enqueued"
"""Key in a session's info: it has enqueued a message."""


class OutboxKind(StrEnum):
    """What a message asks for; the kind of its subject is in brackets."""

    APPLY_TEMPLATE = "apply_template"  #: flow and deployment as the records say (run template)
    APPLY_APP = "apply_app"  #: the flow as the record says (application)
    RETIRE_FLOW = "retire_flow"  #: flow `payload.id` is deleted or marked (application)
    CREATE_RUN = "create_run"  #: a flow run for a scheduled job (job)
    CANCEL_RUN = "cancel_run"  #: the flow run is cancelled (job)
    RETIRE_DEPLOYMENT = "retire_deployment"  #: deployment `payload.id` is deleted (run template)
    DELETE_RUN = "delete_run"  #: flow run `payload.id` is deleted (job)
    RESCHEDULE_RUN = "reschedule_run"  #: the flow run starts at its job's new time (job)
    APPLY_RULE = "apply_rule"  #: the automation as the record says (event rule)
    RETIRE_AUTOMATION = "retire_automation"  #: automation `payload.id` is deleted (event rule)
    SHOW_JOB = "show_job"  #: the flow run shows how the job ended (job)
    APPLY_CREDENTIAL_TYPE = "apply_credential_type"  #: the block type as the record says (its id)
    RETIRE_BLOCK_TYPE = "retire_block_type"  #: block type `payload.id` is deleted
    APPLY_CREDENTIAL = "apply_credential"  #: the block as the record says (credential)
    RETIRE_BLOCK = "retire_block"  #: block `payload.id` is deleted (credential)
    TELL_TASK = "tell_task"  #: an event says that a window failed or was missed (task)


class Priority(IntEnum):
    """Order of messages; those of equal priority are handled oldest first."""

    RUN = 0  #: starts and ends: somebody waits for them
    REGISTRATION = 1  #: Prefect's objects: a start that needs one applies it itself


REGISTRATIONS = frozenset(
    {
        OutboxKind.APPLY_APP,
        OutboxKind.RETIRE_FLOW,
        OutboxKind.APPLY_TEMPLATE,
        OutboxKind.RETIRE_DEPLOYMENT,
        OutboxKind.APPLY_RULE,
        OutboxKind.RETIRE_AUTOMATION,
        OutboxKind.APPLY_CREDENTIAL_TYPE,
        OutboxKind.RETIRE_BLOCK_TYPE,
        OutboxKind.APPLY_CREDENTIAL,
        OutboxKind.RETIRE_BLOCK,
    }
)


def priority_of(kind: OutboxKind) -> Priority:
    """Return the priority of messages of a kind."""
    return Priority.REGISTRATION if kind in REGISTRATIONS else Priority.RUN


def enqueue(
    session: WritingSession,
    kind: OutboxKind,
    subject_id: int,
    payload: dict[str, Any] | None = None,
    *,
    own: bool = False,
) -> OutboxMessage:
    """Enqueue a message; workers see it once this transaction is committed.

    `own`: the caller handles it afterwards, see `WRITER_SPAN`.
    """
    now = session.clock()
    record = OutboxMessage(
        kind=kind,
        priority=priority_of(kind),
        subject_id=subject_id,
        payload=payload or {},
        created_at=now,
        not_before=now,
        taken_until=now + WRITER_SPAN if own else None,
    )
    session.add(record)
    session.info[ENQUEUED] = True
    return record


def enqueue_reschedule(session: WritingSession, job_id: int) -> None:
    """Have the flow run of a waiting job start at the job's time, whatever Prefect knew before.

    A worker whose claim was refused just before may still tell Prefect the later time of that
    refusal, so Prefect gets the time again after `TOLD_WITHIN`.
    """
    enqueue(session, OutboxKind.RESCHEDULE_RUN, job_id)
    again = enqueue(session, OutboxKind.RESCHEDULE_RUN, job_id)
    again.not_before += TOLD_WITHIN


def has_enqueued(session: WritingSession) -> bool:
    """Whether a session has enqueued a message."""
    return ENQUEUED in session.info


def is_pending(session: Session, kind: OutboxKind, subject_id: int) -> bool:
    """Whether a message of this kind about this subject is not yet completed."""
    query = (
        select(OutboxMessage.id)
        .where(OutboxMessage.kind == kind, OutboxMessage.subject_id == subject_id)
        .limit(1)
    )
    return session.scalar(query) is not None


def pending_among(session: Session, kind: OutboxKind, subject_ids: Collection[int]) -> set[int]:
    """Return those of these subjects that a message of this kind is about."""
    query = pending_subjects(kind).where(OutboxMessage.subject_id.in_(subject_ids))
    return set(session.scalars(query))


def pending_subjects(kind: OutboxKind) -> Select[tuple[int]]:
    """Select the subjects of all messages of a kind that are not yet completed."""
    return select(OutboxMessage.subject_id).where(OutboxMessage.kind == kind)


def is_deletion_pending(session: Session, kind: OutboxKind, object_id: UUID) -> bool:
    """Whether a message of this kind is yet to delete that object of Prefect."""
    query = (
        select(OutboxMessage.id)
        .where(
            OutboxMessage.kind == kind, OutboxMessage.payload["id"].as_string() == str(object_id)
        )
        .limit(1)
    )
    return session.scalar(query) is not None


def claim_due(ledger: Ledger, most: int, registrations: int) -> Sequence[OutboxMessage]:
    """Claim due messages, by priority, the oldest first.

    At most `most` starts and ends, plus `registrations` registrations.
    """
    now = ledger.clock()
    lowest = Priority.REGISTRATION if registrations else Priority.RUN
    following = select(OutboxMessage.id, OutboxMessage.priority).where(*_due(now, lowest))
    with ledger.reading() as session:
        in_order = following.order_by(OutboxMessage.priority, OutboxMessage.id)
        rows = session.execute(in_order.limit(most + registrations)).all()
    runs = [row.id for row in rows if row.priority < Priority.REGISTRATION]
    others = [row.id for row in rows if row.priority >= Priority.REGISTRATION]
    wanted = [*runs[:most], *others[:registrations]]
    if not wanted:
        return []  # this is polled all the time, so it must not write
    mine = update(OutboxMessage).where(OutboxMessage.id.in_(wanted), *_due(now, lowest))
    with ledger.writing(SERVICE) as session:
        taken = session.scalars(
            mine.values(taken_until=now + queues.HELD_FOR).returning(OutboxMessage)
        ).all()
    return sorted(taken, key=lambda message: (message.priority, message.id))


def _due(now: datetime, lowest: Priority) -> tuple[ColumnElement[bool], ...]:
    due = queues.is_due(OutboxMessage.not_before, OutboxMessage.taken_until, now)
    return OutboxMessage.priority <= lowest, *due


def _is_message(message: OutboxMessage) -> ColumnElement[bool]:
    """Match the row of this message: SQLite reuses the ids of deleted rows."""
    return and_(
        OutboxMessage.id == message.id,
        OutboxMessage.kind == message.kind,
        OutboxMessage.subject_id == message.subject_id,
        OutboxMessage.created_at == message.created_at,
    )


def complete(ledger: Ledger, taken: OutboxMessage) -> None:
    """Delete a message that was handled."""
    with ledger.writing(SERVICE) as session:
        remove(session, taken)


def remove(session: WritingSession, *taken: OutboxMessage) -> None:
    """Delete messages that the rest of this transaction handles."""
    if taken:
        session.execute(delete(OutboxMessage).where(or_(*map(_is_message, taken))))


def renew(ledger: Ledger, taken: Iterable[OutboxMessage]) -> None:
    """Keep the claims of messages that are still being handled."""
    mine = update(OutboxMessage).where(
        or_(*map(_is_message, taken)), OutboxMessage.taken_until.is_not(None)
    )
    with ledger.writing(SERVICE) as session:
        session.execute(mine.values(taken_until=session.clock() + queues.HELD_FOR))


def release(ledger: Ledger, taken: OutboxMessage) -> None:
    """Release a claimed message for another worker."""
    with ledger.writing(SERVICE) as session:
        session.execute(update(OutboxMessage).where(_is_message(taken)).values(taken_until=None))


def retry_later(ledger: Ledger, taken: OutboxMessage, error: str) -> timedelta:
    """Release a message whose handling failed; return when it is due again, later each time."""
    wait = queues.pause_after(taken.attempts, FIRST_WAIT, LONGEST_WAIT)
    _postpone(ledger, taken, wait, attempts=taken.attempts + 1, error=error)
    return wait


def retry_soon(ledger: Ledger, taken: OutboxMessage) -> timedelta:
    """Release a message whose subject is locked; return the delay until it is due again."""
    _postpone(ledger, taken, LOCKED_WAIT)
    return LOCKED_WAIT


def _postpone(ledger: Ledger, taken: OutboxMessage, wait: timedelta, **changed: Any) -> None:
    until = ledger.clock() + wait
    with ledger.writing(SERVICE) as session:
        session.execute(
            update(OutboxMessage)
            .where(_is_message(taken))
            .values(taken_until=None, not_before=until, **changed)
        )


def waiting_messages(session: Session, now: datetime) -> int:
    """Count what Prefect lacks: the messages that are not completed.

    Those that only repeat another one later, see `enqueue_reschedule`, do not count.
    """
    repeats = and_(
        OutboxMessage.kind == OutboxKind.RESCHEDULE_RUN,
        OutboxMessage.attempts == 0,
        OutboxMessage.not_before > now,
    )
    return session.scalar(select(func.count(OutboxMessage.id)).where(~repeats)) or 0


def messages_older_than(session: Session, instant: datetime) -> int:
    """Count the messages that were enqueued before an instant."""
    return (
        session.scalar(
            select(func.count(OutboxMessage.id)).where(OutboxMessage.created_at < instant)
        )
        or 0
    )
