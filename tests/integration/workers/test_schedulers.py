"""Who creates the runs of windows is changed: no window is missed, none runs twice."""

import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from jobauto_prefect.engine.context import EngineContext
from jobauto_prefect.engine.sync import deployments
from jobauto_prefect.engine.sync.deployment_plans import desired_deployment
from jobauto_prefect.engine.sync.template_deployments import look_ahead
from jobauto_prefect.engine.sync.upcoming_runs import UpcomingRuns
from jobauto_prefect.jobs.windows.schedulers import follow_scheduler
from jobauto_prefect.ledger.audit.trail import SERVICE
from jobauto_prefect.ledger.records import RunTemplate
from jobauto_prefect.ledger.store import ReadingSession
from jobauto_prefect.settings import Scheduler
from tests.support.databases import database
from tests.support.installation import Installation, run_installation
from tests.support.ledger_rows import fetch_all
from tests.support.plant_services import Watch
from tests.support.waits import eventually
from tests.support.workers import Plant

SECOND = timedelta(seconds=1)
HOUR = timedelta(hours=1)


def follow(plant: Plant, scheduler: Scheduler) -> None:
    """What services with this setting do first."""
    settings = plant.settings.model_copy(update={"scheduler": scheduler})
    with plant.ledger.writing(SERVICE) as session:
        follow_scheduler(session, settings)


def hourly() -> str:
    """A cron each hour, whose next window does not come while we look."""
    return f"{(datetime.now(UTC).minute + 30) % 60} * * * *"


def waiting(watch: Watch, *, auto_scheduled: bool) -> dict[datetime, dict[str, Any]]:
    """The runs that wait, those of Prefect's scheduler or the others, by when they are due."""
    return {
        datetime.fromisoformat(str(run["expected_start_time"])): run
        for run in watch.runs("SCHEDULED")
        if run["auto_scheduled"] is auto_scheduled
    }


def deployment(plant: Plant) -> dict[str, Any]:
    found: dict[str, Any] = plant.prefect.get(f"/deployments/{plant.deployment_id()}").json()
    return found


def test_the_ledger_takes_the_schedule_over_and_gives_it_back(watch: Watch, plant: Plant) -> None:
    watch.schedule(interv="c", cron=hourly())
    first = watch.record().next_schedule
    assert first is not None
    eventually(lambda: first in waiting(watch, auto_scheduled=True))

    follow(plant, Scheduler.LEDGER)
    watch.settle()
    there = deployment(plant)
    assert there["schedules"] == []
    assert f"**Schedule:** `{watch.record().cron}`, UTC. The deployment has" in there["description"]
    assert "jobauto creates the runs of all run templates" in there["description"]
    ours = waiting(watch, auto_scheduled=False)
    assert sorted(ours) == [first, first + HOUR, first + 2 * HOUR]
    watch.go_to(first + SECOND)
    watch.keep()
    watch.settle()
    (job,) = watch.jobs()
    assert str(job.flow_run_id) == ours[first]["id"]

    follow(plant, Scheduler.PREFECT)
    watch.settle()
    there = deployment(plant)
    assert there["schedules"][0]["schedule"]["cron"] == watch.record().cron
    assert "**Schedule:**" not in there["description"]
    second = first + HOUR
    eventually(lambda: second in waiting(watch, auto_scheduled=True))
    assert [*waiting(watch, auto_scheduled=False)] == [first]  # which has its job
    watch.go_to(second + SECOND)
    watch.keep()
    watch.ahead += timedelta(seconds=11)
    watch.look()
    its_run = waiting(watch, auto_scheduled=True)[second]["id"]
    assert [str(job.flow_run_id) for job in watch.jobs()] == [ours[first]["id"], its_run]


def test_what_prefects_scheduler_still_adds_to_a_deployment_without_schedule_is_deleted(
    watch: Watch, plant: Plant
) -> None:
    watch.schedule(interv="c", cron=hourly())
    eventually(lambda: len(waiting(watch, auto_scheduled=True)) > 1)
    with plant.ledger.writing(SERVICE) as session:  # as if it had been applied without one
        session.get_one(RunTemplate, plant.template["id"]).applied_schedule = False

    async def look(context: EngineContext) -> None:
        await look_ahead(context, UpcomingRuns(context))

    watch.with_prefect(look)
    assert len(waiting(watch, auto_scheduled=False)) == 3
    assert waiting(watch, auto_scheduled=True) == {}


@pytest.mark.parametrize("to", [Scheduler.LEDGER, Scheduler.PREFECT])
def test_a_window_between_what_prefect_got_and_what_the_ledger_notes_starts_once(
    watch: Watch, plant: Plant, to: Scheduler
) -> None:
    if to is Scheduler.PREFECT:
        follow(plant, Scheduler.LEDGER)
    watch.schedule(interv="c", cron=hourly())
    follow(plant, to)

    def plan(session: ReadingSession) -> Any:
        template = session.get_one(RunTemplate, plant.template["id"])
        ids = deployments.AppliedIds(template.app.flow_id, template.deployment_id)
        return desired_deployment(session, template, plant.settings), ids

    async def apply(context: EngineContext) -> None:
        await deployments.apply(context.prefect, *await context.read(plan))

    watch.with_prefect(apply)  # and then its process is killed
    assert bool(deployment(plant)["schedules"]) is (to is Scheduler.PREFECT)
    due = watch.record().next_schedule
    assert due is not None
    watch.go_to(due + SECOND)
    watch.keep()
    watch.ahead += timedelta(seconds=11)
    watch.look()
    watch.settle()
    assert watch.record().applied_schedule is (to is Scheduler.PREFECT)
    (job,) = watch.jobs()
    assert str(job.flow_run_id) in {run["id"] for run in watch.runs("SCHEDULED")}


@pytest.fixture
def town(migrate_once: Callable[[str], str], tmp_path: Path) -> Iterator[Installation]:
    """An installation on PostgreSQL whose windows Prefect's scheduler makes runs for."""
    with (
        database("postgresql", tmp_path, migrate_once("postgresql")) as ledger_url,
        run_installation(ledger_url, tmp_path, 10, {"JOBAUTO_SCHEDULER": "prefect"}) as made,
    ):
        yield made


@pytest.mark.soak
@pytest.mark.parametrize("second", [57, 59.5])
def test_a_change_of_scheduler_whose_services_are_killed_costs_no_window_and_doubles_none(
    town: Installation, second: float
) -> None:
    """Each way, so many seconds after a minute's start, with the next one's windows at hand."""
    for number in range(12):
        town.add_template(f"minutely {number}", interv="i", deadline_offset="+1h")
    town.until_started(12)
    for scheduler in ("ledger", "prefect"):
        time.sleep((second - datetime.now(UTC).timestamp()) % 60)
        for kills in (True, False):
            for name in ("services-1", "services-2"):
                town.parts[name].replace(JOBAUTO_SCHEDULER=scheduler)
            time.sleep(1)
            if kills:
                town.parts["services-1"].kill()
                town.parts["services-2"].kill()
        eventually(lambda: _have_followed(town, given=scheduler == "prefect"), 60)  # noqa: B023
        town.until_started(24)
    town.switch_off()
    town.until_all_tasks_ended()
    found = town.match()
    assert (found.missed, found.extra, town.overlaps()) == ([], [], [])
    assert found.states["fulfilled"] >= 60


def _have_followed(town: Installation, *, given: bool) -> bool:
    of = fetch_all(town.ledger, RunTemplate)
    return all(template.applied_schedule is given for template in of)
