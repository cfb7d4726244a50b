"""Records of closed time: calendars, and freezes for maintenance."""

from datetime import datetime
from typing import Any, ClassVar

from sqlalchemy import JSON, Index, Text, text
from sqlalchemy.orm import Mapped, mapped_column

from jobauto_prefect.ledger.base import (
    UNAUDITED,
    Audited,
    Base,
    Labelled,
    Retirable,
    unique_while_active,
)


class Calendar(Audited, Labelled, Retirable, Base):
    """Days, times of day and periods in which windows' jobs do not start.

    They are in the zone `timezone`, None: that of each run template. `country` (ISO 3166-1) and
    `subdivision` add public holidays. Companies and run templates name calendars.
    """

    __tablename__ = "calendar"
    __table_args__ = (unique_while_active("calendar", "name"),)
    entity_name: ClassVar[str] = "Calendar"

    id: Mapped[int] = mapped_column(primary_key=True)
    name: Mapped[str]
    timezone: Mapped[str | None]
    country: Mapped[str | None]
    subdivision: Mapped[str | None]
    days: Mapped[list[dict[str, Any]]] = mapped_column(JSON, default=list)
    times: Mapped[list[dict[str, Any]]] = mapped_column(JSON, default=list)
    periods: Mapped[list[dict[str, Any]]] = mapped_column(JSON, default=list)
    created_at: Mapped[datetime] = mapped_column(info=UNAUDITED)
    updated_at: Mapped[datetime] = mapped_column(info=UNAUDITED)


class Freeze(Audited, Base):
    """A freeze for maintenance, `[since, ended_at or until)`.

    `until` is when it ends by itself, None: never. `ended_at` is when somebody ended it, or the
    `until` that was found to have passed; at most one row has none.
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
