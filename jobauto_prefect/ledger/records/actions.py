"""What events have the service do, beside starting rules."""

from datetime import datetime
from typing import TYPE_CHECKING, Any

from sqlalchemy import ForeignKey, Index, Text, UniqueConstraint, text
from sqlalchemy.orm import Mapped, mapped_column, relationship

from jobauto_prefect.ledger.base import SEALED, Base, BigId

if TYPE_CHECKING:
    from jobauto_prefect.ledger.records.events import Event


class OwedAction(Base):
    """One action that an event owes: there is one of a kind and target, so it is done once.

    `config` is what the run template said when the job ended, `secret` the encrypted key of a
    webhook's signature. `target` is a webhook's address, else empty. While it is owed, `due_at` is
    when it is to be done, or tried again, and until `taken_until` it is in somebody's hands.
    `job_id` is the job it started, `error` why it failed, or failed last.
    """

    __tablename__ = "owed_action"
    __table_args__ = (
        UniqueConstraint("event_id", "kind", "target"),
        Index(
            "ix_owed_action_due",
            "due_at",
            sqlite_where=text("state = 'owed'"),
            postgresql_where=text("state = 'owed'"),
        ),
        Index(
            "ix_owed_action_dead",
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
