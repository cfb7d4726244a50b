"""Periods of constant UTC offset of a time zone, for calculations in local time."""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from itertools import pairwise
from zoneinfo import ZoneInfo

DAY = timedelta(days=1)
SECOND = timedelta(seconds=1)
YEARS = range(2, 9998)
"""Years with a previous and a next year in every zone."""


@dataclass(frozen=True, slots=True)
class OffsetPeriod:
    """The instants `[begin, end)`, in UTC, over which the local clock runs without a change.

    It shows instant + offset; until `begin` it showed instant + `offset_before`.
    """

    begin: datetime
    end: datetime
    offset: timedelta
    offset_before: timedelta

    @property
    def first_shown(self) -> datetime:
        """The local time at `begin`; local times here are naive."""
        return self.shown(self.begin)

    @property
    def not_shown_yet(self) -> datetime:
        """The local time at `begin` without the change.

        It is before `first_shown` if the clock skips time, after it if it repeats time.
        """
        return (self.begin + self.offset_before).replace(tzinfo=None)

    @property
    def last_shown(self) -> datetime:
        """The local time at `end` by this offset: local times of this period are before it."""
        return self.shown(self.end)

    def shown(self, instant: datetime) -> datetime:
        """Return the local time of an instant of this period."""
        return (instant + self.offset).replace(tzinfo=None)

    def instant(self, shown: datetime) -> datetime:
        """Return the instant of a local time, in UTC."""
        return shown.replace(tzinfo=UTC) - self.offset


def offset_periods_from(zone: ZoneInfo, instant: datetime) -> Iterator[OffsetPeriod]:
    """Yield the period of an instant, and later ones; each ends with the year if not before."""
    for year in range(instant.astimezone(UTC).year, YEARS.stop):
        yield from (period for period in _of_year(zone, year) if period.end > instant)


def offset_periods_until(zone: ZoneInfo, instant: datetime) -> Iterator[OffsetPeriod]:
    """Yield the period of an instant, and earlier ones, latest first."""
    for year in range(instant.astimezone(UTC).year, YEARS.start, -1):
        yield from (period for period in reversed(_of_year(zone, year)) if period.begin <= instant)


@lru_cache(maxsize=1024)
def changes_of(zone: ZoneInfo, years: range) -> tuple[OffsetPeriod, ...]:
    """Return the periods that begin with a clock change, in order."""
    periods = (period for year in years for period in _of_year(zone, year))
    return tuple(period for period in periods if period.offset != period.offset_before)


@lru_cache(maxsize=4096)
def _of_year(zone: ZoneInfo, year: int) -> tuple[OffsetPeriod, ...]:
    start, end = datetime(year, 1, 1, tzinfo=UTC), datetime(year + 1, 1, 1, tzinfo=UTC)
    begins = [start, *_changes(zone, start, end), end]
    return tuple(
        OffsetPeriod(begin, until, _offset(zone, begin), _offset(zone, begin - SECOND))
        for begin, until in pairwise(begins)
    )


def _changes(zone: ZoneInfo, start: datetime, end: datetime) -> Iterator[datetime]:
    """Yield the instants within `(start, end)` at which the offset changes; at most one per day."""
    day = start
    while day < end:
        following = min(day + DAY, end - SECOND)
        if _offset(zone, day) != _offset(zone, following):
            yield _change(zone, day, following)
        day += DAY


def _change(zone: ZoneInfo, before: datetime, after: datetime) -> datetime:
    old = _offset(zone, before)
    while after - before > SECOND:
        middle = before + (after - before) // SECOND // 2 * SECOND
        before, after = (middle, after) if _offset(zone, middle) == old else (before, middle)
    return after


def _offset(zone: ZoneInfo, instant: datetime) -> timedelta:
    return instant.astimezone(zone).utcoffset() or timedelta()
