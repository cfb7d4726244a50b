"""Which windows open by an instant, and what becomes of those that open late. Pure."""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum
from itertools import pairwise

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


@dataclass(frozen=True, slots=True)
class Opening:
    """A window that opens, and its fate."""

    window: Window
    fate: Fate


def openings(
    schedule: Schedule, start: datetime, now: datetime, misfire: str
) -> tuple[list[Opening], Window]:
    """The windows from the one that begins at `start`, up to those due at `now`.

    Also the window that follows them. They are at most `MOST`; then the following one may be due,
    too. `misfire` is a value of `Misfire`.
    """
    found: list[Opening] = []
    for window, newer in _from(schedule, start):
        if window.launch_at > now or len(found) == MOST:
            return found, window
        late = now - window.launch_at > LATE
        newest = newer.launch_at > now
        found.append(Opening(window, _fate(misfire, newest) if late else Fate.RUN))
    raise ValueError(f"{schedule.cron!r} does not come again after {start}")


def _from(schedule: Schedule, start: datetime) -> Iterator[tuple[Window, Window]]:
    return pairwise(windows_after(schedule, start - SECOND))


def _fate(misfire: str, newest: bool) -> Fate:
    if misfire == Misfire.ALL:
        return Fate.TURN
    return Fate.CATCH_UP if newest and misfire == Misfire.LATEST else Fate.MISSED
