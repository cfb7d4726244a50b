"""Windows against an oracle that looks at the wall clock at every step (`oracle.py`)."""

from bisect import bisect_right
from collections.abc import Sequence
from datetime import datetime, timedelta
from itertools import islice, pairwise
from typing import Any
from zoneinfo import ZoneInfo

import pytest
from hypothesis import HealthCheck, Phase, given, reject, settings
from hypothesis import strategies as st

from jobauto_prefect.compiler.scheduling.schedule import Schedule, schedule_of
from jobauto_prefect.compiler.scheduling.windows import window_at, windows_after, windows_between
from jobauto_prefect.errors import InvalidInput
from tests.support import oracle

SECOND = timedelta(seconds=1)
PATIENT: dict[str, Any] = {
    "deadline": None,
    # What fails is told at once; the example is as good as a smaller one, and minutes earlier.
    "phases": [Phase.explicit, Phase.reuse, Phase.generate],
    "suppress_health_check": [HealthCheck.too_slow, HealthCheck.filter_too_much],
}


def check(schedule: Schedule, expected: Sequence[datetime], start: datetime, end: datetime) -> None:
    """The windows within `[start, end)` begin where expected, touch, and hold their instants."""
    found = list(windows_between(schedule, start - SECOND, end - SECOND))
    assert [window.start for window in found] == expected
    assert all(one.end == other.start for one, other in pairwise(found))
    assert all(one.start < one.end for one in found)
    if found:
        assert found[-1].end >= end


def check_at(schedule: Schedule, expected: Sequence[datetime], instant: datetime) -> None:
    position = bisect_right(expected, instant)
    window = window_at(schedule, instant)
    assert instant in window
    if 0 < position < len(expected):
        assert (window.start, window.end) == (expected[position - 1], expected[position])


def usable(cron: oracle.Cron, zone: ZoneInfo) -> Schedule:
    try:
        schedule = schedule_of("c", cron.text, zone.key)
    except InvalidInput:
        reject()  # it never comes, like the 31st of February
    assert schedule is not None
    return schedule


def check_any_cron(data: st.DataObject, zone: ZoneInfo, cron: oracle.Cron) -> None:
    schedule = usable(cron, zone)
    start = data.draw(oracle.days(zone))
    end = start + timedelta(days=3)
    expected = list(oracle.boundaries(cron, zone, start, end, oracle.MINUTE))

    check(schedule, expected, start, end)
    for _ in range(5):
        minutes = data.draw(st.integers(0, 3 * 1440 - 1))
        check_at(schedule, expected, start + timedelta(minutes=minutes, seconds=30))


def check_code(data: st.DataObject, zone: ZoneInfo, code: str) -> None:
    schedule = schedule_of(code, None, zone.key)
    assert schedule is not None
    start = data.draw(oracle.days(zone))
    span = timedelta(days={"h": 10, "y": 800}.get(code, 70))
    # No zone has been off by less than a quarter of an hour since 1990.
    cron, end = oracle.OF_CODES[code], start + span
    expected = list(oracle.boundaries(cron, zone, start, end, oracle.QUARTER))

    check(schedule, expected, start, end)
    for _ in range(5):
        minutes = data.draw(st.integers(0, int(span / oracle.MINUTE) - 1))
        check_at(schedule, expected, start + timedelta(minutes=minutes))


def check_touching(data: st.DataObject, zone: ZoneInfo, cron: oracle.Cron) -> None:
    schedule = usable(cron, zone)
    instant = data.draw(oracle.days(zone))
    window = window_at(schedule, instant)
    assert instant in window
    for following in islice(windows_after(schedule, instant), 8):
        assert window.end == following.start < following.end
        assert window_at(schedule, following.start) == following
        assert window_at(schedule, following.end - SECOND) == following
        window = following


@settings(max_examples=60, **PATIENT)
@given(data=st.data(), zone=oracle.ZONES, cron=oracle.CRONS)
def test_windows_of_any_cron_begin_where_the_wall_clock_says_so(
    data: st.DataObject, zone: ZoneInfo, cron: oracle.Cron
) -> None:
    check_any_cron(data, zone, cron)


@settings(max_examples=25, **PATIENT)
@given(data=st.data(), zone=oracle.ZONES, code=st.sampled_from("hdwmy"))
def test_windows_of_a_code_begin_where_the_wall_clock_says_so(
    data: st.DataObject, zone: ZoneInfo, code: str
) -> None:
    check_code(data, zone, code)


@settings(max_examples=60, **PATIENT)
@given(data=st.data(), zone=oracle.ZONES, cron=oracle.CRONS)
def test_windows_touch_across_any_gap(
    data: st.DataObject, zone: ZoneInfo, cron: oracle.Cron
) -> None:
    """Also where the oracle would have to look for years."""
    check_touching(data, zone, cron)


@pytest.mark.soak
@settings(max_examples=2000, **PATIENT)
@given(data=st.data(), zone=oracle.ZONES, cron=oracle.CRONS, code=st.sampled_from("hdwmy"))
def test_many_more_of_them(
    data: st.DataObject, zone: ZoneInfo, cron: oracle.Cron, code: str
) -> None:
    check_any_cron(data, zone, cron)
    check_code(data, zone, code)
    check_touching(data, zone, cron)
