"""Records of event sources, rules, events, and what events start."""

from datetime import datetime
from typing import Any, ClassVar
from uuid import UUID

from sqlalchemy import (
    ColumnElement,
    ForeignKey,
    Index,
    Text,
    UniqueConstraint,
    case,
    exists,
    or_,
    text,
)
from sqlalchemy.orm import Mapped, column_property, mapped_column, relationship

from jobauto_prefect.ledger.base import (
    SEALED,
    UNAUDITED,
    Audited,
    Base,
    BigId,
    ExactJson,
    Labelled,
    Retirable,
    ordered_by,
    unique_while_active,
    unique_while_shared,
)
from jobauto_prefect.ledger.records.applications import RunTemplate


class EventSource(Audited, Labelled, Retirable, Base):
    """An adapter database whose changes are events; `poll_interval` is in seconds.

    `db_password` is encrypted. None for `company_id`: the source belongs to no single company.
    `consume`: changes stored here are deleted there, otherwise kept. Changes up to `start_after`
    are never read; `last_processed_id` is the highest that was. `poll_error` is why the last poll
    failed.
    """

    __tablename__ = "event_source"
    __table_args__ = (
        unique_while_active("event_source", "company_id", "name"),
        unique_while_shared("event_source", "name"),
    )
    entity_name: ClassVar[str] = "EventSource"

    id: Mapped[int] = mapped_column(primary_key=True)
    company_id: Mapped[int | None] = mapped_column(ForeignKey("company.id"), index=True)
    name: Mapped[str]
    adapter_type: Mapped[str] = mapped_column(default="abraflexi-webhook")
    db_connection: Mapped[str] = mapped_column(default="mysql")
    db_host: Mapped[str] = mapped_column(default="localhost")
    db_port: Mapped[str] = mapped_column(default="3306")
    db_database: Mapped[str]
    db_username: Mapped[str | None]
    db_password: Mapped[str | None] = mapped_column(info=SEALED)
    enabled: Mapped[bool] = mapped_column(default=True)
    poll_interval: Mapped[int] = mapped_column(default=60)
    consume: Mapped[str] = mapped_column(default="delete")
    start_after: Mapped[int] = mapped_column(BigId, default=0)
    last_processed_id: Mapped[int] = mapped_column(BigId, default=0, info=UNAUDITED)
    polled_at: Mapped[datetime | None] = mapped_column(info=UNAUDITED)
    poll_error: Mapped[str | None] = mapped_column(Text, info=UNAUDITED)
    created_at: Mapped[datetime] = mapped_column(info=UNAUDITED)
    updated_at: Mapped[datetime] = mapped_column(info=UNAUDITED)


class EventRule(Audited, Labelled, Retirable, Base):
    """What an event starts: a change of a source, or the end of another run template.

    `env_mapping` is JSON text: environment key -> selector. Empty `evidence`: any. For ends, `on`
    says which count. `fan_out`: a job for each element of a list. `automation_id` is Prefect's.
    `written_by` is the user who vouches for its use of another company's events
    (`ledger/access/vouchers.py`); None: the operator, or a rule older than this column.
    """

    __tablename__ = "event_rule"
    entity_name: ClassVar[str] = "EventRule"

    id: Mapped[int] = mapped_column(primary_key=True)
    event_source_id: Mapped[int | None] = mapped_column(ForeignKey("event_source.id"), index=True)
    runtemplate_source_id: Mapped[int | None] = mapped_column(
        ForeignKey("runtemplate.id"), index=True
    )
    runtemplate_id: Mapped[int] = mapped_column(ForeignKey("runtemplate.id"), index=True)
    evidence: Mapped[str | None]
    operation: Mapped[str] = mapped_column(default="any")
    on: Mapped[str] = mapped_column(default="success")
    env_mapping: Mapped[str] = mapped_column(Text, default="{}")
    fan_out: Mapped[bool] = mapped_column(default=False)
    enabled: Mapped[bool] = mapped_column(default=True)
    priority: Mapped[int] = mapped_column(default=0)
    automation_id: Mapped[UUID | None] = mapped_column(info=UNAUDITED)
    written_by: Mapped[int | None] = mapped_column(info=UNAUDITED)
    created_at: Mapped[datetime] = mapped_column(info=UNAUDITED)
    updated_at: Mapped[datetime] = mapped_column(info=UNAUDITED)

    runtemplate: Mapped[RunTemplate] = relationship(foreign_keys=runtemplate_id)
    runtemplate_source: Mapped[RunTemplate | None] = relationship(
        foreign_keys=runtemplate_source_id
    )
    event_source: Mapped[EventSource | None] = relationship()

    @property
    def source_company_id(self) -> int | None:
        """The company whose events it uses; None: its source has no company."""
        source = self.runtemplate_source or self.event_source
        return source.company_id if source else None


class Delivery(Base):
    """The start of one rule by one event: there is one such row, so a rule starts once.

    A rule that fans out has one for each `element` of the list, from 0; the others are created when
    the first is claimed.

    While it is owed, `due_at` is when this service starts the job itself (None: after Prefect has
    got the event), and `flow_run_id` the waiting run that Prefect's automation has created.
    """

    __tablename__ = "delivery"
    __table_args__ = (
        UniqueConstraint("event_id", "rule_id", "element"),
        Index(
            "ix_delivery_owed",
            "due_at",
            sqlite_where=text("state = 'owed'"),
            postgresql_where=text("state = 'owed'"),
        ),
        Index(
            "ix_delivery_dead",
            "rule_id",
            sqlite_where=text("state = 'dead'"),
            postgresql_where=text("state = 'dead'"),
        ),
    )

    id: Mapped[int] = mapped_column(BigId, primary_key=True)
    event_id: Mapped[int] = mapped_column(ForeignKey("event.id", ondelete="CASCADE"))
    rule_id: Mapped[int] = mapped_column(ForeignKey("event_rule.id"), index=True)
    element: Mapped[int] = mapped_column(default=0)
    state: Mapped[str]
    job_id: Mapped[int | None] = mapped_column(BigId, index=True)
    flow_run_id: Mapped[UUID | None]
    due_at: Mapped[datetime | None]
    error: Mapped[str | None] = mapped_column(Text)
    created_at: Mapped[datetime]

    event: Mapped["Event"] = relationship()
    rule: Mapped[EventRule] = relationship()


class PendingAction(Base):
    """One action after an event: there is one for each kind and target, so it is done once.

    `config` is the run template's at the end of the job, `secret` the encrypted key of a webhook's
    signature. `target` is a webhook's address, else empty. While it is owed, `due_at` is when it is
    done or retried, and it is claimed until `taken_until`. `job_id` is the job it started, `error`
    why it failed, or last failed.
    """

    __tablename__ = "pending_action"
    __table_args__ = (
        UniqueConstraint("event_id", "kind", "target"),
        Index(
            "ix_pending_action_due",
            "due_at",
            sqlite_where=text("state = 'owed'"),
            postgresql_where=text("state = 'owed'"),
        ),
        Index(
            "ix_pending_action_dead",
            "kind",
            sqlite_where=text("state = 'dead'"),
            postgresql_where=text("state = 'dead'"),
        ),
    )

    id: Mapped[int] = mapped_column(BigId, primary_key=True)
    event_id: Mapped[int] = mapped_column(ForeignKey("event.id", ondelete="CASCADE"))
    kind: Mapped[str]
    target: Mapped[str] = mapped_column(Text, default="")
    config: Mapped[dict[str, Any]] = mapped_column(default=dict)
    secret: Mapped[str | None] = mapped_column(Text, info=SEALED)
    state: Mapped[str]
    attempts: Mapped[int] = mapped_column(default=0)
    due_at: Mapped[datetime]
    taken_until: Mapped[datetime | None]
    job_id: Mapped[int | None] = mapped_column(BigId)
    error: Mapped[str | None] = mapped_column(Text)
    created_at: Mapped[datetime]
    done_at: Mapped[datetime | None]

    event: Mapped["Event"] = relationship()


def _owing(event_id: Any, state: str) -> ColumnElement[bool]:
    delivery = exists().where(Delivery.event_id == event_id, Delivery.state == state)
    action = exists().where(PendingAction.event_id == event_id, PendingAction.state == state)
    return or_(delivery, action)


class Event(Base):
    """Something that happened: a change of a source, or the end of a run template's job.

    `data` is everything known about it, as JSON; `inversion` and the `digest` of its row identify a
    change. `depth` counts the ends that led here. `emitted_at` is when Prefect got it,
    `emission_error` why it never will. `error` is why a change can't be stored unchanged, so that
    it starts nothing. `state` sums up what it owes: dead after an error, or if a delivery or an
    action is dead; owed if one is owed; else done. `traceparent` continues its trace.
    """

    __tablename__ = "event"
    __table_args__ = (
        UniqueConstraint("event_source_id", "inversion", "digest"),
        *ordered_by(
            "event",
            "kind",
            "event_source_id",
            "runtemplate_id",
            "company_id",
            "inversion",
            "depth",
            "created_at",
            "emitted_at",
        ),
        Index(
            "ix_event_unkept",
            "event_source_id",
            "id",
            sqlite_where=text("error IS NOT NULL"),
            postgresql_where=text("error IS NOT NULL"),
        ),
        # Unsent events are few and polled all the time.
        Index(
            "ix_event_silent",
            "id",
            sqlite_where=text("emitted_at IS NULL"),
            postgresql_where=text("emitted_at IS NULL"),
        ),
    )

    id: Mapped[int] = mapped_column(BigId, primary_key=True)
    kind: Mapped[str]
    event_source_id: Mapped[int | None] = mapped_column(ForeignKey("event_source.id"))
    runtemplate_id: Mapped[int | None] = mapped_column(ForeignKey("runtemplate.id"))
    job_id: Mapped[int | None] = mapped_column(BigId, unique=True)
    company_id: Mapped[int | None] = mapped_column(ForeignKey("company.id"))
    inversion: Mapped[int | None] = mapped_column(BigId)
    digest: Mapped[str | None]
    evidence: Mapped[str | None]
    operation: Mapped[str]
    record_id: Mapped[str | None]
    data: Mapped[dict[str, Any]] = mapped_column(ExactJson)
    depth: Mapped[int] = mapped_column(default=0)
    created_at: Mapped[datetime]
    emitted_at: Mapped[datetime | None]
    emission_error: Mapped[str | None] = mapped_column(Text)
    error: Mapped[str | None] = mapped_column(Text)
    traceparent: Mapped[str | None]
    state: Mapped[str] = column_property(
        case(
            (or_(error.is_not(None), _owing(id, "dead")), "dead"),  # noqa: A003 - the column
            (_owing(id, "owed"), "owed"),  # noqa: A003 - the column
            else_="done",
        ),
        deferred=True,
    )
