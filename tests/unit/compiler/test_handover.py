"""Which schedules the deployment has, and which are the window keeper's alone."""

import pytest

from jobauto_prefect.compiler.handover import handed_over
from jobauto_prefect.compiler.plan import SchedulePlan
from jobauto_prefect.compiler.schedule import Schedule, schedule_of


def schedule(code: str, zone: str, cron: str | None = None, delay: int = 0) -> Schedule:
    found = schedule_of(code, cron, zone, delay)
    assert found is not None
    return found


@pytest.mark.parametrize("code", [*"dwmy"])
@pytest.mark.parametrize("zone", ["UTC", "Europe/Prague", "Asia/Kolkata", "America/New_York"])
def test_midnights_that_are_never_skipped_are_prefects(code: str, zone: str) -> None:
    wanted = schedule(code, zone)
    assert handed_over(wanted) == SchedulePlan(wanted.cron, zone, active=True)


@pytest.mark.parametrize("code", ["i", "h"])
def test_hours_are_counted_in_utc_where_the_zone_only_shifts_them(code: str) -> None:
    wanted = schedule(code, "Europe/Prague")
    assert handed_over(wanted) == SchedulePlan(wanted.cron, "UTC", active=True)


@pytest.mark.parametrize(
    ("zone", "cron"),
    [
        ("Europe/Prague", "30 2 * * *"),  # skipped once a year, shown twice once a year
        ("Europe/Prague", "0 */2 * * *"),  # Prefect makes no run in the hour shown twice
        ("America/Havana", "0 0 * * *"),  # its clocks change at midnight
        ("Australia/Lord_Howe", "0 * * * *"),  # its clocks change by half an hour
        ("UTC", "0 0 * * 1/2"),
        ("UTC", "0 0 */2 * 1"),
        ("UTC", "0 0 L * *"),
        ("UTC", "0 0 * * 5-FRI"),
        ("UTC", "0 0 */30 * *"),
        ("UTC", "0 0 2,31 * *"),
    ],
)
def test_what_prefect_reads_otherwise_is_the_window_keepers(zone: str, cron: str) -> None:
    assert handed_over(schedule("c", zone, cron)) is None


def test_delays_are_the_window_keepers() -> None:
    assert handed_over(schedule("h", "UTC", delay=1)) is None
