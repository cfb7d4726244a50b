"""The forecast: which windows' jobs start in a period."""

import heapq
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from itertools import pairwise

from jobauto_prefect.compiler.scheduling.closures import ALWAYS_OPEN, ClosedTime, place_window
from jobauto_prefect.compiler.scheduling.schedule import Schedule
from jobauto_prefect.compiler.scheduling.utc_offsets import SECOND
from jobauto_prefect.compiler.scheduling.windows import Window, windows_after
from jobauto_prefect.definitions import Misfire


@dataclass(frozen=True, slots=True)
class Timing:
    """When a run template runs.

    `opened_to` is the start of its first window that is not yet opened; None: unknown.
    """

    schedule: Schedule
    closed: ClosedTime = ALWAYS_OPEN
    misfire: str = Misfire.LATEST
    opened_to: datetime | None = None


@dataclass(frozen=True, slots=True)
class PlannedLaunch:
    """A window of the timing with that key, and when its job starts.

    `closed` is why it does not start when the window is due, None: it does. Otherwise the window
    moves to the later `at` (None: unknown yet), or is `excused`.
    """

    at: datetime
    key: int
    window: Window
    closed: str | None = None
    excused: bool = False

    @property
    def is_moved(self) -> bool:
        """Whether it starts later than it is due."""
        return self.at > self.window.launch_at


def forecast(
    timings: Mapping[int, Timing], after: datetime, until: datetime
) -> Iterator[PlannedLaunch]:
    """Yield the windows whose jobs start within `(after, until]`, in the order of their starts.

    This includes those that closed time prevents.
    """
    each = (_launches(key, timing, after, until) for key, timing in timings.items())
    return heapq.merge(*each, key=lambda launch: (launch.at, launch.key))


def _launches(
    key: int, timing: Timing, after: datetime, until: datetime
) -> Iterator[PlannedLaunch]:
    schedule, closed = timing.schedule, timing.closed
    begin = after - schedule.delay
    if timing.opened_to is not None and closed.at(timing.opened_to + schedule.delay):
        begin = min(begin, timing.opened_to - SECOND)  # it may be waiting to be moved
    for window, newer in pairwise(windows_after(schedule, begin)):
        placement = place_window(window, newer, closed, timing.misfire)
        at = window.launch_at
        if placement.at is not None and not placement.excused:
            at = placement.at
        if at > until:
            return
        if at > after:
            yield PlannedLaunch(at, key, window, placement.closed, placement.excused)
