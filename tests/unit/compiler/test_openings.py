"""Which windows open, and what becomes of those that open late."""

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jobauto_prefect.compiler.scheduling.misfire import MOST, WindowDisposition, windows_to_open
from jobauto_prefect.compiler.scheduling.schedule import Schedule, zone_of

NOON = datetime(2026, 5, 4, 12, tzinfo=UTC)
HOUR, MINUTE = timedelta(hours=1), timedelta(minutes=1)
HOURLY = Schedule("0 * * * *", zone_of("UTC"))


def fates(
    now: datetime, misfire: str = "latest", schedule: Schedule = HOURLY
) -> list[WindowDisposition]:
    return [one.disposition for one in windows_to_open(schedule, NOON, now, misfire).openings]


def test_nothing_opens_before_it_is_due() -> None:
    opened = windows_to_open(HOURLY, NOON, NOON - MINUTE, "latest")
    assert (opened.openings, opened.following.start, opened.opens_at) == ([], NOON, NOON)
    later = Schedule("0 * * * *", zone_of("UTC"), 10 * MINUTE)
    assert fates(NOON + 9 * MINUTE, schedule=later) == []
    assert fates(NOON + 10 * MINUTE, schedule=later) == [WindowDisposition.RUN]


@pytest.mark.parametrize("misfire", ["latest", "all", "skip"])
def test_what_opens_in_time_runs_whatever_is_said_of_outages(misfire: str) -> None:
    assert fates(NOON + MINUTE, misfire) == [WindowDisposition.RUN]


@pytest.mark.parametrize(
    ("misfire", "expected"),
    [
        (
            "latest",
            [WindowDisposition.MISSED, WindowDisposition.MISSED, WindowDisposition.CATCH_UP],
        ),
        ("all", [WindowDisposition.QUEUED] * 3),
        ("skip", [WindowDisposition.MISSED] * 3),
    ],
)
def test_what_opens_late_is_what_the_template_says(
    misfire: str, expected: list[WindowDisposition]
) -> None:
    assert fates(NOON + 2 * HOUR + 30 * MINUTE, misfire) == expected


def test_the_newest_window_still_runs_after_an_outage_that_just_ended() -> None:
    assert fates(NOON + 2 * HOUR, "skip") == [
        WindowDisposition.MISSED,
        WindowDisposition.MISSED,
        WindowDisposition.RUN,
    ]


@given(hours=st.integers(0, 3 * MOST), misfire=st.sampled_from(["latest", "all", "skip"]))
def test_a_long_outage_is_opened_piece_by_piece_without_a_gap(hours: int, misfire: str) -> None:
    now, start, opened = NOON + hours * HOUR + 30 * MINUTE, NOON, []
    while start <= now:
        some = windows_to_open(HOURLY, start, now, misfire)
        assert 0 < len(some.openings) <= MOST
        opened += some.openings
        start = some.following.start
    assert [one.window.start for one in opened] == [NOON + n * HOUR for n in range(hours + 1)]
    assert [one.disposition for one in opened].count(WindowDisposition.CATCH_UP) == (
        misfire == "latest"
    )
