"""The outbox: what Prefect is to be told, committed with the record it speaks of.

Carrying a wish out is `engine/wishes.py`'s; here is who may do it and when.
"""

from collections.abc import Sequence
from datetime import datetime, timedelta
from enum import IntEnum, StrEnum
from typing import TYPE_CHECKING, Any

from sqlalchemy import ColumnElement, and_, delete, or_, select, update
from sqlalchemy.orm import Session

from jobauto_prefect.ledger.audit import SERVICE, WritingSession
from jobauto_prefect.ledger.records import Wish

if TYPE_CHECKING:
    from jobauto_prefect.ledger.store import Ledger

TAKEN = timedelta(seconds=60)
"""How long a wish is its taker's alone; who takes longer must expect company."""

OWN = timedelta(seconds=10)
"""How long a message is its writer's, who carries it out right after the commit. Where the writer
dies, others carry it out after that; where it is slow, beside it, which does no harm."""

LONGEST_WAIT = timedelta(minutes=5)
LOCKED_WAIT = timedelta(seconds=0.2)


class WishKind(StrEnum):
    """What can be wished for; the subject is named in brackets."""

    APPLY_TEMPLATE = "apply_template"  #: flow and deployment as the records say (run template)
    APPLY_APP = "apply_app"  #: the flow as the record says (application)
    RETIRE_FLOW = "retire_flow"  #: the flow of `payload.id` goes, or is marked (application)
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


class Priority(IntEnum):
    """Which messages come first; within one the oldest does."""

    RUN = 0  #: starts and ends: somebody waits for them
    REGISTRATION = 1  #: what Prefect is to hold: a start that needs one applies it itself


REGISTRATIONS = frozenset(
    {
        WishKind.APPLY_APP,
        WishKind.RETIRE_FLOW,
        WishKind.APPLY_TEMPLATE,
        WishKind.RETIRE_DEPLOYMENT,
        WishKind.APPLY_RULE,
        WishKind.RETIRE_AUTOMATION,
        WishKind.APPLY_CREDENTIAL_TYPE,
        WishKind.RETIRE_BLOCK_TYPE,
        WishKind.APPLY_CREDENTIAL,
        WishKind.RETIRE_BLOCK,
    }
)


def priority_of(kind: WishKind) -> Priority:
    """How soon a message of a kind is carried out."""
    return Priority.REGISTRATION if kind in REGISTRATIONS else Priority.RUN


def wish(
    session: WritingSession,
    kind: WishKind,
    subject_id: int,
    payload: dict[str, Any] | None = None,
    *,
    own: bool = False,
) -> Wish:
    """Wish for something; it is picked up once this transaction is committed.

    `own`: the caller carries it out then, see `OWN`.
    """
    now = session.clock()
    record = Wish(
        kind=kind,
        priority=priority_of(kind),
        subject_id=subject_id,
        payload=payload or {},
        created_at=now,
        not_before=now,
        taken_until=now + OWN if own else None,
    )
    session.add(record)
    return record


def is_owed(session: Session, kind: WishKind, subject_id: int) -> bool:
    """Whether something that was wished for has not come true yet."""
    found = select(Wish.id).where(Wish.kind == kind, Wish.subject_id == subject_id).limit(1)
    return session.scalar(found) is not None


def take_next(ledger: "Ledger", lowest: Priority = Priority.REGISTRATION) -> Wish | None:
    """The next due message that is nobody's, now the caller's for `TAKEN`; None: nothing is due.

    By priority, the oldest first; none below `lowest`.
    """
    registrations = 1 if lowest == Priority.REGISTRATION else 0
    taken = take(ledger, 1, registrations)
    return taken[0] if taken else None


def take(ledger: "Ledger", most: int, registrations: int) -> Sequence[Wish]:
    """Due messages that are nobody's, now the caller's for `TAKEN`, as `take_next`.

    At most so many, and at most so many registrations among them.
    """
    now = ledger.clock()
    lowest = Priority.REGISTRATION if registrations else Priority.RUN
    following = select(Wish.id, Wish.priority).where(*_due(now, lowest))
    with ledger.reading() as session:
        found = session.execute(following.order_by(Wish.priority, Wish.id).limit(most)).all()
    runs = [row.id for row in found if row.priority < Priority.REGISTRATION]
    wanted = [*runs, *(row.id for row in found if row.id not in runs)][: len(runs) + registrations]
    if not wanted:
        return []  # looked for all the time: without writing anything
    mine = update(Wish).where(Wish.id.in_(wanted), *_due(now, lowest))
    with ledger.writing(SERVICE) as session:
        taken = session.scalars(mine.values(taken_until=now + TAKEN).returning(Wish)).all()
    return sorted(taken, key=lambda message: (message.priority, message.id))


def _due(now: datetime, lowest: Priority) -> tuple[ColumnElement[bool], ...]:
    free = or_(Wish.taken_until.is_(None), Wish.taken_until < now)
    return Wish.priority <= lowest, Wish.not_before <= now, free


def _is(known: Wish) -> ColumnElement[bool]:
    """Whether a row is this wish: SQLite gives the number of a deleted row to the next one."""
    return and_(
        Wish.id == known.id,
        Wish.kind == known.kind,
        Wish.subject_id == known.subject_id,
        Wish.created_at == known.created_at,
    )


def done(ledger: "Ledger", taken: Wish) -> None:
    """The wish is fulfilled."""
    with ledger.writing(SERVICE) as session:
        remove(session, taken)


def remove(session: WritingSession, taken: Wish) -> None:
    """The wish is fulfilled, by what else this transaction writes."""
    session.execute(delete(Wish).where(_is(taken)))


def give_back(ledger: "Ledger", taken: Wish) -> None:
    """Whoever took it does not carry it out; it is anybody's again."""
    with ledger.writing(SERVICE) as session:
        session.execute(update(Wish).where(_is(taken)).values(taken_until=None))


def put_off(ledger: "Ledger", taken: Wish, error: str) -> timedelta:
    """Carrying it out failed; it comes again after this long, later each time."""
    wait = min(timedelta(seconds=0.5 * 2**taken.attempts), LONGEST_WAIT)
    _postpone(ledger, taken, wait, attempts=taken.attempts + 1, error=error)
    return wait


def let_wait(ledger: "Ledger", taken: Wish) -> timedelta:
    """Somebody else is at what it is about; it comes again after this long."""
    _postpone(ledger, taken, LOCKED_WAIT)
    return LOCKED_WAIT


def _postpone(ledger: "Ledger", taken: Wish, wait: timedelta, **changed: Any) -> None:
    until = ledger.clock() + wait
    with ledger.writing(SERVICE) as session:
        session.execute(
            update(Wish).where(_is(taken)).values(taken_until=None, not_before=until, **changed)
        )
