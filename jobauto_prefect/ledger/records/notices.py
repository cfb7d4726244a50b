"""What somebody is to be told of jobs."""

from datetime import datetime
from typing import Any
from uuid import UUID

from sqlalchemy import ForeignKey, Index, Text, text
from sqlalchemy.orm import Mapped, mapped_column

from jobauto_prefect.ledger.base import SEALED, Base, BigId


class Notice(Base):
    """One thing that one recipient is told, alone or with others in a message.

    `target` is a mail address, or what a Slack address is known by; that one is `secret`,
    encrypted. `data` is what was known when it was written. While it is owed, `due_at` is when it
    is to be sent, or tried again; `batch` is the message it is in until `taken_until`, in
    somebody's hands, and the one it was sent in. `attempts` counts those in vain.
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
