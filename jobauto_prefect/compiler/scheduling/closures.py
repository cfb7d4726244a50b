"""Closed time, in which no windows' jobs start, and what happens to the windows in it. Pure."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Protocol

from jobauto_prefect.compiler.scheduling.windows import Window
from jobauto_prefect.definitions import Misfire, OnClosed

FARTHEST = timedelta(days=400)
"""How far ahead the end of closed time is searched."""


@dataclass(frozen=True, slots=True)
class Closure:
    """The time `[start, end)` is closed, for a reason; `end` None: unknown yet."""

    start: datetime
    end: datetime | None
    reason: str

    def at(self, instant: datetime) -> "Closure | None":
        """Return itself if it contains the instant, else None."""
        closed = self.start <= instant and (self.end is None or instant < self.end)
        return self if closed else None


class ClosureSource(Protocol):
    """A freeze or a calendar, which closes time."""

    def at(self, instant: datetime) -> Closure | None:
        """Return the closure at an instant, which ends after it; None if it is open."""


@dataclass(frozen=True, slots=True)
class ClosedTime:
    """What closes the time of one run template, and what its windows do then (`OnClosed`)."""

    parts: Sequence[ClosureSource] = ()
    on_closed: str = OnClosed.EXCUSE

    def at(self, instant: datetime) -> Closure | None:
        """Return the closure at an instant; None if it is open."""
        return next((closure for part in self.parts if (closure := part.at(instant))), None)

    def reopens(self, instant: datetime) -> datetime | None:
        """Return the first open instant from this one; None if unknown or beyond `FARTHEST`."""
        latest = instant + FARTHEST
        while (closure := self.at(instant)) is not None:
            if closure.end is None or closure.end > latest:
                return None
            instant = closure.end
        return instant


ALWAYS_OPEN = ClosedTime()


@dataclass(frozen=True, slots=True)
class Placement:
    """When a window opens (None: unknown yet), and whether its job starts.

    `closed` is why its due time is closed. `excused`: its job does not start.
    """

    at: datetime | None
    closed: str | None = None
    excused: bool = False


def place_window(window: Window, following: Window, closed: ClosedTime, misfire: str) -> Placement:
    """Place a window considering closed time only.

    Of the windows that move, the newest one runs at the end of the closed time, with the misfire
    `all` every one; a window due exactly at that end is the newest.
    """
    closure = closed.at(window.launch_at)
    if closure is None:
        return Placement(window.launch_at)
    if closed.on_closed == OnClosed.EXCUSE:
        return Placement(window.launch_at, closure.reason, excused=True)
    reopens = closed.reopens(window.launch_at)
    has_newer = reopens is not None and following.launch_at <= reopens
    return Placement(reopens, closure.reason, excused=has_newer and misfire != Misfire.ALL)
