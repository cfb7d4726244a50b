"""Interval codes, cron and windows."""

from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jobauto_prefect.compiler.schedule import CODES, cron_of, window
from jobauto_prefect.errors import InvalidInput

ZONES = st.sampled_from(["UTC", "Europe/Prague", "America/St_Johns", "Australia/Lord_Howe"])
INSTANTS = st.datetimes(
    min_value=datetime(2023, 1, 1),  # noqa: DTZ001 - hypothesis wants them without a zone
    max_value=datetime(2026, 12, 31),  # noqa: DTZ001
    timezones=st.just(UTC),
)
CRONS = st.sampled_from(["0 * * * *", "30 2 * * *", "*/7 * * * *", "15 2,3 * * *", "0 */2 * * *"])


def at(text: str) -> datetime:
    return datetime.fromisoformat(text)


@given(code=st.sampled_from([c for c in CODES if c != "n"]), cron=CRONS, zone=ZONES, now=INSTANTS)
def test_every_instant_lies_in_its_window(code: str, cron: str, zone: str, now: datetime) -> None:
    found = window(code, cron, zone, now)
    assert found is not None
    start, end = found
    assert start <= now < end


@given(cron=CRONS, zone=ZONES, now=INSTANTS)
def test_windows_follow_each_other_without_gap_or_overlap(
    cron: str, zone: str, now: datetime
) -> None:
    first = window("c", cron, zone, now)
    assert first is not None
    second = window("c", cron, zone, first[1])
    assert second is not None
    assert second[0] == first[1]
    before = window("c", cron, zone, first[0] - timedelta(seconds=1))
    assert before is not None
    assert before[1] == first[0]


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
    assert window(code, None, "UTC", at("2024-05-15T10:20:30+00:00")) == (at(start), at(end))


def test_a_due_instant_begins_its_window() -> None:
    noon = at("2024-05-15T12:00:00+00:00")
    assert window("h", None, "UTC", noon) == (noon, at("2024-05-15T13:00:00+00:00"))


@pytest.mark.parametrize(("day", "hours"), [("2024-03-31", 23), ("2024-10-27", 25)])
def test_a_day_of_a_clock_change_has_as_many_hourly_windows_as_hours(day: str, hours: int) -> None:
    prague = ZoneInfo("Europe/Prague")
    start = datetime.fromisoformat(day).replace(tzinfo=prague)
    found = window("d", None, "Europe/Prague", start)
    assert found is not None
    assert found[1] - found[0] == timedelta(hours=hours)
    minutes = (found[0] + timedelta(minutes=10 * n) for n in range(hours * 6))
    assert len({window("h", None, "Europe/Prague", minute) for minute in minutes}) == hours


def test_never_and_an_empty_custom_interval_have_no_window() -> None:
    now = at("2024-05-15T12:00:00+00:00")
    assert window("n", None, "UTC", now) is None
    assert window("c", " ", "UTC", now) is None
    assert cron_of("n") is None


@pytest.mark.parametrize("cron", ["* * * *", "0 0 31 2 *", "61 * * * *", "@daily", "0 0 0 0 0 0"])
def test_what_is_no_cron_expression_is_refused_by_name(cron: str) -> None:
    with pytest.raises(InvalidInput) as caught:
        cron_of("c", cron)
    assert caught.value.faults[0].pointer == "/cron"
    assert cron in caught.value.faults[0].message


def test_an_unknown_code_and_an_unknown_zone_are_refused() -> None:
    with pytest.raises(InvalidInput, match="'x' is none of"):
        cron_of("x")
    with pytest.raises(InvalidInput, match="no time zone 'Mars/Olympus'"):
        window("h", None, "Mars/Olympus", at("2024-05-15T12:00:00+00:00"))
