"""Time, as a dependency that is passed in."""

import logging
import time
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from zoneinfo import available_timezones

logger = logging.getLogger(__name__)

Clock = Callable[[], datetime]

TOLERATED = timedelta(seconds=1)
"""How far the host's clock may differ from the authoritative one before a warning."""


def utc_now() -> datetime:
    """Return the current instant by the host's clock, zone-aware, in UTC."""
    return datetime.now(UTC)


@lru_cache(maxsize=1)
def zone_names() -> frozenset[str]:
    """Return the time zones that Prefect also accepts: no files such as right/UTC."""
    return frozenset(available_timezones())


def seconds_since_boot() -> float:
    """Return seconds that pass evenly even if the host's clock is set, including suspension.

    Only differences are meaningful. If the system has no such clock, suspension is left out.
    """
    boot_time = getattr(time, "CLOCK_BOOTTIME", None)
    return time.monotonic() if boot_time is None else time.clock_gettime(boot_time)


class SharedClock:
    """A `Clock` that follows another machine's; before its first reading, the host's.

    It is this machine's monotonic time plus the offset last read.

    Args:
        whose: the authoritative clock, as the log names it.
        host: the host's own clock, which is only compared.
        uptime: seconds that pass evenly, also while the machine is suspended.
    """

    def __init__(
        self, whose: str, host: Clock = utc_now, uptime: Callable[[], float] = seconds_since_boot
    ) -> None:
        self._whose = whose
        self._host = host
        self.uptime = uptime
        self._zero: datetime | None = None  # the other clock's time when `uptime` was 0
        self._half_trip = 0.0  # maximum error of the reading in seconds
        self._warned = False

    def __call__(self) -> datetime:
        """Return the other clock's current instant, zone-aware, in UTC."""
        if self._zero is None:
            return self._host()
        return self._zero + timedelta(seconds=self.uptime())

    @property
    def host_is_ahead(self) -> timedelta:
        """How far the host's clock is ahead of the authoritative one; negative: behind."""
        return self._host() - self()

    def read(self, instant: datetime, asked_at: float, answered_at: float) -> None:
        """Record that the other clock showed `instant` between these two instants of `uptime`.

        An answer slower than the current reading's is used only if the two contradict each other.
        """
        half_trip = (answered_at - asked_at) / 2
        zero = instant.astimezone(UTC) - timedelta(seconds=asked_at + half_trip)
        if self._zero is None or half_trip <= self._half_trip or self._differs(zero, half_trip):
            self._zero, self._half_trip = zero, half_trip
        ahead = self.host_is_ahead
        differs = abs(ahead) > TOLERATED
        if differs and not self._warned:
            logger.warning(
                "the clock of this host is %s %s, which is authoritative;"
                " synchronize both with the same time servers (NTP)",
                offset_text(ahead),
                self._whose,
            )
        self._warned = differs

    def note_passed(self, instant: datetime) -> None:
        """Record that the other clock has passed an instant, so that this one has, too."""
        if self() < instant:
            self._zero = instant.astimezone(UTC) - timedelta(seconds=self.uptime())

    def _differs(self, zero: datetime, half_trip: float) -> bool:
        return self._zero is None or abs(zero - self._zero) > timedelta(seconds=half_trip)


def offset_text(difference: timedelta) -> str:
    """Return the difference of two clocks in words to precede the other's name."""
    seconds = difference.total_seconds()
    return f"{abs(seconds):.1f} s {'ahead of' if seconds > 0 else 'behind'}"
