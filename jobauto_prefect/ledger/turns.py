"""Turns: what only one process may do at a time, however many there are."""

from datetime import timedelta
from uuid import UUID

from sqlalchemy import delete, or_, update
from sqlalchemy.dialects import postgresql, sqlite

from jobauto_prefect.ledger.audit import WritingSession
from jobauto_prefect.ledger.records import Turn


def take(session: WritingSession, name: str, holder: UUID, span: timedelta) -> bool:
    """Whether it is the holder's turn, for `span` from now; what they hold they hold longer.

    Until this transaction ends nobody else can take it: what is written in it is written in turn.
    """
    now = session.clock()
    insert = postgresql.insert if session.get_bind().dialect.name == "postgresql" else sqlite.insert
    first = insert(Turn).values(name=name, holder=holder, until=now)
    session.execute(first.on_conflict_do_nothing())
    free = or_(Turn.holder == holder, Turn.until <= now)
    taken = session.execute(
        update(Turn).where(Turn.name == name, free).values(holder=holder, until=now + span)
    )
    return bool(taken.rowcount)  # type: ignore[attr-defined]  # an UPDATE's result is a cursor's


def pass_on(session: WritingSession, name: str, holder: UUID) -> None:
    """The holder is done; it is anybody's turn."""
    held = (Turn.name == name, Turn.holder == holder)
    session.execute(update(Turn).where(*held).values(until=session.clock()))


def end(session: WritingSession, name: str, holder: UUID) -> None:
    """The holder is done, and nothing is kept of it: for names there are many of."""
    session.execute(delete(Turn).where(Turn.name == name, Turn.holder == holder))
