"""The outbox: what Prefect is to be told, committed with the record it speaks of.

Carrying a wish out is `engine/wishes.py`'s; here is who may do it and when.
"""

from datetime import timedelta
from enum import StrEnum
from typing import Any

from sqlalchemy import ColumnElement, and_, delete, or_, select, update
from sqlalchemy.orm import Session

from jobauto_prefect.ledger.audit import SERVICE, WritingSession
from jobauto_prefect.ledger.records import Wish
from jobauto_prefect.ledger.store import Ledger

TAKEN = timedelta(seconds=60)
"""How long a wish is its taker's alone; who takes longer must expect company."""

LONGEST_WAIT = timedelta(minutes=5)


class WishKind(StrEnum):
    """What can be wished for; the subject is named in brackets."""

    APPLY_TEMPLATE = "apply_template"  #: flow and deployment as the records say (run template)
    CREATE_RUN = "create_run"  #: a flow run for a scheduled job (job)
    CANCEL_RUN = "cancel_run"  #: the flow run ends (job)
    RETIRE_DEPLOYMENT = "retire_deployment"  #: the deployment of `payload.id` goes (run template)
    DELETE_RUN = "delete_run"  #: the flow run of `payload.id` goes (job)
    RESCHEDULE_RUN = "reschedule_run"  #: the flow run starts when its job now says (job)
    APPLY_RULE = "apply_rule"  #: the automation as the record says (event rule)
    RETIRE_AUTOMATION = "retire_automation"  #: the automation of `payload.id` goes (event rule)
    SHOW_JOB = "show_job"  #: the flow run shows how the job ended (job)
    APPLY_CREDENTIAL_TYPE = "apply_credential_type"  #: the block type as the record says (its id)
    RETIRE_BLOCK_TYPE = "retire_block_type"  #: the block type of `payload.id` goes
    APPLY_CREDENTIAL = "apply_credential"  #: the block as the record says (credential)
    RETIRE_BLOCK = "retire_block"  #: the block of `payload.id` goes (credential)
    TELL_TASK = "tell_task"  #: an event says that a window failed or was missed (task)


def wish(
    session: WritingSession, kind: WishKind, subject_id: int, payload: dict[str, Any] | None = None
) -> None:
    """Wish for something; it is picked up once this transaction is committed."""
    now = session.clock()
    record = Wish(
        kind=kind, subject_id=subject_id, payload=payload or {}, created_at=now, not_before=now
    )
    session.add(record)


def is_owed(session: Session, kind: WishKind, subject_id: int) -> bool:
    """Whether something that was wished for has not come true yet."""
    found = select(Wish.id).where(Wish.kind == kind, Wish.subject_id == subject_id).limit(1)
    return session.scalar(found) is not None


def take_next(ledger: Ledger) -> Wish | None:
    """The oldest due wish that is nobody's, now the caller's for `TAKEN`; None: nothing to do."""
    now = ledger.clock()
    free = or_(Wish.taken_until.is_(None), Wish.taken_until < now)
    with ledger.reading() as session:
        due = list(
            session.scalars(
                select(Wish).where(Wish.not_before <= now, free).order_by(Wish.id).limit(20)
            )
        )
    for candidate in due:
        with ledger.writing(SERVICE) as session:
            taken = session.execute(
                update(Wish).where(_is(candidate), free).values(taken_until=now + TAKEN)
            )
            if taken.rowcount:  # type: ignore[attr-defined]  # an UPDATE's result is a cursor's
                return candidate
    return None


def _is(known: Wish) -> ColumnElement[bool]:
    """Whether a row is this wish: SQLite gives the number of a deleted row to the next one."""
    return and_(
        Wish.id == known.id,
        Wish.kind == known.kind,
        Wish.subject_id == known.subject_id,
        Wish.created_at == known.created_at,
    )


def done(ledger: Ledger, taken: Wish) -> None:
    """The wish is fulfilled."""
    with ledger.writing(SERVICE) as session:
        session.execute(delete(Wish).where(_is(taken)))


def give_back(ledger: Ledger, taken: Wish) -> None:
    """Whoever took it does not carry it out; it is anybody's again."""
    with ledger.writing(SERVICE) as session:
        session.execute(update(Wish).where(_is(taken)).values(taken_until=None))


def put_off(ledger: Ledger, taken: Wish, error: str) -> None:
    """Carrying it out failed; it comes again, later each time."""
    wait = min(timedelta(seconds=0.5 * 2**taken.attempts), LONGEST_WAIT)
    with ledger.writing(SERVICE) as session:
        session.execute(
            update(Wish)
            .where(_is(taken))
            .values(
                attempts=taken.attempts + 1,
                error=error,
                taken_until=None,
                not_before=ledger.clock() + wait,
            )
        )
