"""Which windows open by an instant, and what becomes of those that open late. Pure.

A window in closed time opens at its end where it is moved, else when it is due (`closures.place`).
"""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum
from itertools import pairwise

from jobauto_prefect.compiler.closures import ALWAYS_OPEN, ClosedTime, Placement, place
from jobauto_prefect.compiler.schedule import Schedule
from jobauto_prefect.compiler.windows import Window, windows_after
from jobauto_prefect.definitions import Misfire

LATE = timedelta(seconds=60)
"""A window that opens by so much after its launch was due has passed unattended."""

MOST = 500
"""Windows of one schedule that are opened at once; the others come right after."""

SECOND = timedelta(seconds=1)


class Fate(StrEnum):
    """What becomes of a window that opens."""

    RUN = "run"  #: its job starts
    CATCH_UP = "catch_up"  #: its job starts, late: its deadline counts from its start
    TURN = "turn"  #: its job starts late, once the older windows have ended
    MISSED = "missed"  #: it passed unattended, and is not run any more
    EXCUSED = "excused"  #: it was due in closed time, and is not run


@dataclass(frozen=True, slots=True)
class Opening:
    """A window that opens, and its fate; `closed` is why it was not to start when it was due."""

    window: Window
    fate: Fate
    closed: str | None = None


@dataclass(frozen=True, slots=True)
class Openings:
    """Windows that open, the one that follows them, and when that opens; None: nobody knows yet."""

    found: list[Opening]
    following: Window
    opens_at: datetime | None


def openings(
    schedule: Schedule,
    start: datetime,
    now: datetime,
    misfire: str,
    closed: ClosedTime = ALWAYS_OPEN,
) -> Openings:
    """The windows from the one that begins at `start`, up to those that open at `now`.

    They are at most `MOST`; then the following one may be due, too. `misfire` is a value of
    `Misfire`.
    """
    found: list[Opening] = []
    for window, newer in _from(schedule, start):
        placement = place(window, newer, closed, misfire)
        if placement.at is None or placement.at > now or len(found) == MOST:
            return Openings(found, window, placement.at)
        newest, late = newer.launch_at > now, now - placement.at > LATE
        found.append(Opening(window, _fate(placement, misfire, newest, late), placement.closed))
    raise ValueError(f"{schedule.cron!r} does not come again after {start}")


def _from(schedule: Schedule, start: datetime) -> Iterator[tuple[Window, Window]]:
    return pairwise(windows_after(schedule, start - SECOND))


def _fate(placement: Placement, misfire: str, newest: bool, late: bool) -> Fate:
    if placement.excused:
        return Fate.EXCUSED
    if not late and placement.closed is None:
        return Fate.RUN
    if misfire == Misfire.ALL:
        return Fate.TURN
    if not late:
        return Fate.CATCH_UP
    return Fate.CATCH_UP if newest and misfire == Misfire.LATEST else Fate.MISSED
