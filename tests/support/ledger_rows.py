"""What the ledger has."""

from typing import Any, TypeVar

from sqlalchemy import ColumnElement, Select, func, select, text
from sqlalchemy.orm import class_mapper

from jobauto_prefect.ledger.outbox import Priority, claim_due
from jobauto_prefect.ledger.records import AuditEntry, OutboxMessage, User
from jobauto_prefect.ledger.store import Ledger
from tests.support.databases import WAITING_FOR_LOCKS

R = TypeVar("R")


def fetch(ledger: Ledger, kind: type[R], key: Any) -> R:
    """The record of a kind that has this key."""
    with ledger.reading() as session:
        return session.get_one(kind, key)


def fetch_all(ledger: Ledger, wanted: type[R] | Select[tuple[R]]) -> list[R]:
    """What a query finds, or all records of a kind, the oldest first."""
    if isinstance(wanted, type):
        wanted = select(wanted).order_by(*class_mapper(wanted).primary_key)
    with ledger.reading() as session:
        return list(session.scalars(wanted))


def fetch_one(ledger: Ledger, wanted: type[R] | Select[tuple[R]]) -> R:
    """The only one that is found."""
    (found,) = fetch_all(ledger, wanted)
    return found


def count_rows(ledger: Ledger, kind: type[Any], *conditions: ColumnElement[bool]) -> int:
    """How many records of a kind there are, or how many of them meet conditions."""
    with ledger.reading() as session:
        return session.scalar(select(func.count()).select_from(kind).where(*conditions)) or 0


def user_id_of(ledger: Ledger, login: str = "eva") -> int:
    """The id of a user."""
    return fetch_one(ledger, select(User.id).where(User.login == login))


def entries(ledger: Ledger, kind: str) -> list[AuditEntry]:
    """The audit entries about one kind of record, the oldest first."""
    query = select(AuditEntry).where(AuditEntry.entity_type == kind)
    return fetch_all(ledger, query.order_by(AuditEntry.id))


def count_lock_waits(ledger: Ledger) -> int:
    """How many connections to a ledger on PostgreSQL wait for a lock."""
    with ledger.reading() as session:
        return session.scalar(text(WAITING_FOR_LOCKS)) or 0


def has_no_messages(ledger: Ledger) -> bool:
    """Whether Prefect has been told everything."""
    return not count_rows(ledger, OutboxMessage)


def claim_next(ledger: Ledger, lowest: Priority = Priority.REGISTRATION) -> OutboxMessage | None:
    """Claim the next due message, none below `lowest`; None if none is due."""
    taken = claim_due(ledger, 1, 0)
    if not taken and lowest == Priority.REGISTRATION:
        taken = claim_due(ledger, 0, 1)
    return taken[0] if taken else None
