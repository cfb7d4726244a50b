"""The audit trail."""

from datetime import datetime
from typing import Any

from sqlalchemy import Identity, Index
from sqlalchemy.orm import Mapped, mapped_column

from jobauto_prefect.ledger.base import Base, BigId


class AuditEntry(Base):
    """Who changed what; `changes` maps a field to `[before, after]`.

    Written by the session (`audit.py`), never changed or deleted: triggers see to it.
    """

    __tablename__ = "audit_entry"

    id: Mapped[int] = mapped_column(BigId, Identity(), primary_key=True)
    created_at: Mapped[datetime] = mapped_column(index=True)
    actor: Mapped[str]
    user_id: Mapped[int | None] = mapped_column(index=True)
    door: Mapped[str]
    address: Mapped[str | None]
    user_agent: Mapped[str | None]
    request_id: Mapped[str | None]
    entity_type: Mapped[str]
    entity_id: Mapped[int | None] = mapped_column(BigId)
    company_id: Mapped[int | None] = mapped_column(index=True)
    action: Mapped[str]
    changes: Mapped[dict[str, Any]]

    __table_args__ = (Index("ix_audit_entry_entity", "entity_type", "entity_id"),)
