"""Which windows open, and what becomes of those that open late."""

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jobauto_prefect.compiler.openings import MOST, Fate, openings
from jobauto_prefect.compiler.schedule import Schedule, zone_of

NOON = datetime(2026, 5, 4, 12, tzinfo=UTC)
HOUR, MINUTE = timedelta(hours=1), timedelta(minutes=1)
HOURLY = Schedule("0 * * * *", zone_of("UTC"))


def fates(now: datetime, misfire: str = "latest", schedule: Schedule = HOURLY) -> list[Fate]:
    return [one.fate for one in openings(schedule, NOON, now, misfire).found]


def test_nothing_opens_before_it_is_due() -> None:
    opened = openings(HOURLY, NOON, NOON - MINUTE, "latest")
    assert (opened.found, opened.following.start, opened.opens_at) == ([], NOON, NOON)
    later = Schedule("0 * * * *", zone_of("UTC"), 10 * MINUTE)
    assert fates(NOON + 9 * MINUTE, schedule=later) == []
    assert fates(NOON + 10 * MINUTE, schedule=later) == [Fate.RUN]


@pytest.mark.parametrize("misfire", ["latest", "all", "skip"])
def test_what_opens_in_time_runs_whatever_is_said_of_outages(misfire: str) -> None:
    assert fates(NOON + MINUTE, misfire) == [Fate.RUN]


@pytest.mark.parametrize(
    ("misfire", "expected"),
    [
        ("latest", [Fate.MISSED, Fate.MISSED, Fate.CATCH_UP]),
        ("all", [Fate.TURN] * 3),
        ("skip", [Fate.MISSED] * 3),
    ],
)
def test_what_opens_late_is_what_the_template_says(misfire: str, expected: list[Fate]) -> None:
    assert fates(NOON + 2 * HOUR + 30 * MINUTE, misfire) == expected


def test_the_newest_window_still_runs_after_an_outage_that_just_ended() -> None:
    assert fates(NOON + 2 * HOUR, "skip") == [Fate.MISSED, Fate.MISSED, Fate.RUN]


@given(hours=st.integers(0, 3 * MOST), misfire=st.sampled_from(["latest", "all", "skip"]))
def test_a_long_outage_is_opened_piece_by_piece_without_a_gap(hours: int, misfire: str) -> None:
    now, start, opened = NOON + hours * HOUR + 30 * MINUTE, NOON, []
    while start <= now:
        some = openings(HOURLY, start, now, misfire)
        assert 0 < len(some.found) <= MOST
        opened += some.found
        start = some.following.start
    assert [one.window.start for one in opened] == [NOON + n * HOUR for n in range(hours + 1)]
    assert [one.fate for one in opened].count(Fate.CATCH_UP) == (misfire == "latest")
