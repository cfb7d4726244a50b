"""Misfire: which windows are due by an instant, and what happens to late ones. Pure.

A window in closed time opens at its end if it moves, else when it is due (`closures.place_window`).
"""

from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum
from itertools import pairwise

from jobauto_prefect.compiler.scheduling.closures import (
    ALWAYS_OPEN,
    ClosedTime,
    Placement,
    place_window,
)
from jobauto_prefect.compiler.scheduling.schedule import Schedule
from jobauto_prefect.compiler.scheduling.windows import Window, windows_after
from jobauto_prefect.definitions import Misfire

LATE = timedelta(seconds=60)
"""A window that opens this long after its launch was due has passed unattended."""

MOST = 500
"""Windows of one schedule that are opened at once; the rest follow immediately."""

SECOND = timedelta(seconds=1)


class WindowDisposition(StrEnum):
    """What happens to a window that opens."""

    RUN = "run"  #: its job starts
    CATCH_UP = "catch_up"  #: its job starts late; its deadline counts from its start
    QUEUED = "turn"  #: its job starts late, once the older windows have ended
    MISSED = "missed"  #: it passed unattended, and will not run
    EXCUSED = "excused"  #: it was due in closed time, and will not run


@dataclass(frozen=True, slots=True)
class Opening:
    """A window that opens, and what happens to it; `closed` is why it did not start when due."""

    window: Window
    disposition: WindowDisposition
    closed: str | None = None


@dataclass(frozen=True, slots=True)
class DueWindows:
    """Windows to open, the following one, and when that opens (None: unknown yet)."""

    openings: list[Opening]
    following: Window
    opens_at: datetime | None


def windows_to_open(
    schedule: Schedule,
    start: datetime,
    now: datetime,
    misfire: str,
    closed: ClosedTime = ALWAYS_OPEN,
) -> DueWindows:
    """Return the windows from the one that begins at `start`, up to those that open at `now`.

    They are at most `MOST`; then the following one may be due, too. `misfire` is a value of
    `Misfire`.
    """
    openings: list[Opening] = []
    for window, newer in pairwise(windows_after(schedule, start - SECOND)):
        placement = place_window(window, newer, closed, misfire)
        if placement.at is None or placement.at > now or len(openings) == MOST:
            return DueWindows(openings, window, placement.at)
        newest, late = newer.launch_at > now, now - placement.at > LATE
        openings.append(
            Opening(window, _disposition(placement, misfire, newest, late), placement.closed)
        )
    raise ValueError(f"{schedule.cron!r} does not come again after {start}")


def _disposition(placement: Placement, misfire: str, newest: bool, late: bool) -> WindowDisposition:
    if placement.excused:
        return WindowDisposition.EXCUSED
    if not late and placement.closed is None:
        return WindowDisposition.RUN
    if misfire == Misfire.ALL:
        return WindowDisposition.QUEUED
    if not late:
        return WindowDisposition.CATCH_UP
    return (
        WindowDisposition.CATCH_UP
        if newest and misfire == Misfire.LATEST
        else WindowDisposition.MISSED
    )
