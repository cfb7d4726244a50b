"""The time, as something that is handed in."""

from collections.abc import Callable
from datetime import UTC, datetime

Clock = Callable[[], datetime]


def utc_now() -> datetime:
    """The present instant, zone-aware, in UTC."""
    return datetime.now(UTC)
