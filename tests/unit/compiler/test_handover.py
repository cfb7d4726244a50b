"""Which schedules the deployment has, and which are the window scheduler's alone."""

import pytest

from jobauto_prefect.compiler.plan import SchedulePlan
from jobauto_prefect.compiler.scheduling.prefect_schedule import schedule_for_prefect
from jobauto_prefect.compiler.scheduling.schedule import Schedule, schedule_of


def schedule(code: str, zone: str, cron: str | None = None, delay: int = 0) -> Schedule:
    found = schedule_of(code, cron, zone, delay)
    assert found is not None
    return found


@pytest.mark.parametrize("code", [*"dwmy"])
@pytest.mark.parametrize("zone", ["UTC", "Europe/Prague", "Asia/Kolkata", "America/New_York"])
def test_midnights_that_are_never_skipped_are_prefects(code: str, zone: str) -> None:
    wanted = schedule(code, zone)
    assert schedule_for_prefect(wanted) == SchedulePlan(wanted.cron, zone, active=True)


@pytest.mark.parametrize("code", ["i", "h"])
def test_hours_are_counted_in_utc_where_the_zone_only_shifts_them(code: str) -> None:
    wanted = schedule(code, "Europe/Prague")
    assert schedule_for_prefect(wanted) == SchedulePlan(wanted.cron, "UTC", active=True)


@pytest.mark.parametrize(
    ("zone", "cron"),
    [
        ("Europe/Prague", "30 2 * * *"),  # skipped once a year, shown twice once a year
        ("Europe/Prague", "0 */2 * * *"),  # Prefect makes no run in the hour shown twice
        ("America/Havana", "0 0 * * *"),  # its clocks change at midnight
        ("Australia/Lord_Howe", "0 * * * *"),  # its clocks change by half an hour
        ("UTC", "0 0 * * 1/2"),
        ("UTC", "0 0 */2 * 1"),
        ("UTC", "0 0 * * 5-FRI"),
        ("UTC", "0 0 */30 * *"),
        ("UTC", "0 0 2,31 * *"),  # of March the 2nd is left out
        ("UTC", "0 0 */3 * *"),  # and the 1st in leap years
        ("UTC", "0 0 31,L * *"),
        ("UTC", "0 0 30 2 1"),
    ],
)
def test_what_prefect_reads_otherwise_is_the_window_keepers(zone: str, cron: str) -> None:
    assert schedule_for_prefect(schedule("c", zone, cron)) is None


@pytest.mark.parametrize("zone", ["UTC", "Europe/Prague", "America/New_York", "America/Havana"])
@pytest.mark.parametrize(
    "cron",
    [
        *("*/15 8-17 * * 1-5", "0 12 31 * *", "0 12 29 2 *", "0 6 L * *", "0 6 */2 * *"),
        *("0 6 3,31 * *", "0 6 15,30,31 * *", "0 6 1,L * *", "0 6 2,31 3-12 *", "0 6 1 */3 *"),
        *("0 6 * * */3", "5/20 12 * * *", "0 6 5/10 4-12 *"),
    ],
)
def test_what_no_clock_change_touches_is_prefects(zone: str, cron: str) -> None:
    assert schedule_for_prefect(schedule("c", zone, cron)) == SchedulePlan(cron, zone, active=True)


def test_hours_by_steps_are_prefects_where_no_step_is_in_a_change() -> None:
    four = schedule("c", "Europe/Prague", "0 */4 * * *")
    assert schedule_for_prefect(four) == SchedulePlan("0 */4 * * *", "Europe/Prague", active=True)
    assert schedule_for_prefect(schedule("c", "America/Havana", "0 */4 * * *")) is None


def test_delays_are_the_window_keepers() -> None:
    assert schedule_for_prefect(schedule("h", "UTC", delay=1)) is None
