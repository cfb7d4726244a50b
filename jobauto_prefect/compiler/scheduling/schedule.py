"""Interval codes, cron expressions and zones of run templates."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from cronsim import CronSim, CronSimError

from jobauto_prefect.clock import zone_names
from jobauto_prefect.errors import Fault, InvalidInput

CRON: Mapping[str, str | None] = {
    "n": None,
    "i": "* * * * *",
    "h": "0 * * * *",
    "d": "0 0 * * *",
    "w": "0 0 * * 1",
    "m": "0 0 1 * *",
    "y": "0 0 1 1 *",
}
"""Interval code -> cron; `n` is never. Weeks begin on Monday. `c` is the template's own cron."""

CODES = (*CRON, "c")

NICKNAMES: Mapping[str, str] = {
    "@yearly": "0 0 1 1 *",
    "@annually": "0 0 1 1 *",
    "@monthly": "0 0 1 * *",
    "@weekly": "0 0 * * 0",
    "@daily": "0 0 * * *",
    "@midnight": "0 0 * * *",
    "@hourly": "0 * * * *",
}
"""Meaning of cron's nicknames; its weeks begin on Sunday."""

_TO_SUNDAY = re.compile(r"\b([1-6]|MON|TUE|WED|THU|FRI|SAT)-(SUN|0)\b(?=[^ ]*$)", re.IGNORECASE)
_RANGE = re.compile(r"(?:^|,)([0-9]+|[A-Za-z]{3})-([0-9]+|[A-Za-z]{3})(?=,|$)")
_MONTHS = ("JAN", "FEB", "MAR", "APR", "MAY", "JUN", "JUL", "AUG", "SEP", "OCT", "NOV", "DEC")
_DAYS = ("SUN", "MON", "TUE", "WED", "THU", "FRI", "SAT")
NUMBERS: Mapping[str, str] = {
    name: str(number) for number, name in (*enumerate(_MONTHS, 1), *enumerate(_DAYS))
}
"""Names of months and weekdays -> numbers."""

_LIMITS = (("0", "59"), ("0", "23"), ("1", "31"), ("JAN", "DEC"), ("MON", "SUN"))
"""The first and last value of each field, as named in advice."""


@dataclass(frozen=True, slots=True)
class Schedule:
    """Five cron fields in local time of a zone; jobs start `delay` after their window."""

    cron: str
    zone: ZoneInfo
    delay: timedelta = timedelta()

    @property
    def names_times(self) -> bool:
        """Whether it names times of day rather than every so many minutes or hours.

        As in Debian's cron: neither minute nor hour begins with a star. A named time comes once a
        day even if the clock skips it or shows it twice.
        """
        minute, hour, *_ = self.cron.split()
        return not minute.startswith("*") and not hour.startswith("*")


def schedule_of(code: str, cron: str | None, zone: str, delay: int = 0) -> Schedule | None:
    """Return the schedule of an interval code in a zone, `delay` in seconds; None: it has none.

    Raises:
        InvalidInput: see `cron_of` and `zone_of`.
    """
    expression = cron_of(code, cron)
    if expression is None:
        return None
    return Schedule(expression, zone_of(zone), timedelta(seconds=delay))


def cron_of(code: str, cron: str | None = None) -> str | None:
    """Return the five cron fields of an interval code; None: it has no schedule.

    A custom interval (`c`) without an expression has none either.

    Raises:
        InvalidInput: the code is unknown, or the expression is invalid.
    """
    if code == "c":
        return _require_valid(cron) if cron and cron.strip() else None
    if code not in CRON:
        raise _invalid("/interv", "interval", f"{code!r} is not one of {', '.join(CODES)}")
    return CRON[code]


def _require_valid(cron: str) -> str:
    expression = " ".join(cron.split())
    if expression.startswith("@"):
        fields = NICKNAMES.get(expression.lower())
        if fields is None:
            message = f"{expression!r} is not one of {', '.join(NICKNAMES)}; "
            message += "use one of them or five fields"
            raise _invalid("/cron", "cron", message)
        return fields
    if len(expression.split()) != 5:
        raise _invalid("/cron", "cron", f"{cron!r} needs the five fields of a cron expression")
    # Sunday by name is 0, the first day; at the end of a range it is the last one.
    expression = _TO_SUNDAY.sub(r"\1-7", expression)
    try:
        next(CronSim(expression, datetime(2000, 1, 1)))  # noqa: DTZ001 - only whether it ever comes
    except (CronSimError, StopIteration) as error:
        reason = (str(error) or "it never matches") + _advice(expression)
        raise _invalid("/cron", "cron", f"{cron!r} is not a cron expression: {reason}") from None
    return expression


def _advice(expression: str) -> str:
    """Return how to write a range that goes past the end of its field, such as FRI-MON."""
    for field, (lowest, highest) in zip(expression.split(), _LIMITS, strict=True):
        for first, last in _RANGE.findall(field):
            begin, end = (NUMBERS.get(each.upper(), each) for each in (first, last))
            if begin.isdigit() and end.isdigit() and int(begin) > int(end):
                rest = last if end == NUMBERS.get(lowest, lowest) else f"{lowest}-{last}"
                return f"; in place of {first}-{last} write {first}-{highest},{rest}"
    return ""


def zone_of(name: str) -> ZoneInfo:
    """Return the time zone with that IANA name.

    Raises:
        InvalidInput: there is no such zone.
    """
    try:
        if name in zone_names():
            return ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError, OSError):
        pass  # a system update has removed it
    raise _invalid("/timezone", "timezone", f"there is no time zone {name!r}")


def _invalid(pointer: str, rule: str, message: str) -> InvalidInput:
    return InvalidInput([Fault(pointer, rule, message)])
