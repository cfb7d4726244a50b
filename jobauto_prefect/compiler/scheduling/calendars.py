"""Calendars: the days, times of day and periods that are closed. Pure.

Days and times are local to a zone, so the length of a day varies.
"""

import logging
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta
from functools import lru_cache
from importlib import import_module
from typing import Any
from zoneinfo import ZoneInfo

from jobauto_prefect.compiler.scheduling.closures import Closure
from jobauto_prefect.compiler.scheduling.utc_offsets import offset_periods_until

logger = logging.getLogger(__name__)

WEEKDAYS = ("mon", "tue", "wed", "thu", "fri", "sat", "sun")
DAY = timedelta(days=1)


@dataclass(frozen=True, slots=True)
class ClosedDays:
    """Whole days, both included; `yearly`: those of each year.

    29 February occurs in leap years only; a period that ends with it ends with the 28th in others.
    """

    first: date
    last: date
    yearly: bool
    title: str | None

    def include(self, day: date) -> bool:
        """Whether a day is one of them."""
        if not self.yearly:
            return self.first <= day <= self.last
        # By month and day, because the number of days between them depends on the year.
        first, shown, last = ((each.month, each.day) for each in (self.first, day, self.last))
        if self.first.year == self.last.year:
            return first <= shown <= last
        return first <= shown or shown <= last


@dataclass(frozen=True, slots=True)
class ClosedTimes:
    """`[begin, end)` on each of these weekdays (0 is Monday).

    An `end` that is not after `begin` is on the next day.
    """

    begin: time
    end: time
    weekdays: frozenset[int]
    title: str | None

    def interval_on(self, day: date, zone: ZoneInfo) -> tuple[datetime, datetime] | None:
        """Return the interval that begins on a day; None if there is none."""
        if day.weekday() not in self.weekdays:
            return None
        last = day if self.end > self.begin else day + DAY
        begin, end = _instant(day, self.begin, zone), _instant(last, self.end, zone)
        return (begin, end) if begin < end else None


@dataclass(frozen=True, slots=True)
class Calendar:
    """What one calendar closes, in local time of a zone."""

    name: str
    zone: ZoneInfo
    country: str | None = None
    subdivision: str | None = None
    days: Sequence[ClosedDays] = ()
    times: Sequence[ClosedTimes] = ()
    periods: Sequence[Closure] = ()

    def at(self, instant: datetime) -> Closure | None:
        """Return the closure at an instant; None if it is open."""
        local = instant.astimezone(self.zone)
        for title in self._holidays(local.date()):
            # From midnight to midnight. If the clock goes back over midnight, the hour that comes
            # twice belongs to the previous day, too.
            start = _instant(local.date(), time(), self.zone)
            end = _instant(local.date() + DAY, time(), self.zone)
            if end <= instant:
                end = datetime.combine(local.date() + DAY, time(fold=1), self.zone).astimezone(UTC)
            return Closure(start, end, self._reason(title))
        for period in self.periods:
            if period.at(instant):
                return Closure(period.start, period.end, self._reason(period.reason))
        for closed in self.times:
            for day in (local.date() - DAY, local.date()):
                interval = closed.interval_on(day, self.zone)
                if interval is not None and interval[0] <= instant < interval[1]:
                    return Closure(*interval, self._reason(closed.title))
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
    """Build a calendar from the fields of a record, which were validated when written.

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


def _days(entry: Mapping[str, Any]) -> ClosedDays:
    first = date.fromisoformat(entry["date"])
    last = date.fromisoformat(entry["until"]) if entry.get("until") else first
    return ClosedDays(first, last, bool(entry.get("yearly")), entry.get("title"))


def _times(entry: Mapping[str, Any]) -> ClosedTimes:
    named = entry.get("weekdays") or WEEKDAYS
    weekdays = frozenset(WEEKDAYS.index(name) for name in named)
    begin, end = time.fromisoformat(entry["from"]), time.fromisoformat(entry["to"])
    return ClosedTimes(begin, end, weekdays, entry.get("title"))


def _period(entry: Mapping[str, Any], zone: ZoneInfo) -> Closure:
    ends = (datetime.fromisoformat(entry[name]) for name in ("start", "end"))
    start, end = (
        each.astimezone(UTC) if each.tzinfo else _instant(each.date(), each.time(), zone)
        for each in ends
    )
    return Closure(start, end, entry.get("title") or "")


def _instant(day: date, clock: time, zone: ZoneInfo) -> datetime:
    """Return when the clock first shows a time of a day; for a skipped one, the first later time.

    By the earlier offset, a skipped time lies as far behind the skip as it is within it.
    """
    shown = datetime.combine(day, clock)
    instant = shown.replace(tzinfo=zone).astimezone(UTC)
    is_skipped = instant.astimezone(zone).replace(tzinfo=None) != shown
    return next(offset_periods_until(zone, instant)).begin if is_skipped else instant


def public_holiday(country: str, subdivision: str | None, day: date) -> str | None:
    """Return the name of the public holiday on a day; None if there is none, or unknown."""
    holidays = _public_holidays(country, subdivision)
    return None if holidays is None else holidays.get(day)


def countries() -> Mapping[str, Sequence[str]] | None:
    """Return country -> its subdivisions, for countries with known holidays.

    None: there are none, because the extra `holidays` is not installed.
    """
    try:
        supported: Mapping[str, Sequence[str]] = import_module(
            "holidays"
        ).list_supported_countries()
    except ImportError:
        return None
    return supported


@lru_cache(maxsize=256)
def _public_holidays(country: str, subdivision: str | None) -> Any:
    try:
        return import_module("holidays").country_holidays(country, subdiv=subdivision)
    except (ImportError, NotImplementedError) as error:
        message = "the public holidays of %s are unknown here, so none is closed: %s; %s"
        logger.warning(message, country, error, "pip install 'jobauto-prefect[holidays]'")
        return None
