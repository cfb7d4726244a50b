"""Internal records of the service: outbox, notices, locks, workers; none is an entity."""

from datetime import date, datetime
from typing import Any
from uuid import UUID

from sqlalchemy import ForeignKey, Index, LargeBinary, SmallInteger, Text, text
from sqlalchemy.orm import Mapped, mapped_column

from jobauto_prefect.ledger.base import SEALED, Base, BigId


class OutboxMessage(Base):
    """A message of the outbox: a change to make in Prefect, committed with its record.

    `kind` is a name in `engine/message_handlers.py`, `subject_id` the id of the record. A message
    is claimed until `taken_until`; a completed one is deleted. Lower `priority` numbers come first,
    older messages before newer ones.
    """

    __tablename__ = "outbox_message"
    __table_args__ = (Index("ix_outbox_message_priority_id", "priority", "id"),)

    id: Mapped[int] = mapped_column(BigId, primary_key=True)
    kind: Mapped[str]
    priority: Mapped[int] = mapped_column(SmallInteger)
    subject_id: Mapped[int] = mapped_column(BigId)
    payload: Mapped[dict[str, Any]] = mapped_column(default=dict)
    created_at: Mapped[datetime]
    not_before: Mapped[datetime] = mapped_column(index=True)
    taken_until: Mapped[datetime | None]
    attempts: Mapped[int] = mapped_column(default=0)
    error: Mapped[str | None] = mapped_column(Text)


class UnconfirmedEnd(Base):
    """A job that has ended, not yet confirmed to be shown so in Prefect.

    It is checked from `not_before` on; `looks` counts the checks that did not confirm it.
    """

    __tablename__ = "unconfirmed_end"

    job_id: Mapped[int] = mapped_column(ForeignKey("job.id", ondelete="CASCADE"), primary_key=True)
    not_before: Mapped[datetime] = mapped_column(index=True)
    looks: Mapped[int] = mapped_column(default=0)


class NamedLock(Base):
    """A lock across processes: who holds it, and until when."""

    __tablename__ = "named_lock"

    name: Mapped[str] = mapped_column(primary_key=True)
    holder: Mapped[UUID]
    until: Mapped[datetime]


class WorkerRecord(Base):
    """A worker as it last registered; `instance` differs for each start.

    `run_as` are the users of its native jobs, by the id of the company; `""` is for the others.
    `renewal` is the number of this instance's last renewal. `hindrances` are what keeps it from
    working: "disk", "processes" or the name of an executor -> why. `clock_ahead` is how many
    seconds its host's clock is ahead of the ledger's. `limit` is how many jobs it runs at once;
    None: any number, or unknown. `facts` are what it is compared with others by, see `WorkerFacts`.
    `lost_at` is when somebody declared it lost; then `instance` is nobody's.
    """

    __tablename__ = "worker"

    name: Mapped[str] = mapped_column(primary_key=True)
    pool: Mapped[str]
    host: Mapped[str]
    instance: Mapped[UUID]
    run_as: Mapped[dict[str, str]] = mapped_column(default=dict)
    seen_at: Mapped[datetime]
    renewal: Mapped[int] = mapped_column(default=0)
    hindrances: Mapped[dict[str, str]] = mapped_column(default=dict)
    clock_ahead: Mapped[float] = mapped_column(default=0.0)
    limit: Mapped[int | None]
    facts: Mapped[dict[str, Any]] = mapped_column(default=dict)
    lost_at: Mapped[datetime | None]


class PartRecord(Base):
    """A process of the service as it last reported itself; workers have their own table.

    `kind` is "facade", "services" or "prefect". `clock_ahead` is how many seconds its host's clock
    is ahead of the ledger's. `facts` are what its neighbours must have alike, see `Facts`.
    """

    __tablename__ = "part"

    instance: Mapped[UUID] = mapped_column(primary_key=True)
    kind: Mapped[str]
    host: Mapped[str]
    version: Mapped[str]
    started_at: Mapped[datetime]
    seen_at: Mapped[datetime]
    clock_ahead: Mapped[float] = mapped_column(default=0.0)
    facts: Mapped[dict[str, Any]] = mapped_column(default=dict)


class InstallationValue(Base):
    """A named value that this installation stores about itself."""

    __tablename__ = "installation_value"

    name: Mapped[str] = mapped_column(primary_key=True)
    value: Mapped[str]


class IdempotencyRecord(Base):
    """The response to a POST with an Idempotency-Key, repeated for a day.

    `actor` and `route` are of the request; `digest` is that of its body. `status` is None while the
    first request is being processed.
    """

    __tablename__ = "idempotency_record"

    actor: Mapped[str] = mapped_column(primary_key=True)
    route: Mapped[str] = mapped_column(primary_key=True)
    key: Mapped[str] = mapped_column(primary_key=True)
    digest: Mapped[str]
    status: Mapped[int | None]
    headers: Mapped[dict[str, str]] = mapped_column(default=dict)
    body: Mapped[bytes] = mapped_column(LargeBinary, default=b"")
    created_at: Mapped[datetime] = mapped_column(index=True)


class SignInFailure(Base):
    """A wrong password; `account` is a digest of the given login.

    `guess` is a keyed hash of account and password, by which a repeated guess is recognized.
    """

    __tablename__ = "sign_in_failure"

    id: Mapped[int] = mapped_column(BigId, primary_key=True)
    account: Mapped[str] = mapped_column(index=True)
    network: Mapped[str] = mapped_column(index=True)
    guess: Mapped[str]
    failed_at: Mapped[datetime] = mapped_column(index=True)


class SignInSuccess(Base):
    """The last day (UTC) of a correct password, for an account from a network."""

    __tablename__ = "sign_in_success"

    account: Mapped[str] = mapped_column(primary_key=True)
    network: Mapped[str] = mapped_column(primary_key=True)
    day: Mapped[date] = mapped_column(index=True)


class Notice(Base):
    """One notice for one recipient, sent alone or with others in a message.

    `target` is a mail address, or the identifier of a Slack address, which itself is in `secret`,
    encrypted. `data` is what was known when it was written. While it is owed, `due_at` is when it
    is sent or retried; `batch` is the message it was sent in, or the one that has it claimed until
    `taken_until`. `attempts` counts failed ones.
    """

    __tablename__ = "notice"
    __table_args__ = (
        Index(
            "ix_notice_due",
            "due_at",
            sqlite_where=text("state = 'owed'"),
            postgresql_where=text("state = 'owed'"),
        ),
        Index("ix_notice_target", "target", "state", "sent_at"),
        Index("ix_notice_runtemplate_id", "runtemplate_id", "id"),
    )

    id: Mapped[int] = mapped_column(BigId, primary_key=True)
    occasion: Mapped[str]
    channel: Mapped[str]
    target: Mapped[str]
    secret: Mapped[str | None] = mapped_column(Text, info=SEALED)
    company_id: Mapped[int] = mapped_column(ForeignKey("company.id"))
    runtemplate_id: Mapped[int] = mapped_column(ForeignKey("runtemplate.id"))
    task_id: Mapped[int | None] = mapped_column(BigId, index=True)
    job_id: Mapped[int | None] = mapped_column(BigId, index=True)
    data: Mapped[dict[str, Any]]
    state: Mapped[str]
    due_at: Mapped[datetime]
    taken_until: Mapped[datetime | None]
    batch: Mapped[UUID | None]
    attempts: Mapped[int] = mapped_column(default=0)
    error: Mapped[str | None] = mapped_column(Text)
    created_at: Mapped[datetime] = mapped_column(index=True)
    sent_at: Mapped[datetime | None]
