"""The windows into which a schedule divides time, by the calendar of its zone.

A window begins at a boundary and ends at the next. Boundaries are (docs/scheduling.md):

- Every instant at which the local clock matches the cron expression; a repeated hour has its
  boundaries twice, a skipped one has none.
- If the expression names times of day, only the first time the clock shows them. Skipped ones
  coincide at the first instant after the skip.
"""

from bisect import bisect_left
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import pairwise, takewhile

from cronsim import CronSim

from jobauto_prefect.compiler.scheduling.schedule import Schedule
from jobauto_prefect.compiler.scheduling.utc_offsets import (
    SECOND,
    OffsetPeriod,
    offset_periods_from,
    offset_periods_until,
)


@dataclass(frozen=True, slots=True)
class Window:
    """`[start, end)`, and when its job starts; all in UTC."""

    start: datetime
    end: datetime
    launch_at: datetime

    def __contains__(self, instant: datetime) -> bool:
        return self.start <= instant < self.end


def windows_between(schedule: Schedule, after: datetime, until: datetime) -> Iterator[Window]:
    """Yield the windows that begin within `(after, until]`, in order."""
    return takewhile(lambda window: window.start <= until, windows_after(schedule, after))


def windows_after(schedule: Schedule, after: datetime) -> Iterator[Window]:
    """Yield the windows that begin after an instant, in order, without end."""
    for start, end in pairwise(_boundaries(schedule, _floor(after) + SECOND)):
        yield Window(start, end, start + schedule.delay)


def count_windows(schedule: Schedule, edges: Sequence[datetime]) -> list[int]:
    """Return how many windows begin from each of these instants to the next, without listing them.

    They are listed only if the clock changes in between.
    """
    return [_count(schedule, *edge) for edge in pairwise(map(_floor, edges))]


def _count(schedule: Schedule, start: datetime, end: datetime) -> int:
    period = next(offset_periods_from(schedule.zone, start))
    calm = max(_opened(schedule, period), period.first_shown) + SECOND
    if end > period.end or period.shown(start) < calm:
        return sum(1 for _ in windows_between(schedule, start - SECOND, end - SECOND))
    begin, until = period.shown(start), period.shown(end)
    every = CronSim(schedule.cron, begin)
    minutes, hours = sorted(every.minutes), sorted(every.hours)

    def before(clock: datetime) -> int:
        """Return how many times of the schedule's day are before this one."""
        in_hour = bisect_left(minutes, clock.minute + (clock.second > 0))
        is_named = clock.hour in every.hours
        return bisect_left(hours, clock.hour) * len(minutes) + (in_hour if is_named else 0)

    midnight = begin.replace(hour=0, minute=0, second=0)
    dates = CronSim(" ".join(["0", "0", *schedule.cron.split()[2:]]), midnight - SECOND)
    total = 0
    for day in takewhile(lambda day: day < until, dates):
        total += len(minutes) * len(hours)
        total -= before(begin) if day == midnight else 0
        if day.date() == until.date():
            total -= len(minutes) * len(hours) - before(until)
    return total


def next_window(schedule: Schedule, after: datetime) -> Window:
    """Return the first window that begins after an instant."""
    return next(windows_after(schedule, after))


def window_at(schedule: Schedule, instant: datetime) -> Window:
    """Return the window that contains an instant."""
    start = _last_boundary(schedule, _floor(instant))
    return next(windows_after(schedule, start - SECOND))


def _boundaries(schedule: Schedule, instant: datetime) -> Iterator[datetime]:
    """Yield the boundaries of windows from an instant on."""
    last = None
    for period in offset_periods_from(schedule.zone, instant):
        opened = _opened(schedule, period)
        wanted = opened if instant <= period.begin else max(opened, period.shown(instant))
        for shown in CronSim(schedule.cron, wanted - SECOND):
            if shown >= period.last_shown:
                break
            boundary = _instant(period, shown)
            if boundary != last:
                yield boundary
            last = boundary


def _last_boundary(schedule: Schedule, instant: datetime) -> datetime:
    """Return the latest boundary of windows up to an instant."""
    for period in offset_periods_until(schedule.zone, instant):
        newest = min(period.shown(instant), period.last_shown - SECOND)
        shown = next(CronSim(schedule.cron, newest + SECOND, reverse=True))
        if shown >= _opened(schedule, period):
            return _instant(period, shown)
    raise ValueError(f"{schedule.cron!r} never came before {instant}")


def _opened(schedule: Schedule, period: OffsetPeriod) -> datetime:
    """Return the earliest wall time that counts in a period."""
    return period.not_shown_yet if schedule.names_times else period.first_shown


def _instant(period: OffsetPeriod, shown: datetime) -> datetime:
    return period.instant(max(shown, period.first_shown))


def _floor(instant: datetime) -> datetime:
    return instant.astimezone(UTC).replace(microsecond=0)
