"""What calendars close, on the clock on the wall."""

from datetime import UTC, date, datetime, timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jobauto_prefect.compiler.scheduling.calendars import (
    Calendar,
    calendar_of,
    countries,
    public_holiday,
)
from jobauto_prefect.compiler.scheduling.closures import ClosedTime
from jobauto_prefect.compiler.scheduling.schedule import zone_of

HOUR, DAY = timedelta(hours=1), timedelta(days=1)


def calendar(zone: str = "UTC", **members: Any) -> Calendar:
    nothing: dict[str, Any] = {
        "name": "C", "country": None, "subdivision": None, "days": [], "times": [], "periods": [],
    }  # fmt: skip
    return calendar_of({**nothing, **members}, zone_of(zone))


def at(text: str) -> datetime:
    return datetime.fromisoformat(text).astimezone(UTC)


def reopens(found: Calendar, text: str) -> datetime | None:
    return ClosedTime([found]).reopens(at(text))


def test_a_day_is_closed_from_midnight_to_midnight_of_its_zone() -> None:
    prague = calendar("Europe/Prague", days=[{"date": "2026-03-29", "title": "Change"}])
    assert prague.at(at("2026-03-28T23:59+01:00")) is None
    closure = prague.at(at("2026-03-29T12:00+02:00"))
    assert closure is not None
    assert closure.end == at("2026-03-30T00:00+02:00")
    assert closure.end - closure.start == 23 * HOUR
    assert closure.reason == "Change (C)"
    assert prague.at(closure.end) is None


def test_days_may_be_several_and_of_each_year() -> None:
    found = calendar(days=[{"date": "2020-12-24", "until": "2021-01-02", "yearly": True}])
    for day in ("2026-12-24", "2026-12-31", "2027-01-02", "2019-12-25"):
        assert found.at(at(f"{day}T05:00Z")), day
    for day in ("2026-12-23", "2027-01-03", "2026-06-01"):
        assert found.at(at(f"{day}T05:00Z")) is None, day
    assert reopens(found, "2026-12-24T00:00Z") == at("2027-01-03T00:00Z")
    once = calendar(days=[{"date": "2026-12-24", "until": "2026-12-26"}])
    assert once.at(at("2027-12-25T00:00Z")) is None


def test_a_29_february_comes_in_leap_years() -> None:
    found = calendar(days=[{"date": "2024-02-29", "yearly": True}])
    assert found.at(at("2028-02-29T05:00Z"))
    assert found.at(at("2027-02-28T05:00Z")) is None
    assert found.at(at("2027-03-01T05:00Z")) is None


@pytest.mark.parametrize(
    ("first", "last", "closed", "opened"),
    [
        ("2023-02-25", "2023-03-02", "2024-02-29 2024-03-02 2027-03-02", "2024-03-03 2027-02-24"),
        ("2024-02-25", "2024-03-02", "2023-03-02 2027-02-25 2028-02-29", "2023-03-03 2028-03-03"),
        ("2023-12-20", "2024-03-01", "2026-03-01 2027-12-20 2028-03-01", "2027-03-02 2028-03-02"),
        ("2024-02-29", "2024-03-05", "2028-02-29 2027-03-01 2027-03-05", "2027-02-28 2027-03-06"),
        ("2024-02-01", "2024-02-29", "2028-02-29 2027-02-28", "2027-03-01 2028-03-01"),
    ],
)
def test_days_of_each_year_begin_and_end_on_their_dates(
    first: str, last: str, closed: str, opened: str
) -> None:
    found = calendar(days=[{"date": first, "until": last, "yearly": True}])
    assert [day for day in closed.split() if not found.at(at(f"{day}T05:00Z"))] == []
    assert [day for day in opened.split() if found.at(at(f"{day}T05:00Z"))] == []


def test_times_of_day_pass_midnight_and_are_of_the_day_they_begin_on() -> None:
    found = calendar(times=[{"from": "22:00", "to": "04:00", "weekdays": ["fri"]}])
    assert found.at(at("2026-05-08T21:59Z")) is None  # a Friday
    assert reopens(found, "2026-05-08T22:00Z") == at("2026-05-09T04:00Z")
    assert reopens(found, "2026-05-09T03:59Z") == at("2026-05-09T04:00Z")
    assert found.at(at("2026-05-08T03:00Z")) is None
    each = calendar("Europe/Prague", times=[{"from": "02:30", "to": "02:30"}])
    assert ClosedTime([each]).reopens(at("2026-05-08T12:00Z")) is None  # it never opens


@pytest.mark.parametrize(
    ("zone", "day", "opens"),
    [
        ("Europe/Prague", "2026-03-29", "2026-03-29T03:00+02:00"),  # 02:30 is skipped
        ("Europe/Prague", "2026-10-25", "2026-10-25T02:30+02:00"),  # shown twice: the first
        ("Australia/Lord_Howe", "2026-04-05", "2026-04-05T02:30+10:30"),
    ],
)
def test_times_of_day_on_days_when_the_clock_is_set(zone: str, day: str, opens: str) -> None:
    found = calendar(zone, times=[{"from": "01:00", "to": "02:30"}])
    begin = datetime.fromisoformat(f"{day}T01:00").replace(tzinfo=zone_of(zone))
    assert ClosedTime([found]).reopens(begin.astimezone(UTC)) == at(opens)


def test_what_begins_or_ends_in_a_skipped_hour_does_so_at_the_first_moment_after() -> None:
    late = calendar("Europe/Prague", times=[{"from": "02:30", "to": "05:00"}])
    assert late.at(at("2026-03-29T01:59+01:00")) is None
    assert reopens(late, "2026-03-29T03:00+02:00") == at("2026-03-29T05:00+02:00")
    within = calendar("Europe/Prague", times=[{"from": "02:10", "to": "02:50"}])
    assert within.at(at("2026-03-29T03:05+02:00")) is None
    period = {"start": "2026-03-29T01:00", "end": "2026-03-29T02:30"}
    once = calendar("Europe/Prague", periods=[period])
    assert reopens(once, "2026-03-29T01:30+01:00") == at("2026-03-29T03:00+02:00")


def test_a_period_comes_once_on_its_own_clock_or_that_of_the_zone() -> None:
    periods = [
        {"start": "2026-05-02T08:00", "end": "2026-05-02T18:00", "title": "Moving"},
        {"start": "2026-06-02T08:00+00:00", "end": "2026-06-02T09:00Z"},
    ]
    found = calendar("Asia/Tokyo", periods=periods)
    closure = found.at(at("2026-05-02T08:00+09:00"))
    assert closure is not None
    assert (closure.end, closure.reason) == (at("2026-05-02T18:00+09:00"), "Moving (C)")
    assert found.at(at("2026-06-02T08:30Z"))
    assert found.at(at("2026-05-03T08:00+09:00")) is None


def test_public_holidays_are_closed_under_their_names() -> None:
    pytest.importorskip("holidays")
    known = countries()
    assert known is not None
    assert "BY" in known["DE"]
    assert public_holiday("CZ", None, date(2026, 5, 8))
    assert public_holiday("DE", None, date(2026, 1, 6)) is None
    epiphany = public_holiday("DE", "BY", date(2026, 1, 6))
    closure = calendar(country="DE", subdivision="BY").at(at("2026-01-06T10:00Z"))
    assert closure is not None
    assert closure.reason == f"{epiphany} (C)"


def test_a_country_that_nobody_knows_closes_nothing() -> None:
    assert public_holiday("XX", None, date(2026, 1, 1)) is None


@given(
    zone=st.sampled_from(["UTC", "Europe/Prague", "America/Havana", "Australia/Lord_Howe",
                          "Pacific/Apia", "America/Sao_Paulo"]),
    instant=st.integers(0, 20 * 365 * 24 * 3600).map(
        lambda seconds: datetime(2011, 1, 1, tzinfo=UTC) + timedelta(seconds=seconds)
    ),
    begin=st.times().map(lambda clock: f"{clock:%H:%M}"),
    end=st.times().map(lambda clock: f"{clock:%H:%M}"),
    days=st.integers(0, 5),
)  # fmt: skip
def test_what_is_found_ends_after_the_instant_and_the_end_is_open(
    zone: str, instant: datetime, begin: str, end: str, days: int
) -> None:
    first = instant.date()
    found = calendar(
        zone,
        days=[{"date": str(first), "until": str(first + days * DAY)}],
        times=[{"from": begin, "to": end, "weekdays": ["mon", "wed"]}],
    )
    closure = found.at(instant)
    if closure is not None:
        assert closure.end is not None
        assert closure.end > instant
    opens = ClosedTime([found]).reopens(instant)
    assert opens is not None
    assert opens >= instant
    assert found.at(opens) is None
    assert opens == instant or found.at(opens - timedelta(seconds=1)) is not None
