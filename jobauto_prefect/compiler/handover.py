"""Which schedules Prefect's own scheduler yields at the same instants as our windows.

The others are the window keeper's alone: a deployment with a schedule that Prefect reads otherwise
would get runs that are no window's, or none for some.
"""

import re
from datetime import datetime
from functools import lru_cache

from cronsim import CronSim

from jobauto_prefect.compiler.plan import SchedulePlan
from jobauto_prefect.compiler.schedule import Schedule
from jobauto_prefect.compiler.zones import SECOND, Stretch, changes_of

YEARS = range(2025, 2056)
"""Whose clock changes count: older ones are over, later ones repeat them."""

HOUR = 3600  # seconds
DAYS = 28
"""That every month has."""

_MONTHS = ("JAN", "FEB", "MAR", "APR", "MAY", "JUN", "JUL", "AUG", "SEP", "OCT", "NOV", "DEC")
_DAYS = ("SUN", "MON", "TUE", "WED", "THU", "FRI", "SAT")
_NUMBERS = {name: str(number) for number, name in (*enumerate(_MONTHS, 1), *enumerate(_DAYS))}
_PART = re.compile(
    r"(?P<first>\*|[0-9]+|[A-Z]{3})(-(?P<last>[0-9]+|[A-Z]{3}))?(?P<step>/[0-9]+)?", re.IGNORECASE
)
"""Of a field, between its commas; L, W and # are not among what both read alike."""


@lru_cache(maxsize=4096)
def handed_over(schedule: Schedule, *, active: bool = True) -> SchedulePlan | None:
    """The schedule of the deployment; None: the window keeper makes all its runs."""
    if schedule.delay or not _read_alike(schedule.cron):
        return None
    changes = changes_of(schedule.zone, YEARS)
    if _never_touched(schedule, changes):
        return SchedulePlan(schedule.cron, schedule.zone.key, active)
    if _counts_minutes(schedule.cron) and _of_whole_hours(changes):
        return SchedulePlan(schedule.cron, "UTC", active)
    return None


def _read_alike(cron: str) -> bool:
    fields = cron.split()
    _, _, day, _, weekday = fields
    # Where a day and a day of the week are given, one of them is enough for Prefect; for cron
    # both must fit if either begins with a star. Steps of days it counts otherwise, and with days
    # that not every month has it leaves out others.
    days_alike = "*" in (day, weekday) or not (day.startswith("*") or weekday.startswith("*"))
    days_alike &= "/" not in day + weekday
    days_alike &= all(int(number) <= DAYS for number in re.findall(r"[0-9]+", day))
    return days_alike and all(_part_alike(part) for field in fields for part in field.split(","))


def _part_alike(part: str) -> bool:
    found = _PART.fullmatch(part)
    if found is None:
        return False
    if found["last"] is None:
        return found["step"] is None or found["first"] == "*"
    # Prefect takes 5-5 for a star.
    return _number(found["first"]) != _number(found["last"])


def _number(said: str) -> str:
    return _NUMBERS.get(said.upper(), said.lstrip("0"))


def _never_touched(schedule: Schedule, changes: tuple[Stretch, ...]) -> bool:
    """Whether none of its times is ever skipped or shown twice."""
    if not changes:
        return True
    return schedule.names_times and not any(
        _between(schedule.cron, *sorted((change.first_shown, change.not_shown_yet)))
        for change in changes
    )


def _between(cron: str, start: datetime, end: datetime) -> bool:
    return next(CronSim(cron, start - SECOND)) < end


def _counts_minutes(cron: str) -> bool:
    """Whether all hours of all days are alike to it."""
    return cron.split()[1:] == ["*"] * 4


def _of_whole_hours(changes: tuple[Stretch, ...]) -> bool:
    """Whether the minutes are those of UTC, before and after each change."""
    offsets = [offset for one in changes for offset in (one.offset_before, one.offset)]
    return all(offset.total_seconds() % HOUR == 0 for offset in offsets)
