"""The calendar of windows, without a server."""

from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

import pytest

from jobauto_prefect.facade.console.jobs.tasks import tell_window
from jobauto_prefect.facade.console.jobs.window_calendar import Month, count_days
from jobauto_prefect.facade.formats.html.page_language import translator

PRAGUE = ZoneInfo("Europe/Prague")
NOW = datetime(2026, 2, 28, 23, 30, tzinfo=UTC)


def test_a_month_is_that_of_the_clocks_where_the_service_is() -> None:
    month = Month.parse("", NOW, PRAGUE)
    assert (month.name, month.before.name, month.after.name) == ("2026-03", "2026-02", "2026-04")
    assert [len(week) for week in month.weeks] == [7] * 6
    assert month.weeks[0][:6] == [None] * 6  # it begins on a Sunday
    hours = (month.midnights[-1].astimezone(UTC) - month.midnights[0].astimezone(UTC)) / timedelta(
        hours=1
    )
    assert hours == 31 * 24 - 1  # clocks go forward in it


def test_windows_ahead_count_on_the_day_of_the_clocks() -> None:
    month = Month.parse("2026-03", NOW, PRAGUE)
    planned = [1, *[0] * 30]
    days = count_days({(0, "open", False): 1, (30, "failed", True): 2}, planned, month)
    assert days[0] == {"owed": 1, "planned": 1}
    assert days[30] == {"excused": 2}
    assert sum(sum(day.values()) for day in days) == 4


@pytest.mark.parametrize(
    ("start", "hours", "told"),
    [
        (datetime(2026, 3, 9, 23, tzinfo=UTC), 24, "10 Mar 2026"),
        (datetime(2026, 3, 9, 23, tzinfo=UTC), 48, "10 Mar 2026 \N{EN DASH} 11 Mar 2026"),
        (datetime(2026, 3, 10, 1, tzinfo=UTC), 1, "10 Mar 2026 02:00 \N{EN DASH} 03:00"),
        (
            datetime(2026, 3, 10, 22, tzinfo=UTC),
            2,
            "10 Mar 2026 23:00 \N{EN DASH} 11 Mar 2026 01:00",
        ),
        (datetime(2026, 3, 28, 23, tzinfo=UTC), 23, "29 Mar 2026"),  # a day of 23 hours
    ],
)
def test_a_window_is_told_where_clocks_go_by_the_zone(
    start: datetime, hours: int, told: str
) -> None:
    end = start + timedelta(hours=hours)
    assert tell_window(start, end, PRAGUE, translator("en")) == told
