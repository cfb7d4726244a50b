"""Event sources and the rules that react to them."""

from datetime import datetime
from typing import ClassVar
from uuid import UUID

from sqlalchemy import ForeignKey, Text
from sqlalchemy.orm import Mapped, mapped_column, relationship

from jobauto_prefect.ledger.base import (
    SECRET,
    UNAUDITED,
    Audited,
    Base,
    BigId,
    Labelled,
    Retirable,
    unique_while_active,
)
from jobauto_prefect.ledger.records.applications import RunTemplate


class EventSource(Audited, Labelled, Retirable, Base):
    """An adapter database whose changes are events; `poll_interval` is in seconds.

    `db_password` is encrypted. None for `company_id`: the source belongs to no one company.
    `consume`: changes that are stored here are deleted there, or kept. Changes up to `start_after`
    are never read; `last_processed_id` is the highest that was. Who reads it now is `taken_by`, and
    alone with it until `taken_until`. `poll_error` is why the last look at it failed.
    """

    __tablename__ = "event_source"
    __table_args__ = (unique_while_active("event_source", "name"),)
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
    db_password: Mapped[str | None] = mapped_column(info=SECRET)
    enabled: Mapped[bool] = mapped_column(default=True)
    poll_interval: Mapped[int] = mapped_column(default=60)
    consume: Mapped[str] = mapped_column(default="delete")
    start_after: Mapped[int] = mapped_column(BigId, default=0)
    last_processed_id: Mapped[int] = mapped_column(BigId, default=0, info=UNAUDITED)
    polled_at: Mapped[datetime | None] = mapped_column(info=UNAUDITED)
    poll_error: Mapped[str | None] = mapped_column(Text, info=UNAUDITED)
    taken_by: Mapped[UUID | None] = mapped_column(info=UNAUDITED)
    taken_until: Mapped[datetime | None] = mapped_column(info=UNAUDITED)
    created_at: Mapped[datetime] = mapped_column(info=UNAUDITED)
    updated_at: Mapped[datetime] = mapped_column(info=UNAUDITED)


class EventRule(Audited, Labelled, Retirable, Base):
    """What an event starts: a change of a source, or the end of another run template.

    `env_mapping` is JSON text: environment key -> selector. Empty `evidence`: any.
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
    env_mapping: Mapped[str] = mapped_column(Text, default="{}")
    enabled: Mapped[bool] = mapped_column(default=True)
    priority: Mapped[int] = mapped_column(default=0)
    created_at: Mapped[datetime] = mapped_column(info=UNAUDITED)
    updated_at: Mapped[datetime] = mapped_column(info=UNAUDITED)

    runtemplate: Mapped[RunTemplate] = relationship(foreign_keys=runtemplate_id)
