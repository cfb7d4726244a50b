"""Records of any kind, by id."""

from collections.abc import Collection, Sequence
from typing import TypeVar

from sqlalchemy import func, inspect, select
from sqlalchemy.orm import Session

from jobauto_prefect.errors import NotFound
from jobauto_prefect.ledger.base import Base, noun_of
from jobauto_prefect.ledger.records import (
    App,
    Company,
    Credential,
    CredentialType,
    EventRule,
    EventSource,
    Job,
    RunTemplate,
    Topic,
    User,
)

OWNED: tuple[type[Base], ...] = (App, EventSource, RunTemplate)
"""Kinds whose names are hidden from those who may not see the records."""

Record = TypeVar("Record", bound=Base)


def get_record(session: Session, kind: type[Record], record_id: int) -> Record:
    """Return the record with that id.

    Raises:
        NotFound: it does not exist.
    """
    record = session.get(kind, record_id)
    if record is None or getattr(record, "retired_at", None) is not None:
        raise NotFound(f"there is no {noun_of(kind)} {record_id}")
    return record


def newest_records(session: Session, kind: type[Record], limit: int) -> Sequence[Record]:
    """Return the newest records of a kind, newest first."""
    key = inspect(kind).primary_key[0]
    return session.scalars(select(kind).order_by(key.desc()).limit(limit)).all()


def record_counts(session: Session) -> dict[str, int]:
    """Return the number of records of each kind, by table name."""
    kinds: tuple[type[Base], ...] = (
        App, Company, RunTemplate, Job, User, Topic, Credential, CredentialType, EventSource,
        EventRule,
    )  # fmt: skip
    counts = (
        select(func.count()).select_from(kind).scalar_subquery().label(kind.__tablename__)
        for kind in kinds
    )
    return {**session.execute(select(*counts)).mappings().one()}


def names_of(
    session: Session,
    kind: type[Base],
    ids: Collection[int],
    companies: Collection[int] | None = None,
) -> dict[str, str]:
    """Return the names (of users: the logins) of records, by their ids as text.

    Of applications, event sources and run templates only those of these companies and shared ones;
    None: all.
    """
    column = getattr(kind, "login" if kind is User else "name")
    key = kind.id  # type: ignore[attr-defined]
    query = select(key, column).where(key.in_(ids))
    if companies is not None and kind in OWNED:
        owner = kind.company_id  # type: ignore[attr-defined]
        query = query.where(owner.is_(None) | owner.in_(companies))
    return {str(row[0]): row[1] for row in session.execute(query).all()}
