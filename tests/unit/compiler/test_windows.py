"""The windows a schedule cuts time into."""

from datetime import UTC, datetime, timedelta
from itertools import islice, pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jobauto_prefect.compiler.scheduling.schedule import Schedule, schedule_of
from jobauto_prefect.compiler.scheduling.windows import (
    Window,
    count_windows,
    next_window,
    window_at,
    windows_after,
    windows_between,
)

CRONS = st.sampled_from(
    [
        "* * * * *",
        "*/7 3-9 * * 1-5",
        "30 2 * * *",
        "15,45 */5 1,15 * 3",
        "0 12 L * *",
        "0 0 * * 5#2",
    ]
)
CODES = st.sampled_from("ihdwmy")
ZONES = st.sampled_from(["UTC", "Europe/Prague", "America/St_Johns", "Australia/Lord_Howe"])
INSTANTS = st.datetimes(
    min_value=datetime(1990, 1, 1),  # noqa: DTZ001 - hypothesis wants them without a zone
    max_value=datetime(2050, 12, 31),  # noqa: DTZ001
    timezones=st.just(UTC),
)


def at(text: str) -> datetime:
    return datetime.fromisoformat(text)


def schedule(code: str, zone: str = "UTC", delay: int = 0, cron: str | None = None) -> Schedule:
    found = schedule_of(code, cron, zone, delay)
    assert found is not None
    return found


@given(cron=CRONS, zone=ZONES, now=INSTANTS, hours=st.integers(1, 60))
def test_windows_are_counted_as_they_are_listed(
    cron: str, zone: str, now: datetime, hours: int
) -> None:
    wanted = schedule("c", zone, cron=cron)
    edges = [now.replace(microsecond=0) + timedelta(hours=hours * step) for step in range(4)]
    second = timedelta(seconds=1)
    listed = [
        len(list(windows_between(wanted, begin - second, end - second)))
        for begin, end in pairwise(edges)
    ]
    assert count_windows(wanted, edges) == listed


@given(code=CODES, zone=ZONES, now=INSTANTS)
def test_every_instant_lies_in_its_window(code: str, zone: str, now: datetime) -> None:
    assert now in window_at(schedule(code, zone), now)


@given(code=CODES, zone=ZONES, now=INSTANTS)
def test_windows_touch_and_none_is_empty(code: str, zone: str, now: datetime) -> None:
    wanted = schedule(code, zone)
    before = window_at(wanted, now)
    for window in islice(windows_after(wanted, now), 30):
        assert before.end == window.start < window.end
        before = window


@pytest.mark.parametrize(
    ("code", "start", "end"),
    [
        ("i", "2024-05-15T10:20:00+00:00", "2024-05-15T10:21:00+00:00"),
        ("h", "2024-05-15T10:00:00+00:00", "2024-05-15T11:00:00+00:00"),
        ("d", "2024-05-15T00:00:00+00:00", "2024-05-16T00:00:00+00:00"),
        ("w", "2024-05-13T00:00:00+00:00", "2024-05-20T00:00:00+00:00"),
        ("m", "2024-05-01T00:00:00+00:00", "2024-06-01T00:00:00+00:00"),
        ("y", "2024-01-01T00:00:00+00:00", "2025-01-01T00:00:00+00:00"),
    ],
)
def test_a_code_cuts_time_by_the_calendar(code: str, start: str, end: str) -> None:
    found = window_at(schedule(code), at("2024-05-15T10:20:30.5+00:00"))
    assert found == Window(at(start), at(end), at(start))


def test_a_boundary_begins_its_window_and_is_not_after_itself() -> None:
    noon, hourly = at("2024-05-15T12:00:00+00:00"), schedule("h")
    assert window_at(hourly, noon).start == noon
    assert next_window(hourly, noon).start == noon + timedelta(hours=1)
    between = windows_between(hourly, noon, noon + timedelta(hours=2))
    assert [window.start.hour for window in between] == [13, 14]


def test_a_delay_shifts_the_launch_and_not_the_window() -> None:
    noon, late = at("2024-05-15T12:00:00+00:00"), schedule("h", delay=5400)
    window = window_at(late, noon)
    assert (window.start, window.end) == (noon, noon + timedelta(hours=1))
    assert window.launch_at == at("2024-05-15T13:30:00+00:00")


def test_instants_may_come_in_any_zone() -> None:
    tokyo = at("2024-05-15T21:10:00+09:00")
    assert window_at(schedule("h"), tokyo).start == at("2024-05-15T12:00:00+00:00")


@pytest.mark.parametrize(("day", "hours"), [("2024-03-31", 23), ("2024-10-27", 25)])
def test_a_day_of_a_clock_change_has_as_many_hourly_windows_as_hours(day: str, hours: int) -> None:
    daily, hourly = schedule("d", "Europe/Prague"), schedule("h", "Europe/Prague")
    window = window_at(daily, datetime.fromisoformat(day).replace(tzinfo=daily.zone))
    assert window.end - window.start == timedelta(hours=hours)
    within = list(windows_between(hourly, window.start - timedelta(seconds=1), window.end))
    assert len(within[:-1]) == hours
    assert all(one.start == other.end for other, one in pairwise(within))
