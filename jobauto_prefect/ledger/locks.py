"""Locks across processes: named locks with a holder, and the lock for applying files."""

import time
from collections.abc import Collection, Iterable
from datetime import timedelta
from typing import NamedTuple
from uuid import UUID

from sqlalchemy import Engine, Update, delete, func, or_, select, update
from sqlalchemy.dialects import postgresql, sqlite

from jobauto_prefect.errors import Contended
from jobauto_prefect.ledger.audit.trail import WritingSession
from jobauto_prefect.ledger.records import NamedLock, RunTemplate


def acquire(session: WritingSession, name: str, holder: UUID, span: timedelta) -> bool:
    """Acquire or extend a named lock for `span` from now; False if another holder has it.

    Nobody else can acquire it before this transaction ends, so writes under it never overlap.
    """
    return bool(acquire_free(session, [name], holder, span))


def acquire_free(
    session: WritingSession, names: Iterable[str], holder: UUID, span: timedelta
) -> set[str]:
    """Acquire those of these locks that no other holder has, as `acquire`; return them."""
    now = session.clock()
    insert = postgresql.insert if session.get_bind().dialect.name == "postgresql" else sqlite.insert
    held = {"holder": holder, "until": now + span}
    free = or_(NamedLock.holder == holder, NamedLock.until <= now)
    taken = session.execute(
        insert(NamedLock)
        .values([{"name": name, **held} for name in sorted(names)])
        .on_conflict_do_update(index_elements=[NamedLock.name], set_=held, where=free)
        .returning(NamedLock.name)
    )
    return set(taken.scalars())


def extend(session: WritingSession, name: str, holder: UUID, span: timedelta) -> None:
    """Hold a named lock for `span` from now; one that was released or has expired stays so."""
    now = session.clock()
    held = (NamedLock.name == name, NamedLock.holder == holder, NamedLock.until > now)
    session.execute(update(NamedLock).where(*held).values(until=now + span))


def release(session: WritingSession, name: str, holder: UUID) -> None:
    """Release a named lock."""
    session.execute(_release(session, name, holder))


def _release(session: WritingSession, name: str, holder: UUID) -> Update:
    held = (NamedLock.name == name, NamedLock.holder == holder)
    return update(NamedLock).where(*held).values(until=session.clock())


class HeldLock(NamedTuple):
    """A named lock that somebody holds."""

    name: str
    holder: UUID


def releasing(session: WritingSession, lock: HeldLock, statement: Update) -> Update:
    """Return a statement that also releases a lock, without another round trip.

    On SQLite, where a statement writes to one table, the lock is released before it.
    """
    release_it = _release(session, *lock)
    if session.get_bind().dialect.name != "postgresql":
        session.execute(release_it)
        return statement
    return statement.add_cte(release_it.cte("released"))


def discard(session: WritingSession, names: Collection[str], holder: UUID) -> None:
    """Release named locks and delete their rows: for short-lived names."""
    held = (NamedLock.name.in_(names), NamedLock.holder == holder)
    session.execute(delete(NamedLock).where(*held))


APPLY_LOCK = 8_241_904
"""An arbitrary number that no other lock uses."""

LOOK_AGAIN_SECONDS = 0.05


def acquire_apply_lock(session: WritingSession, patience_seconds: float) -> None:
    """Acquire the lock for applying files, until this transaction ends.

    It is polled, because the statement timeout would end a statement that waits. SQLite has one
    writer at a time anyway.

    Raises:
        Contended: somebody else has held it for longer than `patience_seconds`.
    """
    if session.get_bind().dialect.name != "postgresql":
        return
    until = time.monotonic() + patience_seconds
    while not session.scalar(select(func.pg_try_advisory_xact_lock(APPLY_LOCK))):
        if time.monotonic() > until:
            raise Contended("another command is applying files; try again later")
        time.sleep(LOOK_AGAIN_SECONDS)


PASS_SECONDS = 0.1
"""Longest interval at which SQLite polls its write lock."""


def let_writers_pass(engine: Engine) -> None:
    """Let other writers begin, in a process that writes again and again.

    PostgreSQL grants a lock to the longest waiter, SQLite to the first that polls.
    """
    if engine.dialect.name == "sqlite":
        time.sleep(PASS_SECONDS)


def lock_run_templates(
    session: WritingSession, ids: Collection[int], companies: Collection[int]
) -> None:
    """Lock run templates, and those of companies, in the common order.

    Jobs can be inserted meanwhile: the locks are `key_share`.
    """
    wanted = or_(RunTemplate.id.in_(ids), RunTemplate.company_id.in_(companies))
    query = select(RunTemplate.id).where(wanted).order_by(RunTemplate.id)
    if ids or companies:
        session.execute(query.with_for_update(key_share=True)).all()
