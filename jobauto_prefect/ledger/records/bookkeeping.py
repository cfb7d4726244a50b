"""What the service remembers for itself; no entities."""

from datetime import datetime
from typing import Any
from uuid import UUID

from sqlalchemy import LargeBinary, Text
from sqlalchemy.orm import Mapped, mapped_column

from jobauto_prefect.ledger.base import Base, BigId


class Wish(Base):
    """Something Prefect is to be told; committed with the record it speaks of.

    `kind` is a name in `engine/wishes.py`, `subject_id` the id of the record. A wish that is
    being carried out is nobody else's until `taken_until`; when done it is gone.
    """

    __tablename__ = "wish"

    id: Mapped[int] = mapped_column(BigId, primary_key=True)
    kind: Mapped[str]
    subject_id: Mapped[int] = mapped_column(BigId)
    payload: Mapped[dict[str, Any]] = mapped_column(default=dict)
    created_at: Mapped[datetime]
    not_before: Mapped[datetime] = mapped_column(index=True)
    taken_until: Mapped[datetime | None]
    attempts: Mapped[int] = mapped_column(default=0)
    error: Mapped[str | None] = mapped_column(Text)


class Turn(Base):
    """Whose turn something is that only one process may do at a time, and until when."""

    __tablename__ = "turn"

    name: Mapped[str] = mapped_column(primary_key=True)
    holder: Mapped[UUID]
    until: Mapped[datetime]


class WorkerRecord(Base):
    """A worker as it last said hello; `instance` differs for each start.

    `run_as` are the users of its native jobs, by company (slug); `""` is for the others.
    """

    __tablename__ = "worker"

    name: Mapped[str] = mapped_column(primary_key=True)
    pool: Mapped[str]
    host: Mapped[str]
    instance: Mapped[UUID]
    run_as: Mapped[dict[str, str]] = mapped_column(default=dict)
    seen_at: Mapped[datetime]


class Fact(Base):
    """What this ledger must remember about itself, by name."""

    __tablename__ = "fact"

    name: Mapped[str] = mapped_column(primary_key=True)
    value: Mapped[str]


class KeptAnswer(Base):
    """The answer to a POST with an Idempotency-Key, to be given again for a day.

    `actor` and `route` are whose and where; `digest` is of the body it was the answer to.
    `status` is None while the first request is being worked on.
    """

    __tablename__ = "kept_answer"

    actor: Mapped[str] = mapped_column(primary_key=True)
    route: Mapped[str] = mapped_column(primary_key=True)
    key: Mapped[str] = mapped_column(primary_key=True)
    digest: Mapped[str]
    status: Mapped[int | None]
    headers: Mapped[dict[str, str]] = mapped_column(default=dict)
    body: Mapped[bytes] = mapped_column(LargeBinary, default=b"")
    created_at: Mapped[datetime] = mapped_column(index=True)


class SignInFailure(Base):
    """A password that was wrong; `key` is a digest of the account or of the address."""

    __tablename__ = "sign_in_failure"

    id: Mapped[int] = mapped_column(BigId, primary_key=True)
    key: Mapped[str] = mapped_column(index=True)
    failed_at: Mapped[datetime] = mapped_column(index=True)
