"""The windows to come in Prefect: runs made ahead where its scheduler differs, and names."""

import asyncio
from datetime import datetime, timedelta
from typing import Any
from zoneinfo import ZoneInfo

from jobauto_prefect.engine.context import EngineContext
from jobauto_prefect.engine.sync.template_deployments import look_ahead
from jobauto_prefect.engine.sync.upcoming_runs import LOOK_AT_ALL, UpcomingRuns
from jobauto_prefect.ledger.audit.trail import SERVICE
from jobauto_prefect.ledger.records import Freeze
from tests.support.plant_services import Watch
from tests.support.waits import eventually
from tests.support.workers import Plant

PRAGUE = ZoneInfo("Europe/Prague")
HOUR = timedelta(hours=1)


def look(watch: Watch) -> None:
    """A first look of services that have just started."""

    async def once(context: EngineContext) -> None:
        await look_ahead(context, UpcomingRuns(context))

    watch.with_prefect(once)


def due_of(runs: list[dict[str, Any]]) -> list[datetime]:
    return sorted(datetime.fromisoformat(run["expected_start_time"]) for run in runs)


def names(watch: Watch) -> list[str]:
    return sorted(run["name"] for run in watch.runs("SCHEDULED"))


def lead_of(plant: Plant) -> str:
    company = plant.rest.get(f"/company/{plant.pool}.json").json()
    return f"{company['name']} / {plant.template['name']}"


def hourly() -> str:
    """A cron each hour, whose next window does not come while we look."""
    return f"{(datetime.now(PRAGUE).minute + 30) % 60} * * * *"


def next_hours(watch: Watch, count: int) -> list[datetime]:
    first = watch.record().next_schedule
    assert first is not None
    return [first + HOUR * number for number in range(count)]


def test_the_next_three_runs_are_made_where_prefect_differs_and_withdrawn_with_a_change(
    watch: Watch, plant: Plant
) -> None:
    watch.schedule(interv="c", cron=hourly(), delay=60, timezone="Europe/Prague")
    expected = next_hours(watch, 3)
    runs = watch.runs("SCHEDULED")
    assert due_of(runs) == expected
    lead = lead_of(plant)
    assert names(watch) == [f"{lead} {due.astimezone(PRAGUE):%Y-%m-%d %H:%M}" for due in expected]
    look(watch)
    assert {run["id"] for run in watch.runs("SCHEDULED")} == {run["id"] for run in runs}
    watch.schedule(delay=120)  # one message: those of before are gone with it
    assert due_of(watch.runs("SCHEDULED")) == next_hours(watch, 3)
    assert not {run["id"] for run in runs} & {run["id"] for run in watch.runs("SCHEDULED")}
    watch.schedule(active=False)
    assert watch.runs("SCHEDULED") == []
    watch.schedule(active=True)
    made = watch.runs("SCHEDULED")
    assert len(made) == 3
    plant.rest.delete(f"/runtemplate/{plant.template['id']}.json").raise_for_status()
    watch.settle()
    for run in made:
        assert plant.prefect.get(f"/flow_runs/{run['id']}").status_code == 404


def test_no_run_is_made_more_than_a_day_ahead(watch: Watch) -> None:
    later = (datetime.now(PRAGUE) + timedelta(days=3)).day
    watch.schedule(interv="c", cron=f"30 12 {later} * *", delay=60, timezone="Europe/Prague")
    assert watch.runs("SCHEDULED") == []
    first = watch.record().next_schedule
    assert first is not None
    watch.go_to(first - timedelta(hours=23))
    look(watch)
    assert due_of(watch.runs("SCHEDULED")) == [first]


def test_a_window_takes_the_run_that_was_made_ahead(watch: Watch, plant: Plant) -> None:
    watch.schedule(interv="c", cron=hourly(), delay=60)
    (first, *others) = next_hours(watch, 3)
    ahead = {due_of([run])[0]: run for run in watch.runs("SCHEDULED")}
    watch.go_to(first + timedelta(seconds=1))
    watch.keep()
    watch.settle()
    (job,) = watch.jobs()
    assert str(job.flow_run_id) == ahead[first]["id"]
    look(watch)
    assert due_of(watch.runs("SCHEDULED")) == [first, *others, others[-1] + HOUR]


def test_the_run_of_an_opened_window_stays_until_its_job_is_bound_to_it(watch: Watch) -> None:
    watch.schedule(interv="c", cron=hourly(), delay=60)
    first = next_hours(watch, 1)[0]
    ahead = {due_of([run])[0]: run for run in watch.runs("SCHEDULED")}
    watch.go_to(first + timedelta(seconds=1))
    watch.keep()
    look(watch)  # between the opening and the hand-over
    watch.settle()
    (job,) = watch.jobs()
    assert str(job.flow_run_id) == ahead[first]["id"]


def test_services_that_go_on_looking_show_what_has_changed_since(watch: Watch) -> None:
    watch.schedule(interv="c", cron=hourly(), delay=60)
    first, *others = next_hours(watch, 3)

    async def go_on(context: EngineContext) -> None:
        outlooks = UpcomingRuns(context)
        await look_ahead(context, outlooks)
        assert await outlooks.look() == []
        watch.go_to(first + timedelta(seconds=1))
        await asyncio.to_thread(watch.keep)
        await look_ahead(context, outlooks)
        assert await outlooks.look() == []
        with context.ledger.writing(SERVICE) as session:  # as a change in its company's closed time
            freeze = {"since": others[0] - HOUR / 2, "until": others[0] + HOUR / 2}
            session.add(Freeze(begun_by="test", **freeze))
        assert await outlooks.look() == []
        watch.ahead += LOOK_AT_ALL + timedelta(seconds=1)
        await look_ahead(context, outlooks)

    watch.with_prefect(go_on)
    assert due_of(watch.runs("SCHEDULED"))[-2:] == [others[1], others[1] + HOUR]


def test_the_next_run_of_prefects_schedule_bears_our_name_and_later_ones_prefects(
    watch: Watch, plant: Plant
) -> None:
    watch.schedule(interv="c", cron=hourly(), timezone="Europe/Prague")
    (first,) = next_hours(watch, 1)
    eventually(lambda: len(watch.runs("SCHEDULED")) > 1)
    look(watch)
    runs = sorted(watch.runs("SCHEDULED"), key=lambda run: due_of([run])[0])
    lead = lead_of(plant)
    assert runs[0]["name"] == f"{lead} {first.astimezone(PRAGUE):%Y-%m-%d %H:%M}"
    assert not any(run["name"].startswith(lead) for run in runs[1:])
