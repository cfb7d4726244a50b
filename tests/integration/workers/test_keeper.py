"""The window keeper and Prefect: its scheduler's runs, its pauses, its events."""

import asyncio
from datetime import UTC, datetime, timedelta

import pytest

from jobauto_prefect.engine.api import PrefectApi
from jobauto_prefect.engine.context import EngineContext
from jobauto_prefect.engine.outbox_worker import OutboxWorker
from jobauto_prefect.engine.services.window_scheduler import MissingRunMonitor, WindowScheduler
from jobauto_prefect.engine.sync.drift_monitor import DriftMonitor
from jobauto_prefect.ledger.records import Job, RunTemplate, Task
from tests.support.waits import eventually
from tests.support.workers import Plant

SECOND = timedelta(seconds=1)
MINUTE = timedelta(minutes=1)


class Watch:
    """Keeper, lookout and outbox of a plant, worked by hand at a time the test sets."""

    def __init__(self, plant: Plant) -> None:
        self._plant = plant
        self.ahead = timedelta()
        plant.ledger.clock = lambda: datetime.now(UTC) + self.ahead

    def go_to(self, instant: datetime) -> None:
        """It is so late now; the clock goes on from there."""
        self.ahead = instant - datetime.now(UTC)

    def schedule(self, **members: object) -> None:
        """Give the template a schedule; Prefect knows it."""
        body = {"id": self._plant.template["id"], **members}
        self._plant.rest.post("/runtemplate/", json=body).raise_for_status()
        self.settle()

    def settle(self) -> None:
        """Return when Prefect has been told everything."""

        async def carry(context: EngineContext) -> None:
            await OutboxWorker(context).handle_all()

        self.with_prefect(carry)
        eventually(lambda: self._plant.rest.get("/status").json()["waiting_for_prefect"] == 0)

    def keep(self) -> None:
        """The keeper looks."""
        WindowScheduler(self._plant.ledger).tick()

    def look(self) -> None:
        """The lookout looks."""

        async def look(context: EngineContext) -> None:
            await MissingRunMonitor(context).look()

        self.with_prefect(look)

    def correct(self) -> None:
        """The drift monitor looks."""

        async def check(context: EngineContext) -> None:
            await DriftMonitor(context).check_next()

        self.with_prefect(check)

    def with_prefect(self, work: object) -> None:
        """Let something work that speaks with Prefect."""

        async def run() -> None:
            async with PrefectApi(self._plant.settings.prefect_api_url) as prefect:
                context = EngineContext(self._plant.ledger, prefect, self._plant.settings)
                await work(context)  # type: ignore[operator]

        asyncio.run(run())

    def record(self) -> RunTemplate:
        with self._plant.ledger.reading() as session:
            return session.get_one(RunTemplate, self._plant.template["id"])

    def tasks(self) -> list[Task]:
        with self._plant.ledger.reading() as session:
            return list(session.query(Task).order_by(Task.window_start))

    def jobs(self) -> list[Job]:
        with self._plant.ledger.reading() as session:
            return list(session.query(Job).order_by(Job.id))

    def runs(self, *states: str) -> list[dict[str, object]]:
        """The deployment's flow runs in these states."""
        query = {
            "deployments": {"id": {"any_": [self._plant.deployment_id()]}},
            "flow_runs": {"state": {"type": {"any_": list(states)}}},
        }
        found: list[dict[str, object]] = self._plant.prefect.post(
            "/flow_runs/filter", json=query
        ).json()
        return found


@pytest.fixture
def watch(plant: Plant) -> Watch:
    return Watch(plant)


def test_a_window_takes_the_run_of_prefects_scheduler_or_gets_one(
    watch: Watch, plant: Plant
) -> None:
    watch.schedule(interv="i")
    eventually(lambda: watch.runs("SCHEDULED"))
    first = watch.record().next_schedule
    assert first is not None
    watch.go_to(first + SECOND)  # and not to the end of a window, which could pass meanwhile
    watch.keep()
    (job,) = watch.jobs()
    assert job.flow_run_id is None
    watch.ahead += timedelta(seconds=11)
    watch.look()
    bound = watch.jobs()[0].flow_run_id
    assert str(bound) in {run["id"] for run in watch.runs("SCHEDULED")}
    watch.go_to(first + 300 * MINUTE + SECOND)  # beyond what Prefect has scheduled
    watch.keep()
    newest = watch.jobs()[-1]
    watch.ahead += timedelta(seconds=111)
    watch.look()
    watch.settle()
    made = next(job for job in watch.jobs() if job.id == newest.id).flow_run_id
    run = plant.flow_run(str(made))
    assert run["labels"]["jobauto.task"] == newest.task_id
    assert f"(task {newest.task_id}, attempt 1)" in run["name"]


@pytest.mark.soak
def test_a_pause_in_prefect_becomes_the_record_s(watch: Watch, plant: Plant) -> None:
    watch.schedule(interv="i", delay=5)
    path = f"/deployments/{plant.deployment_id()}"
    plant.prefect.post(f"{path}/pause_deployment").raise_for_status()
    assert plant.prefect.get(path).json()["paused"] is True
    watch.ahead = 2 * MINUTE
    watch.keep()
    assert watch.jobs()  # the window came due before anybody looked
    watch.settle()  # and before its run was made
    assert watch.record().active is False
    newest = watch.tasks()[-1]
    assert (newest.state, newest.reason) == ("missed", "inactive")
    assert watch.runs("SCHEDULED") == []
    entries = plant.rest.get("/auditlog.json", params={"entity_type": "RunTemplate"}).json()
    assert "ui" in {entry["door"] for entry in entries.values()}
    watch.settle()
    plant.prefect.post(f"{path}/resume_deployment").raise_for_status()
    watch.correct()
    assert watch.record().active is True
    watch.settle()
    assert plant.prefect.get(path).json()["paused"] is False


def test_switching_off_leaves_no_scheduled_runs(watch: Watch, plant: Plant) -> None:
    watch.schedule(interv="i")
    eventually(lambda: watch.runs("SCHEDULED"))
    job = plant.post_job("2049-01-01 00:00:00")
    plant.run_of(job)
    watch.schedule(active=False)
    eventually(lambda: watch.runs("SCHEDULED") == [])
    assert plant.job(job)["state"] == "cancelled"


def test_people_s_automations_hear_of_missed_windows(watch: Watch, plant: Plant) -> None:
    watch.schedule(interv="h")
    watch.ahead = 200 * MINUTE
    watch.keep()
    watch.settle()
    missed = [task for task in watch.tasks() if task.state == "missed"]
    until = (datetime.now(UTC) + 201 * MINUTE).isoformat()  # other tests go further
    wanted = {"filter": {"event": {"name": ["jobauto.task.missed"]}, "occurred": {"until": until}}}

    def told() -> bool:
        found = plant.prefect.post("/events/filter", json=wanted).json()["events"]
        said = {
            event["payload"]["task"] for event in found if event["payload"]["company"] == plant.pool
        }
        return said == {task.id for task in missed}

    assert missed
    eventually(told)
