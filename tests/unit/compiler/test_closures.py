"""Closed time: when it opens again, and what becomes of the windows in it."""

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jobauto_prefect.compiler.scheduling.closures import FARTHEST, ClosedTime, Closure
from jobauto_prefect.compiler.scheduling.forecast import Timing, forecast
from jobauto_prefect.compiler.scheduling.misfire import WindowDisposition, windows_to_open
from jobauto_prefect.compiler.scheduling.schedule import Schedule, zone_of

NOON = datetime(2026, 5, 4, 12, tzinfo=UTC)
HOUR, MINUTE = timedelta(hours=1), timedelta(minutes=1)
HOURLY = Schedule("0 * * * *", zone_of("UTC"))
WHY = "maintenance"


def closed(start: float, end: float | None, on_closed: str = "excuse") -> ClosedTime:
    """Closed from so many hours after noon to so many."""
    until = None if end is None else NOON + end * HOUR
    return ClosedTime([Closure(NOON + start * HOUR, until, WHY)], on_closed)


def fates(now: float, time: ClosedTime, misfire: str = "latest") -> Sequence[WindowDisposition]:
    found = windows_to_open(HOURLY, NOON, NOON + now * HOUR, misfire, time).openings
    return [opening.disposition for opening in found]


def test_windows_in_closed_time_are_excused_when_they_are_due() -> None:
    time = closed(0.5, 2.5)
    assert fates(1, time) == [WindowDisposition.MISSED, WindowDisposition.EXCUSED]
    opened = windows_to_open(HOURLY, NOON, NOON + HOUR, "latest", time)
    assert opened.openings[1].closed == WHY
    assert opened.opens_at == NOON + 2 * HOUR
    after = windows_to_open(HOURLY, NOON + HOUR, NOON + 3 * HOUR, "latest", time).openings
    assert [opening.disposition for opening in after] == [
        WindowDisposition.EXCUSED,
        WindowDisposition.EXCUSED,
        WindowDisposition.RUN,
    ]


def test_a_boundary_belongs_to_what_begins_with_it() -> None:
    assert fates(0, closed(0, 1)) == [WindowDisposition.EXCUSED]
    assert (
        windows_to_open(HOURLY, NOON, NOON, "latest", closed(-1, 0)).openings[0].disposition
        is WindowDisposition.RUN
    )


@pytest.mark.parametrize(
    ("misfire", "expected"),
    [
        ("latest", [WindowDisposition.EXCUSED, WindowDisposition.CATCH_UP]),
        ("skip", [WindowDisposition.EXCUSED, WindowDisposition.CATCH_UP]),
        ("all", [WindowDisposition.QUEUED, WindowDisposition.QUEUED]),
    ],
)
def test_the_newest_of_moved_windows_runs_at_the_end(
    misfire: str, expected: list[WindowDisposition]
) -> None:
    time = closed(0, 1.5, "move")
    waiting = windows_to_open(HOURLY, NOON, NOON + 1.4 * HOUR, misfire, time)
    assert (waiting.openings, waiting.following.start) == ([], NOON)
    assert waiting.opens_at == NOON + 1.5 * HOUR
    assert fates(1.5, time, misfire) == expected


def test_a_window_that_is_due_at_the_end_is_the_newest_one() -> None:
    assert fates(2, closed(0, 2, "move")) == [
        WindowDisposition.EXCUSED,
        WindowDisposition.EXCUSED,
        WindowDisposition.RUN,
    ]


def test_nobody_knows_when_what_has_no_end_opens() -> None:
    opened = windows_to_open(HOURLY, NOON, NOON + 5 * HOUR, "latest", closed(0, None, "move"))
    assert (opened.openings, opened.opens_at) == ([], None)
    assert fates(1, closed(0, None)) == [WindowDisposition.EXCUSED] * 2


def test_what_was_moved_and_passed_unattended_after_that_follows_the_misfire() -> None:
    assert fates(3.5, closed(0, 1.5, "move")) == [
        WindowDisposition.EXCUSED,
        WindowDisposition.MISSED,
        WindowDisposition.MISSED,
        WindowDisposition.CATCH_UP,
    ]
    assert fates(1.75, closed(0, 1.5, "move"), "skip") == [
        WindowDisposition.EXCUSED,
        WindowDisposition.MISSED,
    ]


def test_the_end_is_looked_for_over_what_touches_and_not_for_ever() -> None:
    parts = [Closure(NOON, NOON + HOUR, "a"), Closure(NOON + HOUR / 2, NOON + 3 * HOUR, "b")]
    assert ClosedTime(parts).reopens(NOON) == NOON + 3 * HOUR
    assert ClosedTime(parts).reopens(NOON - HOUR) == NOON - HOUR
    far = Closure(NOON, NOON + FARTHEST + HOUR, "c")
    assert ClosedTime([far]).reopens(NOON) is None


@given(
    start=st.integers(-5, 30),
    length=st.integers(1, 40),
    misfire=st.sampled_from(["latest", "all", "skip"]),
    on_closed=st.sampled_from(["excuse", "move"]),
)
def test_every_window_is_opened_once_and_none_starts_in_closed_time(
    start: int, length: int, misfire: str, on_closed: str
) -> None:
    """The keeper looks each ten minutes."""
    begin, end = start * HOUR / 3, (start + length) * HOUR / 3
    time = ClosedTime([Closure(NOON + begin, NOON + end, WHY)], on_closed)
    following, seen, moved = NOON, [], 0
    for step in range(36 * 6):
        now = NOON + step * 10 * MINUTE
        some = windows_to_open(HOURLY, following, now, misfire, time)
        following = some.following.start
        for opening in some.openings:
            seen.append(opening.window.start)
            if opening.disposition is not WindowDisposition.EXCUSED:
                assert time.at(now) is None
                assert (opening.disposition is WindowDisposition.RUN) == (opening.closed is None)
                moved += opening.disposition is not WindowDisposition.RUN
    assert seen == [NOON + n * HOUR for n in range(len(seen))]
    assert len(seen) == 36
    inside = [n for n in range(36) if time.at(NOON + n * HOUR)]
    if on_closed == "excuse" or not inside:
        assert moved == 0
    elif misfire == "all":
        assert moved == len(inside)
    else:
        assert moved == (time.reopens(NOON + inside[-1] * HOUR) != NOON + (inside[-1] + 1) * HOUR)


def test_a_forecast_tells_what_is_excused_and_what_is_moved() -> None:
    def launches(time: ClosedTime, **more: datetime) -> list[tuple[float, float, bool]]:
        timing = Timing(HOURLY, time, **more)  # type: ignore[arg-type]
        found = forecast({1: timing}, NOON, NOON + 5 * HOUR)
        hours = [(each.at - NOON, each.window.launch_at - NOON, each.excused) for each in found]
        return [(at / HOUR, due / HOUR, excused) for at, due, excused in hours]

    assert launches(closed(1.5, 3.5)) == [
        (1, 1, False), (2, 2, True), (3, 3, True), (4, 4, False), (5, 5, False),
    ]  # fmt: skip
    assert launches(closed(1.5, 3.5, "move")) == [
        (1, 1, False), (2, 2, True), (3.5, 3, False), (4, 4, False), (5, 5, False),
    ]  # fmt: skip
    # What was due before the present, and waits.
    before = launches(closed(-2, 0.5, "move"), opened_to=NOON - HOUR)
    assert before[0] == (0.5, 0, False)
    assert launches(closed(3.5, 5.5, "move"))[-2:] == [(3, 3, False), (4, 4, True)]
