"""Records of applications, companies and run templates."""

import json
from datetime import datetime
from typing import Any, ClassVar
from uuid import UUID

from sqlalchemy import JSON, ForeignKey, Text
from sqlalchemy.orm import Mapped, mapped_column, relationship

from jobauto_prefect.definitions import (
    Backoff,
    ContactLost,
    Definition,
    Misfire,
    OnClosed,
    Overlap,
    parse_text,
)
from jobauto_prefect.ledger.base import (
    SEALED,
    UNAUDITED,
    Audited,
    Base,
    Labelled,
    OrderedJson,
    Retirable,
    unique_while_active,
)
from jobauto_prefect.ledger.records.credentials import TemplateCredential


class App(Audited, Labelled, Retirable, Base):
    """An application; `source` is the imported text, `document` its content.

    `company_id` is the company it belongs to; None: it is shared. `topics` are names. `approved` is
    what an administrator last saved of it (`jobs/claims/approval.py`).
    """

    __tablename__ = "app"
    __table_args__ = (unique_while_active("app", "uuid"),)
    entity_name: ClassVar[str] = "App"

    id: Mapped[int] = mapped_column(primary_key=True)
    company_id: Mapped[int | None] = mapped_column(ForeignKey("company.id"), index=True)
    uuid: Mapped[str | None]
    name: Mapped[str] = mapped_column(index=True)
    enabled: Mapped[bool] = mapped_column(default=True)
    version: Mapped[str | None]
    source: Mapped[str] = mapped_column(Text, info=UNAUDITED)
    document: Mapped[dict[str, Any]] = mapped_column(OrderedJson)
    topics: Mapped[list[str]] = mapped_column(default=list)
    flow_id: Mapped[UUID | None] = mapped_column(info=UNAUDITED)
    flow_name: Mapped[str | None] = mapped_column(info=UNAUDITED)
    approved: Mapped[dict[str, Any]] = mapped_column(default=dict, info=UNAUDITED)
    created_at: Mapped[datetime] = mapped_column(info=UNAUDITED)
    updated_at: Mapped[datetime] = mapped_column(info=UNAUDITED)

    @property
    def definition(self) -> Definition:
        """The definition in the document."""
        return parse_text(json.dumps(self.document))


class AppVersion(Base):
    """A definition that an import replaced; `number` counts from 1 for each application."""

    __tablename__ = "app_version"

    app_id: Mapped[int] = mapped_column(ForeignKey("app.id", ondelete="CASCADE"), primary_key=True)
    number: Mapped[int] = mapped_column(primary_key=True)
    version: Mapped[str | None]
    source: Mapped[str] = mapped_column(Text)
    replaced_at: Mapped[datetime]
    replaced_by: Mapped[str]


class Company(Audited, Labelled, Retirable, Base):
    """A company; `env` are its plain values, `secrets` its encrypted ones.

    `retention` are the company's own retention limits, by name. `notices` says who is notified of
    what, by channel (`mail`, `slack`), `notice_secrets` are their encrypted addresses.
    """

    __tablename__ = "company"
    __table_args__ = (unique_while_active("company", "slug"),)
    entity_name: ClassVar[str] = "Company"

    id: Mapped[int] = mapped_column(primary_key=True)
    slug: Mapped[str]
    name: Mapped[str]
    enabled: Mapped[bool] = mapped_column(default=True)
    ic: Mapped[str | None]
    email: Mapped[str | None]
    logo: Mapped[str | None] = mapped_column(Text)
    settings: Mapped[str | None] = mapped_column(Text)
    customer: Mapped[int | None]
    timezone: Mapped[str | None]
    topics: Mapped[list[str]] = mapped_column(default=list)
    calendars: Mapped[list[str]] = mapped_column(default=list)
    retention: Mapped[dict[str, int]] = mapped_column(JSON, default=dict)
    notices: Mapped[dict[str, Any]] = mapped_column(default=dict)
    notice_secrets: Mapped[dict[str, str]] = mapped_column(default=dict, info=SEALED)
    env: Mapped[dict[str, str]] = mapped_column(default=dict)
    secrets: Mapped[dict[str, str]] = mapped_column(default=dict, info=SEALED)
    created_at: Mapped[datetime] = mapped_column(info=UNAUDITED)
    updated_at: Mapped[datetime] = mapped_column(info=UNAUDITED)


class RunTemplate(Audited, Labelled, Retirable, Base):
    """How one company runs one application.

    `interv` is the interval code (docs/scheduling.md), `delay` and `retry_min_gap` are in seconds.
    `queue` is the work queue of its pool, None: the default one; `queue_priority` is set for that
    queue, the lowest comes first, None: unchanged.
    `executors` are those that a job may name instead of `executor`.
    Without `max_attempts`, ends worth a retry have three attempts.
    `applied_parameters` and `applied_paused` are what the Prefect deployment was last given, and
    `applied_schedule` says whether that included a schedule; None: by an earlier version, which
    gave it each one that Prefect reads alike.
    `blocks` are foreign Prefect blocks: `block` (type slug/name) and `env`, which maps variables to
    its fields.
    `approved` is what an administrator last saved of it (`jobs/claims/approval.py`).
    `retention` are the template's own retention limits, by name.
    `notices` says who is notified of what, by channel (`mail`, `slack`), `notice_secrets` are their
    encrypted addresses.
    `success` and `fail` are the actions that follow the end of a job: name -> configuration;
    `action_secrets` are the keys of their webhooks' signatures, by these two names, and
    `action_writers` the users who saved them, like `EventRule.written_by`.
    The window scheduler uses `kept_schedule` (cron, zone and delay in one text): `next_window` is
    the start of the first window it has not opened, due at `next_schedule`.
    """

    __tablename__ = "runtemplate"
    __table_args__ = (unique_while_active("runtemplate", "company_id", "name"),)
    entity_name: ClassVar[str] = "RunTemplate"

    id: Mapped[int] = mapped_column(primary_key=True)
    app_id: Mapped[int] = mapped_column(ForeignKey("app.id"), index=True)
    company_id: Mapped[int] = mapped_column(ForeignKey("company.id"), index=True)
    name: Mapped[str]
    active: Mapped[bool] = mapped_column(default=True)
    interv: Mapped[str] = mapped_column(default="n")
    cron: Mapped[str | None]
    timezone: Mapped[str | None]
    delay: Mapped[int] = mapped_column(default=0)
    executor: Mapped[str] = mapped_column(default="Native")
    executors: Mapped[list[str]] = mapped_column(default=list)
    executor_settings: Mapped[dict[str, Any]] = mapped_column(default=dict)
    pool: Mapped[str | None]
    queue: Mapped[str | None]
    queue_priority: Mapped[int | None]
    timeout_seconds: Mapped[float | None]
    deadline_offset: Mapped[str | None]
    allow_late: Mapped[bool] = mapped_column(default=False)
    max_attempts: Mapped[int | None]
    retry_backoff: Mapped[str] = mapped_column(default=Backoff.NONE)
    retry_min_gap: Mapped[int] = mapped_column(default=0)
    retry_undeclared: Mapped[bool] = mapped_column(default=False)
    overlap: Mapped[str] = mapped_column(default=Overlap.WAIT)
    misfire: Mapped[str] = mapped_column(default=Misfire.LATEST)
    on_contact_lost: Mapped[str] = mapped_column(default=ContactLost.FINISH)
    on_closed: Mapped[str] = mapped_column(default=OnClosed.EXCUSE)
    note: Mapped[str | None] = mapped_column(Text)
    topics: Mapped[list[str]] = mapped_column(default=list)
    calendars: Mapped[list[str]] = mapped_column(default=list)
    retention: Mapped[dict[str, int]] = mapped_column(JSON, default=dict)
    notices: Mapped[dict[str, Any]] = mapped_column(default=dict)
    notice_secrets: Mapped[dict[str, str]] = mapped_column(default=dict, info=SEALED)
    env: Mapped[dict[str, str]] = mapped_column(default=dict)
    secrets: Mapped[dict[str, str]] = mapped_column(default=dict, info=SEALED)
    blocks: Mapped[list[dict[str, Any]]] = mapped_column(JSON, default=list)
    success: Mapped[dict[str, Any]] = mapped_column(default=dict)
    fail: Mapped[dict[str, Any]] = mapped_column(default=dict)
    action_secrets: Mapped[dict[str, str]] = mapped_column(default=dict, info=SEALED)
    action_writers: Mapped[dict[str, int]] = mapped_column(default=dict, info=UNAUDITED)
    approved: Mapped[dict[str, Any]] = mapped_column(default=dict, info=UNAUDITED)
    deployment_id: Mapped[UUID | None] = mapped_column(index=True, info=UNAUDITED)
    applied_parameters: Mapped[dict[str, Any] | None] = mapped_column(info=UNAUDITED)
    applied_paused: Mapped[bool | None] = mapped_column(info=UNAUDITED)
    applied_schedule: Mapped[bool | None] = mapped_column(info=UNAUDITED)
    kept_schedule: Mapped[str | None] = mapped_column(info=UNAUDITED)
    next_window: Mapped[datetime | None] = mapped_column(info=UNAUDITED)
    next_schedule: Mapped[datetime | None] = mapped_column(index=True, info=UNAUDITED)
    created_at: Mapped[datetime] = mapped_column(info=UNAUDITED)
    updated_at: Mapped[datetime] = mapped_column(info=UNAUDITED)

    app: Mapped[App] = relationship()
    company: Mapped[Company] = relationship()
    assignments: Mapped[list[TemplateCredential]] = relationship(
        order_by=TemplateCredential.position, cascade="all, delete-orphan", lazy="selectin"
    )

    @property
    def executor_names(self) -> tuple[str, ...]:
        """The executors that its jobs may have, its own first."""
        return tuple(dict.fromkeys([self.executor, *self.executors]))

    def zone_name(self, service_zone: str) -> str:
        """Return the zone of its schedule: its own, else its company's, else the service's."""
        return self.timezone or self.company.timezone or service_zone
