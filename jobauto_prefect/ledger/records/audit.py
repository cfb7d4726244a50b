"""Records of the audit trail: entries, seals, archives."""

from datetime import datetime
from typing import Any

from sqlalchemy import JSON, Identity, Index
from sqlalchemy.orm import Mapped, mapped_column

from jobauto_prefect.ledger.base import Base, BigId, ordered_by


class AuditEntry(Base):
    """Who changed what; `changes` maps a field to `[before, after]`.

    Written by the session (`ledger.audit.trail`), never changed or deleted: triggers ensure that.
    """

    __tablename__ = "audit_entry"

    id: Mapped[int] = mapped_column(BigId, Identity(), primary_key=True)
    created_at: Mapped[datetime]
    actor: Mapped[str]
    user_id: Mapped[int | None]
    door: Mapped[str]
    address: Mapped[str | None]
    user_agent: Mapped[str | None]
    request_id: Mapped[str | None]
    entity_type: Mapped[str]
    entity_id: Mapped[int | None] = mapped_column(BigId)
    company_id: Mapped[int | None]
    action: Mapped[str]
    changes: Mapped[dict[str, Any]]

    __table_args__ = (
        Index("ix_audit_entry_entity", "entity_type", "entity_id"),
        *ordered_by(
            "audit_entry", "created_at", "user_id", "door", "entity_type", "entity_id",
            "company_id", "action",
        ),
    )  # fmt: skip


class AuditTally(Base):
    """The number of entries about a kind of record: the sum of `number`, like `JobTally`."""

    __tablename__ = "audit_tally"

    id: Mapped[int] = mapped_column(BigId, primary_key=True)
    entity_type: Mapped[str]
    number: Mapped[int] = mapped_column(BigId)


class AuditSeal(Base):
    """A block of audit entries: `hmac` covers all of them, this row, and the previous seal.

    `id` counts from 1. A block begins where the previous one ended; `gaps` are ranges (first and
    last) of ids in it without an entry, because their transaction was rolled back. `previous` is
    the `hmac` of the previous seal, empty for the first. Never changed or deleted: triggers ensure
    that.
    """

    __tablename__ = "audit_seal"

    id: Mapped[int] = mapped_column(BigId, primary_key=True, autoincrement=False)
    first_id: Mapped[int] = mapped_column(BigId)
    last_id: Mapped[int] = mapped_column(BigId)
    gaps: Mapped[list[list[int]]] = mapped_column(JSON)
    previous: Mapped[str]
    hmac: Mapped[str]
    sealed_at: Mapped[datetime]


class AuditArchive(Base):
    """A month that has left the trail: seals with their entries, in one file.

    `id` counts from 1. `digest` is the SHA-256 of the file's lines, `seal` the HMAC of its last
    seal, `hmac` covers this row. Never changed or deleted: triggers ensure that, and that only
    archived entries leave the trail.
    """

    __tablename__ = "audit_archive"

    id: Mapped[int] = mapped_column(BigId, primary_key=True, autoincrement=False)
    month: Mapped[str]
    first_seal: Mapped[int] = mapped_column(BigId)
    last_seal: Mapped[int] = mapped_column(BigId)
    first_id: Mapped[int] = mapped_column(BigId)
    last_id: Mapped[int] = mapped_column(BigId)
    entries: Mapped[int] = mapped_column(BigId)
    digest: Mapped[str]
    seal: Mapped[str]
    hmac: Mapped[str]
    archived_at: Mapped[datetime]
