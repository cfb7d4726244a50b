"""The window scheduler and Prefect: its scheduler's runs, its pauses, its events."""

from datetime import UTC, datetime, timedelta

import pytest

from tests.support.plant_services import Watch
from tests.support.waits import eventually
from tests.support.workers import Plant

SECOND = timedelta(seconds=1)
MINUTE = timedelta(minutes=1)
HOUR = timedelta(hours=1)


def test_a_window_takes_the_run_of_prefects_scheduler_or_gets_one(
    watch: Watch, plant: Plant
) -> None:
    minute = (datetime.now(UTC).minute + 30) % 60  # no window comes due meanwhile
    watch.schedule(interv="c", cron=f"{minute} * * * *")
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
    watch.go_to(first + 300 * HOUR + SECOND)  # beyond what Prefect has scheduled
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
        notified = {
            event["payload"]["task"] for event in found if event["payload"]["company"] == plant.pool
        }
        return notified == {task.id for task in missed}

    assert missed
    eventually(told)
