"""Prefect's own scheduler yields the instants of our windows, for schedules that it is given."""

import asyncio
from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

import pytest
from hypothesis import HealthCheck, Phase, assume, given, settings
from hypothesis import strategies as st
from prefect.server.schemas.schedules import CronSchedule

from jobauto_prefect.compiler.plan import SchedulePlan
from jobauto_prefect.compiler.scheduling.prefect_schedule import schedule_for_prefect
from jobauto_prefect.compiler.scheduling.schedule import schedule_of
from jobauto_prefect.compiler.scheduling.utc_offsets import changes_of
from jobauto_prefect.compiler.scheduling.windows import windows_between
from jobauto_prefect.errors import InvalidInput
from tests.support import oracle

FIRST = datetime(2026, 1, 1, tzinfo=UTC)
SECOND = timedelta(seconds=1)
CODES = st.sampled_from("ihdwmy")


@st.composite
def instants(draw: st.DrawFn, zone: ZoneInfo) -> datetime:
    """Any instant of ten years, or one around a clock change."""
    changes = [day for day in oracle.days_of_change(zone) if day >= FIRST.date()]
    minutes = timedelta(minutes=draw(st.integers(0, 2880)))
    near = draw(st.booleans())
    if changes and near:
        day = draw(st.sampled_from(changes))
        return datetime(day.year, day.month, day.day, tzinfo=UTC) + minutes - timedelta(days=1)
    return FIRST + timedelta(days=draw(st.integers(0, 3650))) + minutes


@settings(
    max_examples=150,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much],
    phases=[Phase.explicit, Phase.reuse, Phase.generate],
)
@given(
    data=st.data(),
    zone=oracle.ZONES,
    interval=st.one_of(CODES, oracle.CRONS.map(lambda cron: cron.text)),
)
def test_prefect_makes_runs_at_the_starts_of_our_windows(
    data: st.DataObject, zone: ZoneInfo, interval: str
) -> None:
    code, cron = (interval, None) if interval in "ihdwmy" else ("c", interval)
    try:
        schedule = schedule_of(code, cron, zone.key)
    except InvalidInput:
        schedule = None
    plan = schedule_for_prefect(schedule) if schedule else None
    assume(schedule is not None and plan is not None)
    assert schedule is not None
    assert plan is not None

    start = data.draw(instants(zone))
    theirs = CronSchedule(cron=plan.cron, timezone=plan.timezone)
    dates = asyncio.run(theirs.get_dates(n=50, start=start))
    found = sorted({datetime.fromtimestamp(date.timestamp(), UTC) for date in dates})
    ours = [window.start for window in windows_between(schedule, start - SECOND, found[-1])]
    assert found == ours


ZONES = ("UTC", "Europe/Prague", "America/New_York", "Australia/Lord_Howe", "America/Havana")
IN_MARCH = ("0 6 */2 * *", "0 6 3,31 * *", "0 6 15,30,31 * *", "0 6 1,L * *", "0 6 1,29 * 1")
LEFT_OUT = (
    "0 6 */3 * *", "0 6 2,31 * *", "0 6 1,15,31 * *", "0 6 5-5 * *", "0 6 * * 1/2",
    "0 6 1,14 * 5,*", "0 6 14,* * 3", "0 6 1/1 * 0,*/2", "59/1 * * * *", "0 23/6 * * *",
    "0 6 31/2 * *", "0 6 1 12/3 *", "30,59/5 6 * * *",
)  # fmt: skip
"""Of which Prefect leaves out days of March, or which it reads otherwise."""

NEAR_CHANGES = ("*/15 8-17 * * 1-5", "0 */4 * * *", "30 6 * * */2", "0 6 L * *", "5 4-22/3 * * *")
NTH_WEEKDAYS = ("0 6 * * 1#2", "30 6 * 2,3 mon#5,7#1", "*/5 6-8 * * SUN#3", "58/5 6 * * 02#4")
RARE = ("0 12 30 * *", "0 12 31 * *", "0 12 29 2 *", "15 6 1 */2 *", "15 6 1 */3 *", "0 6 L * *")
YEARS = range(2026, 2054)
"""As many as it takes until days, dates and changes come round again."""


def starts_of(cron: str, plan: SchedulePlan, start: datetime, count: int) -> None:
    """Prefect's next instants are the starts of our windows."""
    found, ours = both(cron, plan.timezone, start, count, theirs=plan.cron)
    assert found == ours, (cron, plan.timezone, start)


def both(
    cron: str, zone: str, start: datetime, count: int, theirs: str
) -> tuple[list[datetime], list[datetime]]:
    """Prefect's next instants, and the starts of our windows up to the last of them."""
    schedule = schedule_of("c", cron, zone)
    assert schedule is not None
    scheduled = CronSchedule(cron=theirs, timezone=zone)
    dates = asyncio.run(scheduled.get_dates(n=count, start=start))
    found = sorted({datetime.fromtimestamp(date.timestamp(), UTC) for date in dates})
    return found, [window.start for window in windows_between(schedule, start - SECOND, found[-1])]


def handed(cron: str, zone: str) -> SchedulePlan | None:
    schedule = schedule_of("c", cron, zone)
    assert schedule is not None
    return schedule_for_prefect(schedule)


def near_changes(zone: str, each: int) -> None:
    """Around every so many clock changes of 28 years."""
    changes = changes_of(ZoneInfo(zone), YEARS)[::each]
    for cron in NEAR_CHANGES:
        plan = handed(cron, zone)
        if plan is None:
            assert (cron, zone) == ("0 */4 * * *", "America/Havana")
            continue
        for change in changes:
            starts_of(cron, plan, change.begin - timedelta(hours=30), 24)


@pytest.mark.parametrize("zone", ZONES)
def test_prefect_has_our_windows_around_some_clock_changes(zone: str) -> None:
    near_changes(zone, each=11)


@pytest.mark.soak
@pytest.mark.parametrize("zone", ZONES)
def test_prefect_has_our_windows_around_every_clock_change(zone: str) -> None:
    near_changes(zone, each=1)


@pytest.mark.parametrize("zone", ZONES)
def test_prefect_has_our_windows_of_28_years_where_they_are_rare(zone: str) -> None:
    for cron in RARE:
        plan = handed(cron, zone)
        assert plan is not None, cron
        count = 7 if cron.split()[3] == "2" else 28 * 12 // int(cron.split()[3][2:] or 1)
        starts_of(cron, plan, datetime(2026, 1, 1, tzinfo=UTC), min(count, 190))


@pytest.mark.parametrize("zone", ZONES)
@pytest.mark.parametrize("cron", NTH_WEEKDAYS)
def test_prefect_has_our_windows_on_the_nth_weekdays(cron: str, zone: str) -> None:
    plan = handed(cron, zone)
    assert plan is not None
    for year in YEARS[::9]:
        starts_of(cron, plan, datetime(year, 2, 10, tzinfo=UTC), 60)


def in_march(zone: str, each: int) -> None:
    """From every so many Februaries of 28 years into March."""
    for cron in IN_MARCH:
        plan = handed(cron, zone)
        assert plan is not None, cron
        for year in YEARS[::each]:
            starts_of(cron, plan, datetime(year, 2, 10, tzinfo=UTC), 20)


@pytest.mark.parametrize("zone", ZONES)
def test_prefect_leaves_out_no_day_of_march_of_leap_years_and_others(zone: str) -> None:
    in_march(zone, each=9)


@pytest.mark.soak
@pytest.mark.parametrize("zone", ZONES)
def test_prefect_leaves_out_no_day_of_any_march(zone: str) -> None:
    in_march(zone, each=1)


@pytest.mark.parametrize("cron", LEFT_OUT)
def test_what_is_left_out_differs_in_some_year(cron: str) -> None:
    assert handed(cron, "UTC") is None
    starts = (datetime(year, 2, 10, tzinfo=UTC) for year in YEARS[:4])
    pairs = (both(cron, "UTC", start, 20, theirs=cron) for start in starts)
    assert any(found != ours for found, ours in pairs)


@pytest.mark.parametrize("cron", ["0 6 * * 1#2,3", "0 6 1 * 1#2,3", "0 6 LW * *"])
def test_what_prefect_does_not_take_has_no_schedule_there(cron: str) -> None:
    assert handed(cron, "UTC") is None
    with pytest.raises(ValueError, match="Invalid cron"):
        CronSchedule(cron=cron, timezone="UTC")


@pytest.mark.parametrize("cron", ["30 2 * * *", "0 */2 * * *"])
def test_what_a_clock_change_touches_differs_there(cron: str) -> None:
    assert handed(cron, "Europe/Prague") is None
    changes = changes_of(ZoneInfo("Europe/Prague"), YEARS)[:4]
    starts = (change.begin - timedelta(hours=30) for change in changes)
    pairs = (both(cron, "Europe/Prague", start, 24, theirs=cron) for start in starts)
    assert any(found != ours for found, ours in pairs)
