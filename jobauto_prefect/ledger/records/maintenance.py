"""When nothing starts."""

from datetime import datetime
from typing import ClassVar

from sqlalchemy import Index, Text, text
from sqlalchemy.orm import Mapped, mapped_column

from jobauto_prefect.ledger.base import Audited, Base


class Freeze(Audited, Base):
    """A freeze for maintenance, `[since, ended_at or until)`.

    `until` is when it ends by itself, None: never. `ended_at` is when somebody ended it, or what
    `until` said when that was first noticed; there is one row at most that has none.
    """

    __tablename__ = "freeze"
    __table_args__ = (
        Index(
            "uq_freeze_present",
            text("(ended_at IS NULL)"),
            unique=True,
            sqlite_where=text("ended_at IS NULL"),
            postgresql_where=text("ended_at IS NULL"),
        ),
    )
    entity_name: ClassVar[str] = "Freeze"

    id: Mapped[int] = mapped_column(primary_key=True)
    reason: Mapped[str | None] = mapped_column(Text)
    since: Mapped[datetime]
    until: Mapped[datetime | None]
    ended_at: Mapped[datetime | None]
    begun_by: Mapped[str]
