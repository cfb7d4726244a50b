"""Notices about jobs and windows: enqueued with their subject, sent in messages.

A recipient gets the first one at once and then, at most once per time span, all that have come
since. `sources/notices.py` sends them.
"""

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID, uuid4

from sqlalchemy import ColumnElement, and_, case, delete, func, select, update
from sqlalchemy.orm import Session, aliased

from jobauto_prefect.definitions.records.notices import (
    TROUBLES,
    Notices,
    Occasion,
    Recipient,
    recipients,
)
from jobauto_prefect.ledger import locks, queues
from jobauto_prefect.ledger.audit.trail import WritingSession
from jobauto_prefect.ledger.records import Notice, RunTemplate
from jobauto_prefect.ledger.states import NoticeState

BATCHES_AT_ONCE = 50
LINES = 20
"""How many notices a message lists; the others are counted."""

FIRST_WAIT = timedelta(seconds=5)
LONGEST_WAIT = timedelta(minutes=5)
GIVEN_UP_AFTER = timedelta(days=7)
"""How long a notice is retried before it is dead."""

ASKED_AGAIN_AFTER = timedelta(seconds=2)
"""Poll interval for a message that another sender has claimed."""

LOCK = "notices"
KEPT = timedelta(days=30)
FORGOTTEN_AT_ONCE = 5000


@dataclass(frozen=True, slots=True)
class Subject:
    """What a notice is about; `data` is what is known about it."""

    occasion: Occasion
    template: RunTemplate
    data: Mapping[str, Any]
    job_id: int | None = None
    task_id: int | None = None


@dataclass(frozen=True, slots=True)
class Batch:
    """The notices of one message: the first `LINES` of them, and the number of each kind.

    `secret` is the newest encrypted address of the recipient.
    """

    id: UUID
    channel: str
    target: str
    secret: str | None
    first: Sequence[Notice]
    counts: Counter[str]
    attempts: int


@dataclass(frozen=True, slots=True)
class Failing:
    """Notices that could not be sent, and why."""

    channel: str
    error: str
    number: int


def recipients_of(template: RunTemplate, occasion: Occasion) -> list[Recipient]:
    """Return the recipients of this occasion, by the run template or else by its company."""
    company = template.company
    if not template.notices and not company.notices:
        return []
    own = Notices(template.notices, template.notice_secrets)
    return [*recipients(occasion, own, Notices(company.notices, company.notice_secrets))]


def enqueue(session: WritingSession, subject: Subject, recipients: Iterable[Recipient]) -> None:
    """Enqueue a notice for each recipient; it is sent after this transaction."""
    now = session.clock()
    session.add_all(
        Notice(
            occasion=subject.occasion,
            channel=recipient.channel,
            target=recipient.target,
            secret=recipient.secret,
            company_id=subject.template.company_id,
            runtemplate_id=subject.template.id,
            task_id=subject.task_id,
            job_id=subject.job_id,
            data=dict(subject.data),
            state=NoticeState.OWED,
            due_at=now,
            created_at=now,
        )
        for recipient in recipients
    )


def is_in_trouble(session: Session, template_id: int) -> bool:
    """Whether a failure of a run template was notified and no recovery since."""
    query = (
        select(Notice.occasion)
        .where(
            Notice.runtemplate_id == template_id,
            Notice.occasion.in_((*TROUBLES, Occasion.RECOVERY)),
        )
        .order_by(Notice.id.desc())
        .limit(1)
    )
    return session.scalar(query) in TROUBLES


def has_told(session: Session, occasion: Occasion, job_id: int) -> bool:
    """Whether a job has a notice of this occasion."""
    query = select(Notice.id).where(Notice.job_id == job_id, Notice.occasion == occasion)
    return session.scalar(query.limit(1)) is not None


def has_told_late(session: Session, task_id: int) -> bool:
    """Whether a task has a notice that its window is late."""
    query = select(Notice.id).where(Notice.task_id == task_id, Notice.occasion == Occasion.LATE)
    return session.scalar(query.limit(1)) is not None


def are_due(session: Session, now: datetime) -> bool:
    """Whether any notice is due."""
    return session.scalar(select(Notice.id).where(*_is_due(now)).limit(1)) is not None


def claim(
    session: WritingSession, holder: UUID, span: timedelta, in_hand: Collection[str]
) -> list[tuple[UUID, str]]:
    """Group due notices into claimed messages; return id and recipient of each.

    A recipient gets one if their last one is `span` ago; earlier notices are postponed until then.
    `in_hand` are the recipients of the messages that the caller is sending.
    """
    if not locks.acquire(session, LOCK, holder, timedelta()):
        return []
    now = session.clock()
    due = select(Notice.target).where(*_is_due(now), Notice.target.not_in(in_hand))
    batches: list[tuple[UUID, str]] = []
    for target in session.scalars(due.distinct().limit(BATCHES_AT_ONCE)).all():
        opens_at = _opens_at(session, target, span, now)
        mine = update(Notice).where(Notice.target == target, *_is_due(now))
        if opens_at is not None and opens_at > now:
            session.execute(mine.values(due_at=opens_at))
            continue
        batch = uuid4()
        session.execute(mine.values(batch=batch, taken_until=now + queues.HELD_FOR))
        batches.append((batch, target))
    return batches


def _opens_at(session: Session, target: str, span: timedelta, now: datetime) -> datetime | None:
    """Return when the next message to a recipient may be sent; None: at any time."""
    owed = and_(Notice.target == target, Notice.state == NoticeState.OWED)
    # What could not be sent is retried together with what has come since.
    tried = case((Notice.attempts > 0, Notice.due_at))
    waits, taken = session.execute(
        select(func.max(tried, type_=Notice.due_at.type), func.max(Notice.taken_until)).where(owed)
    ).one()
    sent = session.scalar(
        select(func.max(Notice.sent_at)).where(
            Notice.target == target, Notice.state == NoticeState.SENT
        )
    )
    in_hand = taken is not None and taken > now  # claimed by another process, usually not for long
    instants = [
        waits,
        min(taken, now + ASKED_AGAIN_AFTER) if in_hand else None,
        sent + span if sent is not None else None,
    ]
    return max((instant for instant in instants if instant is not None), default=None)


def batch_of(session: Session, batch: UUID, target: str) -> Batch | None:
    """Return a claimed message; None if none of its notices is left."""
    held = _held(batch, target)
    first = session.scalars(select(Notice).where(*held).order_by(Notice.id).limit(LINES)).all()
    if not first:
        return None
    counted = select(Notice.occasion, func.count(), func.max(Notice.attempts)).where(*held)
    rows = session.execute(counted.group_by(Notice.occasion)).all()
    newest = select(Notice.secret).where(*held).order_by(Notice.id.desc()).limit(1)
    return Batch(
        id=batch,
        channel=first[0].channel,
        target=target,
        secret=session.scalar(newest),
        first=first,
        counts=Counter({occasion: number for occasion, number, _ in rows}),
        attempts=max(attempts for _, _, attempts in rows),
    )


def mark_sent(session: WritingSession, batch: Batch) -> None:
    """Mark the notices of a message as sent."""
    values = {"state": NoticeState.SENT, "sent_at": session.clock()}
    session.execute(_of(batch).values(**values, taken_until=None, error=None))


def retry_later(session: WritingSession, batch: Batch, error: str) -> None:
    """Retry a message later, with growing pauses; give up old notices."""
    wait = queues.pause_after(batch.attempts, FIRST_WAIT, LONGEST_WAIT)
    _postpone(session, _of(batch), wait, error)


def postpone(session: WritingSession, batch: UUID, target: str, error: str) -> None:
    """Retry a message that could not even be read, after the longest pause."""
    _postpone(session, update(Notice).where(*_held(batch, target)), LONGEST_WAIT, error)


def _postpone(session: WritingSession, held: Any, wait: timedelta, error: str) -> None:
    now = session.clock()
    given_up = Notice.created_at < now - GIVEN_UP_AFTER
    session.execute(
        held.values(
            state=case((given_up, NoticeState.DEAD), else_=NoticeState.OWED),
            error=error,
            attempts=Notice.attempts + 1,
            due_at=now + wait,
            taken_until=None,
            batch=None,
        )
    )


def renew(session: WritingSession, batch: Batch) -> None:
    """Keep the claim of a message that is still being sent."""
    session.execute(_of(batch).values(taken_until=session.clock() + queues.HELD_FOR))


def release(session: WritingSession, batch: Batch) -> None:
    """Release a claimed message for another worker."""
    session.execute(_of(batch).values(taken_until=None, batch=None))


def _of(batch: Batch) -> Any:
    return update(Notice).where(*_held(batch.id, batch.target))


def _held(batch: UUID, target: str) -> tuple[ColumnElement[bool], ...]:
    return Notice.target == target, Notice.state == NoticeState.OWED, Notice.batch == batch


def _is_due(now: datetime) -> tuple[ColumnElement[bool], ...]:
    due = queues.is_due(Notice.due_at, Notice.taken_until, now)
    return Notice.state == NoticeState.OWED, *due


def failing_notices(session: Session) -> list[Failing]:
    """Return the notices that could not be delivered, by channel and reason."""
    query = (
        select(Notice.channel, Notice.error, func.count())
        .where(Notice.state == NoticeState.OWED, Notice.attempts > 0)
        .group_by(Notice.channel, Notice.error)
        .order_by(Notice.channel, Notice.error)
    )
    return [
        Failing(channel, error or "", number) for channel, error, number in session.execute(query)
    ]


def delete_old(session: WritingSession) -> None:
    """Delete notices that were sent or given up long ago.

    The newest of a run template stays: it decides whether a success is a recovery.
    """
    newer = aliased(Notice)
    newest = select(func.max(newer.id)).where(newer.runtemplate_id == Notice.runtemplate_id)
    old = (
        select(Notice.id)
        .where(
            Notice.created_at < session.clock() - KEPT,
            Notice.state != NoticeState.OWED,
            Notice.id < newest.correlate(Notice).scalar_subquery(),
        )
        .limit(FORGOTTEN_AT_ONCE)
    )
    session.execute(delete(Notice).where(Notice.id.in_(old)))
