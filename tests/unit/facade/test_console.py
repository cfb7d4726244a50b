"""Parts of the console that need no server."""

import itertools
from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

import pytest

from jobauto_prefect.facade.console.moments import format_span
from jobauto_prefect.facade.console.overview import DAYS, DayResult, last_midnights
from jobauto_prefect.facade.console.success_chart import draw_success
from jobauto_prefect.facade.formats.html.page_language import choose_page_language, translator

MIDNIGHT = datetime(2026, 3, 10, tzinfo=UTC)


def _results(*counts: tuple[int, int]) -> list[DayResult]:
    return [
        DayResult(MIDNIGHT + timedelta(days=day), good, bad)
        for day, (good, bad) in enumerate(counts)
    ]


def test_days_without_jobs_interrupt_the_line() -> None:
    chart = draw_success(_results((1, 0), (3, 1), (0, 0), (0, 2)), translator("en"))
    assert [day.share for day in chart.days] == [100, 75, None, 0]
    assert [len(points.split()) for points in chart.lines] == [2, 1]
    assert chart.days[0].note == "10 Mar: 100 % of 1 jobs"
    assert chart.days[2].note == "12 Mar: no job ended"


def test_a_day_with_a_failure_is_never_at_100_percent() -> None:
    chart = draw_success(_results((999, 1)), translator("cs"))
    assert chart.days[0].share == 99
    assert chart.days[0].label == "10. 3."


def test_days_begin_where_clocks_say_so_on_the_days_they_change_too() -> None:
    prague = ZoneInfo("Europe/Prague")
    midnights = last_midnights(datetime(2026, 4, 1, 23, tzinfo=UTC), prague)
    assert len(midnights) == DAYS
    assert midnights[-1].date().isoformat() == "2026-04-02"
    hours = [
        (later.astimezone(UTC) - sooner.astimezone(UTC)) / timedelta(hours=1)
        for sooner, later in itertools.pairwise(midnights)
    ]
    assert sorted(set(hours)) == [23, 24]


@pytest.mark.parametrize(
    ("seconds", "shown"),
    [(-3, "0 s"), (59, "59 s"), (60, "1 min"), (7199, "119 min"), (7200, "2 h"), (172800, "2 d")],
)
def test_a_span_is_told_in_one_unit(seconds: int, shown: str) -> None:
    assert format_span(timedelta(seconds=seconds)) == shown


@pytest.mark.parametrize(
    ("asked", "chosen"),
    [(("cs-CZ", "en"), "cs"), (("de", "EN-us", "cs"), "en"), (("de",), "en"), ((), "en")],
)
def test_the_first_language_it_has_is_chosen(asked: tuple[str, ...], chosen: str) -> None:
    assert choose_page_language(asked) == chosen
