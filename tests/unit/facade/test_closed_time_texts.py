"""Closed time of calendars as lines: what is written is read again as it was."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jobauto_prefect.compiler.scheduling.calendars import WEEKDAYS
from jobauto_prefect.facade.console.records.calendars import DAYS, PERIODS, TIMES
from jobauto_prefect.facade.console.records.forms import TextForm

TITLES = st.one_of(
    st.sampled_from(["yearly", "once upon a time", "daily bread", "sat", "mon,tue off", "a/b"]),
    st.text(min_size=1, max_size=30).map(lambda text: " ".join(text.split())).filter(bool),
)
DATES = st.dates().map(str)
CLOCKS = st.times().map(lambda clock: f"{clock:%H:%M}")
MOMENTS = st.datetimes().map(lambda moment: moment.isoformat(timespec="minutes"))


CLOSED_DAYS = st.fixed_dictionaries(
    {"date": DATES}, optional={"until": DATES, "yearly": st.just(True), "title": TITLES}
)
WEEK = st.lists(st.sampled_from(WEEKDAYS), min_size=1, unique=True)
CLOSED_TIMES = st.fixed_dictionaries(
    {"from": CLOCKS, "to": CLOCKS}, optional={"weekdays": WEEK, "title": TITLES}
)
CLOSED_PERIODS = st.fixed_dictionaries(
    {"start": MOMENTS, "end": MOMENTS}, optional={"title": TITLES}
)


@given(st.lists(CLOSED_DAYS))
def test_days_are_read_as_they_are_written(days: list[dict[str, object]]) -> None:
    assert DAYS.read(DAYS.write(days)) == days


@given(st.lists(CLOSED_TIMES))
def test_times_are_read_as_they_are_written(times: list[dict[str, object]]) -> None:
    assert TIMES.read(TIMES.write(times)) == times


@given(st.lists(CLOSED_PERIODS))
def test_periods_are_read_as_they_are_written(periods: list[dict[str, object]]) -> None:
    assert PERIODS.read(PERIODS.write(periods)) == periods


@pytest.mark.parametrize(
    ("text", "reader"),
    [
        ("tomorrow", DAYS),
        ("2026-02-30", DAYS),
        ("22:00 - 06:00", TIMES),
        ("2026-01-01/2026-01-02", PERIODS),
    ],
)
def test_a_line_that_says_nothing_is_named(text: str, reader: TextForm) -> None:
    with pytest.raises(ValueError, match=text):
        reader.read(text)
