"""Calendars: the days, the times of days and the periods that are closed. Pure.

Days and times are those of the wall clock of a zone: a day is as long as it is there.
"""

import logging
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta
from functools import lru_cache
from importlib import import_module
from typing import Any
from zoneinfo import ZoneInfo

from jobauto_prefect.compiler.closures import Closure

logger = logging.getLogger(__name__)

WEEKDAYS = ("mon", "tue", "wed", "thu", "fri", "sat", "sun")
DAY = timedelta(days=1)


@dataclass(frozen=True, slots=True)
class ClosedDays:
    """Whole days, both included; `yearly`: those of each year.

    A 29 February comes in leap years only.
    """

    first: date
    last: date
    yearly: bool
    title: str | None

    def include(self, day: date) -> bool:
        """Whether a day is one of them."""
        if not self.yearly:
            return self.first <= day <= self.last
        return any(self._from(year) <= day <= self._from(year) + (self.last - self.first)
                   for year in (day.year - 1, day.year) if self._comes(year))  # fmt: skip

    def _from(self, year: int) -> date:
        return self.first.replace(year=year)

    def _comes(self, year: int) -> bool:
        try:
            self._from(year)
        except ValueError:
            return False
        return True


@dataclass(frozen=True, slots=True)
class ClosedTimes:
    """`[begin, end)` of each of these weekdays (0 is Monday); an `end` not after it is of the
    next day."""

    begin: time
    end: time
    weekdays: frozenset[int]
    title: str | None

    def within(self, day: date, zone: ZoneInfo) -> tuple[datetime, datetime] | None:
        """That which begins on a day; None: none does."""
        if day.weekday() not in self.weekdays:
            return None
        last = day if self.end > self.begin else day + DAY
        return _instant(day, self.begin, zone), _instant(last, self.end, zone)


@dataclass(frozen=True, slots=True)
class Calendar:
    """What one calendar closes, on the wall clock of a zone."""

    name: str
    zone: ZoneInfo
    country: str | None = None
    subdivision: str | None = None
    days: Sequence[ClosedDays] = ()
    times: Sequence[ClosedTimes] = ()
    periods: Sequence[Closure] = ()

    def at(self, instant: datetime) -> Closure | None:
        """What an instant lies in; None: it is open."""
        local = instant.astimezone(self.zone)
        for title in self._holidays(local.date()):
            return Closure(*_day(local, instant), self._reason(title))
        for period in self.periods:
            if period.at(instant):
                return Closure(period.start, period.end, self._reason(period.reason))
        for closed in self.times:
            for day in (local.date() - DAY, local.date()):
                found = closed.within(day, self.zone)
                if found is not None and found[0] <= instant < found[1]:
                    return Closure(*found, self._reason(closed.title))
        return None

    def _holidays(self, day: date) -> Iterator[str | None]:
        yield from (closed.title for closed in self.days if closed.include(day))
        if self.country is not None:
            named = public_holiday(self.country, self.subdivision, day)
            if named is not None:
                yield named

    def _reason(self, title: str | None) -> str:
        return f"{title} ({self.name})" if title else self.name


def calendar_of(members: Mapping[str, Any], zone: ZoneInfo) -> Calendar:
    """From the members of a record, which were judged when it was written.

    `zone` is that of the calendar, else of the run template whose windows it closes.
    """
    return Calendar(
        members["name"],
        zone,
        members["country"],
        members["subdivision"],
        tuple(map(_days, members["days"])),
        tuple(map(_times, members["times"])),
        tuple(_period(each, zone) for each in members["periods"]),
    )


def _days(said: Mapping[str, Any]) -> ClosedDays:
    first = date.fromisoformat(said["date"])
    last = date.fromisoformat(said["until"]) if said.get("until") else first
    return ClosedDays(first, last, bool(said.get("yearly")), said.get("title"))


def _times(said: Mapping[str, Any]) -> ClosedTimes:
    named = said.get("weekdays") or WEEKDAYS
    weekdays = frozenset(WEEKDAYS.index(name) for name in named)
    begin, end = time.fromisoformat(said["from"]), time.fromisoformat(said["to"])
    return ClosedTimes(begin, end, weekdays, said.get("title"))


def _period(said: Mapping[str, Any], zone: ZoneInfo) -> Closure:
    ends = (datetime.fromisoformat(said[name]) for name in ("start", "end"))
    start, end = (each.replace(tzinfo=zone) if each.tzinfo is None else each for each in ends)
    return Closure(start.astimezone(UTC), end.astimezone(UTC), said.get("title") or "")


def _instant(day: date, clock: time, zone: ZoneInfo) -> datetime:
    return datetime.combine(day, clock, zone).astimezone(UTC)


def _day(local: datetime, instant: datetime) -> tuple[datetime, datetime]:
    """The day of an instant, from midnight to midnight. Where the clock goes back over midnight the
    hour that comes twice is of the day before, too."""
    zone = local.tzinfo
    start = datetime.combine(local.date(), time(), zone).astimezone(UTC)
    midnight = datetime.combine(local.date() + DAY, time(), zone)
    end = midnight.astimezone(UTC)
    return start, end if end > instant else midnight.replace(fold=1).astimezone(UTC)


def public_holiday(country: str, subdivision: str | None, day: date) -> str | None:
    """The name of the public holiday that a day is; None: it is none, or nobody here knows."""
    known = _public_holidays(country, subdivision)
    return None if known is None else known.get(day)


def countries() -> Mapping[str, Sequence[str]] | None:
    """Country -> its subdivisions, of those whose holidays are known; None: of none, for the extra
    `holidays` is not installed."""
    try:
        known: Mapping[str, Sequence[str]] = import_module("holidays").list_supported_countries()
    except ImportError:
        return None
    return known


@lru_cache(maxsize=256)
def _public_holidays(country: str, subdivision: str | None) -> Any:
    try:
        return import_module("holidays").country_holidays(country, subdiv=subdivision)
    except (ImportError, NotImplementedError) as error:
        message = "the public holidays of %s are not known here, and none is closed: %s; %s"
        logger.warning(message, country, error, "pip install 'jobauto-prefect[holidays]'")
        return None
