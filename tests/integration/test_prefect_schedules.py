"""Prefect's own scheduler yields the instants of our windows, for schedules that it is given."""

import asyncio
from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

from hypothesis import HealthCheck, Phase, assume, given, settings
from hypothesis import strategies as st
from prefect.server.schemas.schedules import CronSchedule

from jobauto_prefect.compiler.handover import handed_over
from jobauto_prefect.compiler.schedule import schedule_of
from jobauto_prefect.compiler.windows import windows_between
from jobauto_prefect.errors import InvalidInput
from tests.unit.compiler import oracle

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
    said=st.one_of(CODES, oracle.CRONS.map(lambda cron: cron.text)),
)
def test_prefect_makes_runs_at_the_starts_of_our_windows(
    data: st.DataObject, zone: ZoneInfo, said: str
) -> None:
    code, cron = (said, None) if said in "ihdwmy" else ("c", said)
    try:
        schedule = schedule_of(code, cron, zone.key)
    except InvalidInput:
        schedule = None
    plan = handed_over(schedule) if schedule else None
    assume(schedule is not None and plan is not None)
    assert schedule is not None
    assert plan is not None

    start = data.draw(instants(zone))
    theirs = CronSchedule(cron=plan.cron, timezone=plan.timezone)
    dates = asyncio.run(theirs.get_dates(n=50, start=start))
    found = sorted({datetime.fromtimestamp(date.timestamp(), UTC) for date in dates})
    ours = [window.start for window in windows_between(schedule, start - SECOND, found[-1])]
    assert found == ours
