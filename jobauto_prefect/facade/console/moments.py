"""Times on pages: relative to now, with the exact time as a tooltip."""

from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from jobauto_prefect.facade.formats.html.dates import format_duration, parse_time
from jobauto_prefect.facade.formats.html.page_language import Translator


@dataclass(frozen=True, slots=True)
class Moment:
    """An instant as pages show it: `text` is relative to now, `exact` is the time in UTC."""

    at: datetime
    text: str
    exact: str


Teller = Callable[[object], Moment | None]
"""Converts a time field of a record; None if it has no time."""


def teller(now: datetime, translate: Translator) -> Teller:
    """Return the `Teller` of a page that is made at `now`."""

    def tell(value: object) -> Moment | None:
        at = parse_time(value)
        if at is None:
            return None
        distance = format_span(abs(at - now))
        text = translate("in {time}" if at > now else "{time} ago", time=distance)
        return Moment(at, text, f"{at.astimezone(UTC):%Y-%m-%d %H:%M:%S} UTC")

    return tell


def tell_duration(begin: object, end: object, now: datetime) -> str:
    """Format how long something took, or has taken until now; "" if it has not begun."""
    began, ended = parse_time(begin), parse_time(end)
    if began is None:
        return ""
    return format_duration(max(timedelta(0), (ended or now) - began))


def format_span(span: timedelta) -> str:
    """Format a time in its largest unit: `40 s`, `5 min`, `3 h`, `2 d`."""
    seconds = max(0, int(span.total_seconds()))
    for unit, size in (("d", 2 * 86400), ("h", 2 * 3600), ("min", 60)):
        if seconds >= size:
            whole = {"d": 86400, "h": 3600, "min": 60}[unit]
            return f"{seconds // whole} {unit}"
    return f"{seconds} s"
