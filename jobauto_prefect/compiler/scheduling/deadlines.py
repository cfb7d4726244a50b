"""Deadlines: by when the job of a window must succeed."""

import re
from collections.abc import Mapping
from datetime import datetime, timedelta
from zoneinfo import ZoneInfo

from jobauto_prefect.compiler.scheduling.schedule import Schedule
from jobauto_prefect.compiler.scheduling.windows import Window, next_window
from jobauto_prefect.errors import Fault, InvalidInput

LONGEST = timedelta(days=366)
UNITS: Mapping[str, timedelta] = {
    "d": timedelta(days=1),
    "h": timedelta(hours=1),
    "m": timedelta(minutes=1),
    "s": timedelta(seconds=1),
}
"""A day is always 24 hours here, even if the clock changes."""

_RELATIVE = re.compile(r"\+(?:[0-9]{1,8}[dhms]){1,4}")
_PART = re.compile(r"([0-9]+)([dhms])")
_TIME = re.compile(r"([01]?[0-9]|2[0-3]):([0-5][0-9])")


def deadline_of(offset: str | None, schedule: Schedule, window: Window) -> datetime:
    """Return the deadline of a window, in UTC.

    `offset` is a time after the window's start (`+3h`, `+1h30m`), or the next time of day (`HH:MM`)
    in the schedule's zone; None: the window's end.

    Raises:
        InvalidInput: it is neither.
    """
    return window.end if offset is None else later(offset, window.start, schedule.zone)


def later(offset: str, start: datetime, zone: ZoneInfo) -> datetime:
    """Return the instant this long after another (`+3h`), or the next `HH:MM` of a zone.

    Raises:
        InvalidInput: it is neither.
    """
    relative = relative_of(offset)
    if relative is not None:
        return start + relative
    hour, minute = map(int, offset.split(":"))
    return next_window(Schedule(f"{minute} {hour} * * *", zone), start).start


def relative_of(offset: str) -> timedelta | None:
    """Return the time after the start; None if it is a time of day.

    Raises:
        InvalidInput: it is neither.
    """
    if _TIME.fullmatch(offset):
        return None
    if not _RELATIVE.fullmatch(offset):
        raise _invalid(
            f"{offset!r} is not a deadline; give a time after the window's start, such as +3h or "
            "+1h30m, or a time of day, such as 06:30"
        )
    duration = sum((int(count) * UNITS[unit] for count, unit in _PART.findall(offset)), timedelta())
    if not timedelta() < duration <= LONGEST:
        raise _invalid(f"{offset!r} is not between one second and {LONGEST.days} days")
    return duration


def _invalid(message: str) -> InvalidInput:
    return InvalidInput([Fault("/deadline_offset", "deadline", message)])
