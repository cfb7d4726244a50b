"""Schedules that Prefect's own scheduler runs at the same instants as our windows.

All others are left to the window scheduler: if Prefect read a deployment's schedule differently, it
would create runs without a window, or miss some.
"""

import re
from functools import lru_cache

from cronsim import CronSim

from jobauto_prefect.compiler.plan import SchedulePlan
from jobauto_prefect.compiler.scheduling.schedule import NUMBERS, Schedule
from jobauto_prefect.compiler.scheduling.utc_offsets import SECOND, OffsetPeriod, changes_of

YEARS = range(2025, 2056)
"""Years whose clock changes count: older ones are past, later ones repeat them."""

HOUR = 3600  # seconds
DAYS = 28
"""Days of February in a year that is no leap year."""

LAST = "L"
"""The last day of a month."""

_PART = re.compile(
    r"(?P<first>\*|[0-9]+|[A-Z]{3})(-(?P<last>[0-9]+|[A-Z]{3}))?(?P<step>/[0-9]+)?", re.IGNORECASE
)
"""A part of a field, between commas; L, W and # are not among what both read alike."""

_NTH_WEEKDAY = re.compile(r"(0?[0-7]|[A-Z]{3})#[1-5]", re.IGNORECASE)
_HIGHEST = (59, 23, 31, 12, 0)
"""The highest number of each field: Prefect counts up to it in `5/10`, and weekdays from 0."""


@lru_cache(maxsize=4096)
def schedule_for_prefect(schedule: Schedule, *, active: bool = True) -> SchedulePlan | None:
    """Return the deployment's schedule; None if the window scheduler creates all its runs."""
    if schedule.delay or not _read_alike(schedule.cron):
        return None
    changes = changes_of(schedule.zone, YEARS)
    if _never_touched(schedule, changes):
        return SchedulePlan(schedule.cron, schedule.zone.key, active)
    # The same minutes of every hour of every day, which clock changes do not affect.
    if schedule.cron.split()[1:] == ["*"] * 4 and _of_whole_hours(changes):
        return SchedulePlan(schedule.cron, "UTC", active)
    return None


def _read_alike(cron: str) -> bool:
    _, _, day, month, weekday = fields = cron.split()
    # With both a day and a weekday, Prefect requires one of them to match, but cron requires both
    # if either begins with a star. Prefect also treats `5,*` and `1/1` as stars.
    if "*" not in (day, weekday) and (_is_starred(day, 1, 31) or _is_starred(weekday, 0, 6)):
        return False
    if "#" in weekday:
        # Prefect ignores other weekdays beside those, and makes a day of the month a condition.
        if day != "*" or not all(map(_NTH_WEEKDAY.fullmatch, weekday.split(","))):
            return False
        fields[-1] = "*"
    parts_alike = all(
        _part_alike(part, highest)
        for field, highest in zip(fields, _HIGHEST, strict=True)
        for part in field.split(",")
        if not (field is day and part == LAST)
    )
    return parts_alike and _days_alike(day, month)


def _is_starred(field: str, lowest: int, highest: int) -> bool:
    """Whether a field begins with a star or names all of its days."""
    return field.startswith("*") or len({*_numbers(field, lowest, highest)}) > highest - lowest


def _part_alike(part: str, highest: int) -> bool:
    """Whether both read a part of a field alike, given the highest number of the field."""
    match = _PART.fullmatch(part)
    if match is None:
        return False
    if match["last"] is None:
        is_plain = match["step"] is None or match["first"] == "*"
        return is_plain or int(_number(match["first"])) < highest  # Prefect reads 59/1 as 59-59/1
    # Prefect reads 5-5 as a star.
    return _number(match["first"]) != _number(match["last"])


def _days_alike(day: str, month: str) -> bool:
    """Whether Prefect omits no day of March.

    From the last due day of February it advances by as many days as there are to the next named
    day, as if that were in February: to 3 March if that is the 31st. It omits days named before
    that, unless the last day of February is named itself.
    """
    months = {*_numbers(month, 1, 12)}
    if months == {2} and min(_numbers(day, 1, 31), default=1) > DAYS + 1:
        return False  # it finds no day
    if day == "*" or not {2, 3} <= months:
        return True
    named = sorted({number for part in day.split(",") for number in _numbers(part, 1, 31)})
    if LAST in day.split(","):
        return named[-1:] <= [DAYS]
    return all(_reaches(named, length) for length in (DAYS, DAYS + 1))


def _reaches(named: list[int], length: int) -> bool:
    """Whether a February of that length leads to the first named day in March."""
    beyond = [number for number in named if number > length]
    return not beyond or length in named or named[0] >= beyond[0] - length


def _numbers(field: str, lowest: int, highest: int) -> list[int]:
    """Return the numbers that a field of plain parts names."""
    numbers: list[int] = []
    for part in field.split(","):
        match = _PART.fullmatch(part)
        if match is None:
            continue  # the last day
        first = lowest if match["first"] == "*" else int(_number(match["first"]))
        counts_on = match["first"] == "*" or match["step"]
        last = int(_number(match["last"])) if match["last"] else highest if counts_on else first
        numbers += range(first, last + 1, int((match["step"] or "/1")[1:]))
    return numbers


def _number(text: str) -> str:
    return NUMBERS.get(text.upper(), text.lstrip("0") or "0")


def _never_touched(schedule: Schedule, changes: tuple[OffsetPeriod, ...]) -> bool:
    """Whether none of its times is ever skipped or shown twice."""
    for change in changes:
        # The times between these are skipped, or shown twice.
        start, end = sorted((change.first_shown, change.not_shown_yet))
        if next(CronSim(schedule.cron, start - SECOND)) < end:
            return False
    return True


def _of_whole_hours(changes: tuple[OffsetPeriod, ...]) -> bool:
    """Whether the offsets before and after each change are whole hours."""
    offsets = [offset for change in changes for offset in (change.offset_before, change.offset)]
    return all(offset.total_seconds() % HOUR == 0 for offset in offsets)
