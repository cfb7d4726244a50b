"""Until when the job of a window has to have succeeded."""

from datetime import datetime, timedelta

import pytest

from jobauto_prefect.compiler.scheduling.deadlines import deadline_of
from jobauto_prefect.compiler.scheduling.schedule import Schedule, schedule_of
from jobauto_prefect.compiler.scheduling.windows import window_at
from jobauto_prefect.errors import InvalidInput


def schedule(cron: str, zone: str = "UTC") -> Schedule:
    found = schedule_of("c", cron, zone)
    assert found is not None
    return found


def deadline(offset: str | None, cron: str, zone: str, instant: str) -> str:
    wanted = schedule(cron, zone)
    window = window_at(wanted, datetime.fromisoformat(instant))
    return deadline_of(offset, wanted, window).astimezone(wanted.zone).isoformat()


@pytest.mark.parametrize(
    ("offset", "cron", "instant", "expected"),
    [
        (None, "0 0 * * *", "2024-03-31T12:00+02:00", "2024-04-01T00:00:00+02:00"),
        ("+3h", "0 0 * * *", "2024-05-15T12:00+02:00", "2024-05-15T03:00:00+02:00"),
        # Three hours are three hours, whatever the clock on the wall does meanwhile.
        ("+3h", "0 0 * * *", "2024-03-31T12:00+02:00", "2024-03-31T04:00:00+02:00"),
        ("+1h30m", "0 0 * * *", "2024-05-15T12:00+02:00", "2024-05-15T01:30:00+02:00"),
        ("+2d", "0 0 * * *", "2024-05-15T12:00+02:00", "2024-05-17T00:00:00+02:00"),
        ("06:30", "0 0 * * *", "2024-05-15T12:00+02:00", "2024-05-15T06:30:00+02:00"),
        ("6:30", "0 0 * * *", "2024-05-15T12:00+02:00", "2024-05-15T06:30:00+02:00"),
        ("06:30", "0 22 * * *", "2024-05-15T23:00+02:00", "2024-05-16T06:30:00+02:00"),
        ("22:00", "0 22 * * *", "2024-05-15T23:00+02:00", "2024-05-16T22:00:00+02:00"),
        ("02:30", "0 0 * * *", "2024-03-31T12:00+02:00", "2024-03-31T03:00:00+02:00"),
        ("02:30", "0 0 * * *", "2024-10-27T12:00+01:00", "2024-10-27T02:30:00+02:00"),
    ],
)
def test_a_deadline_is_the_windows_end_or_what_the_template_says(
    offset: str | None, cron: str, instant: str, expected: str
) -> None:
    assert deadline(offset, cron, "Europe/Prague", instant) == expected


@pytest.mark.parametrize(
    "offset", ["", "3h", "+3", "+", "+3w", "24:00", "6:5", "+0s", "+367d", "+99999999d", "+1h 5m"]
)
def test_what_is_no_deadline_is_refused_by_name(offset: str) -> None:
    hourly = schedule("0 * * * *")
    window = window_at(hourly, datetime.fromisoformat("2024-05-15T12:00+00:00"))
    with pytest.raises(InvalidInput) as caught:
        deadline_of(offset, hourly, window)
    assert caught.value.faults[0].pointer == "/deadline_offset"
    assert repr(offset) in caught.value.faults[0].message


def test_a_deadline_may_lie_after_the_window() -> None:
    hourly = schedule("0 * * * *")
    window = window_at(hourly, datetime.fromisoformat("2024-05-15T12:00+00:00"))
    assert deadline_of("+90m", hourly, window) == window.end + timedelta(minutes=30)
