"""Interval codes: what they mean as cron, and the windows they cut time into."""

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from cronsim import CronSim, CronSimError

from jobauto_prefect.errors import Fault, InvalidInput

Window = tuple[datetime, datetime]
"""`[start, end)`, both in UTC."""

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


def cron_of(code: str, cron: str | None = None) -> str | None:
    """The cron expression of an interval code; None: it has no schedule.

    A custom interval (`c`) without an expression has none either.

    Raises:
        InvalidInput: an unknown code, or an expression that is not five fields of cron.
    """
    if code == "c":
        return _checked(cron) if cron and cron.strip() else None
    if code not in CRON:
        raise _invalid("/interv", "interval", f"{code!r} is none of {', '.join(CODES)}")
    return CRON[code]


def _checked(cron: str) -> str:
    expression = " ".join(cron.split())
    if len(expression.split()) != 5:
        raise _invalid("/cron", "cron", f"{cron!r} has not the five fields of a cron expression")
    try:
        next(CronSim(expression, datetime(2000, 1, 1)))  # noqa: DTZ001 - only whether it ever comes
    except (CronSimError, StopIteration) as error:
        reason = str(error) or "it never comes"
        raise _invalid("/cron", "cron", f"{cron!r} is no cron expression: {reason}") from None
    return expression


def zone_of(name: str) -> ZoneInfo:
    """The time zone of that IANA name.

    Raises:
        InvalidInput: there is no such zone.
    """
    try:
        return ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError, OSError):
        raise _invalid("/timezone", "timezone", f"there is no time zone {name!r}") from None


def window(code: str, cron: str | None, zone: str, instant: datetime) -> Window | None:
    """The window an instant lies in: from the last due time up to the next; None: no schedule.

    Windows follow the calendar of the zone: a day may have 23 or 25 hours, and there is an hourly
    window for each of them.

    Raises:
        InvalidInput: see `cron_of` and `zone_of`.
    """
    expression = cron_of(code, cron)
    if expression is None:
        return None
    start = _last_due(expression, zone_of(zone), instant)
    # In the hour that a clock change repeats, looking back can go one due time too far.
    for following in CronSim(expression, start):
        if _after(following, instant):
            return start.astimezone(UTC), following.astimezone(UTC)
        start = following
    raise _invalid("/cron", "cron", f"{expression!r} does not come again after {start}")


def _last_due(expression: str, zone: ZoneInfo, instant: datetime) -> datetime:
    # One second on: an instant that is itself due begins its window.
    upper = (instant.astimezone(UTC) + timedelta(seconds=1)).astimezone(zone)
    return next(due for due in CronSim(expression, upper, reverse=True) if not _after(due, instant))


def _after(one: datetime, other: datetime) -> bool:
    # Two times of one zone are compared by the clock on the wall, which shows an hour twice.
    return one.astimezone(UTC) > other.astimezone(UTC)


def _invalid(pointer: str, rule: str, message: str) -> InvalidInput:
    return InvalidInput([Fault(pointer, rule, message)])
