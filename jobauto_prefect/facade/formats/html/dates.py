"""Times for people."""

import re
from datetime import datetime, timedelta

_ISO = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d(:\d\d(\.\d+)?)?(Z|[+-]\d\d:?\d\d)")


def parse_time(value: object) -> datetime | None:
    """Parse an ISO 8601 text with an offset; return None for anything else."""
    if not isinstance(value, str) or not _ISO.fullmatch(value):
        return None
    try:
        return datetime.fromisoformat(value)
    except ValueError:
        return None


def format_time(moment: datetime) -> str:
    """Format a time as `21 Nov 2026, 09:46:24 UTC`, which breaks only before the time of day."""
    offset = f"{moment:%z}"
    zone = "UTC" if offset == "+0000" else f"{offset[:3]}:{offset[3:5]}"
    date = f"{moment.day} {moment:%b %Y},".replace(" ", "\N{NO-BREAK SPACE}")
    return f"{date} {moment:%H:%M:%S}\N{NO-BREAK SPACE}{zone}"


def format_duration(duration: timedelta) -> str:
    """Format a duration as `0.4 s`, `2 min 5 s`, `1 h 0 min` or `3 d 4 h`."""
    seconds = duration.total_seconds()
    if seconds < 60:
        return f"{seconds:.1f} s"
    for unit, size, smaller, part in (("d", 86400, "h", 3600), ("h", 3600, "min", 60)):
        if seconds >= size:
            return f"{int(seconds // size)} {unit} {int(seconds % size // part)} {smaller}"
    return f"{int(seconds // 60)} min {int(seconds % 60)} s"
