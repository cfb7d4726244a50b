"""A clock that follows another machine's by what it is told."""

import logging
from datetime import UTC, datetime, timedelta

import pytest

from jobauto_prefect.clock import SharedClock, utc_now

NOON = datetime(2026, 5, 4, 12, tzinfo=UTC)
SECOND = timedelta(seconds=1)


class Uptime:
    """Seconds since start-up that the test sets."""

    seconds = 1000.0

    def __call__(self) -> float:
        return self.seconds


@pytest.fixture
def uptime() -> Uptime:
    return Uptime()


@pytest.fixture
def clock(uptime: Uptime) -> SharedClock:
    return SharedClock("the other's", host=lambda: NOON + 120 * SECOND, uptime=uptime)


def test_until_it_is_told_something_it_is_the_hosts(clock: SharedClock) -> None:
    assert clock() == NOON + 120 * SECOND
    assert clock.host_is_ahead == timedelta()


def test_what_it_is_told_was_true_half_way_between_question_and_answer(
    clock: SharedClock, uptime: Uptime
) -> None:
    clock.read(NOON, 998, 1000)
    assert clock() == NOON + SECOND
    assert clock.host_is_ahead == 119 * SECOND
    uptime.seconds += 60
    assert clock() == NOON + 61 * SECOND


def test_a_slow_answer_moves_it_only_where_both_can_not_be_true(clock: SharedClock) -> None:
    clock.read(NOON, 999.8, 1000)
    exact = clock()
    clock.read(NOON, 990, 1000)  # answered at once, and long under way
    assert clock() == exact
    clock.read(NOON + 60 * SECOND, 990, 1000)  # the other clock was set
    assert clock() == NOON + 65 * SECOND


def test_an_instant_that_has_passed_for_certain_moves_it_forward_only(
    clock: SharedClock, uptime: Uptime
) -> None:
    clock.read(NOON, 999, 1000)  # by up to half a second that may be wrong
    exact = clock()
    clock.note_passed(exact - SECOND)
    assert clock() == exact
    clock.note_passed(exact + 0.3 * SECOND)
    assert clock() == exact + 0.3 * SECOND
    uptime.seconds += 1
    assert clock() == exact + 1.3 * SECOND


def test_a_host_that_is_off_by_more_than_a_second_says_so_once_each_time(
    uptime: Uptime, caplog: pytest.LogCaptureFixture
) -> None:
    ahead = [timedelta()]
    clock = SharedClock("the other's", host=lambda: NOON + ahead[0], uptime=uptime)
    with caplog.at_level(logging.WARNING):
        for differs in (0.5, 2, 3, 0, -4):
            ahead[0] = differs * SECOND
            clock.read(NOON, 1000, 1000)
    assert [record.getMessage().partition(",")[0] for record in caplog.records] == [
        "the clock of this host is 2.0 s ahead of the other's",
        "the clock of this host is 4.0 s behind the other's",
    ]


def test_a_reading_in_another_zone_is_the_same_instant(clock: SharedClock) -> None:
    told = utc_now().astimezone()
    clock.read(told, 1000, 1000)
    assert clock() == told
    assert clock().tzinfo is UTC
