"""The work queue of a run template, and which of its jobs come first where a worker is full."""

from typing import Any

from tests.support.plant_services import Watch
from tests.support.waits import eventually
from tests.support.workers import Plant


def queue_of(plant: Plant, name: str) -> dict[str, Any]:
    found = plant.prefect.get(f"/work_pools/{plant.pool}/queues/{name}")
    body: dict[str, Any] = found.json() if found.is_success else {}
    return body


def deployment(plant: Plant) -> dict[str, Any]:
    found: dict[str, Any] = plant.prefect.get(f"/deployments/{plant.deployment_id()}").json()
    return found


def test_the_queue_is_made_with_its_priority_and_waiting_runs_go_along(
    watch: Watch, plant: Plant
) -> None:
    job = plant.post_job("2049-01-01 00:00:00")
    before = plant.run_of(job)
    assert plant.flow_run(before)["work_queue_name"] == "default"

    watch.schedule(queue="night", queue_priority=7)
    assert deployment(plant)["work_queue_name"] == "night"
    assert deployment(plant)["work_pool_name"] == plant.pool
    assert queue_of(plant, "night")["priority"] == 7
    moved = eventually(lambda: (run := plant.run_of(job)) != before and run)
    assert plant.flow_run(moved)["work_queue_name"] == "night"

    watch.schedule(queue_priority=5)
    assert queue_of(plant, "night")["priority"] == 5
    watch.schedule(queue=None, queue_priority=None)
    assert deployment(plant)["work_queue_name"] == "default"
    assert queue_of(plant, "night")["priority"] == 5  # others may use it


def test_of_what_waits_for_a_full_worker_the_lowest_priority_comes_first(plant: Plant) -> None:
    def order() -> list[int]:
        return [int(line.split()[-1]) for line in plant.marked("starts")]

    other = plant.with_template("urgent", plant.pool)
    for each, members in ((plant, {"queue": "later", "queue_priority": 9}),
                          (other, {"queue": "soon", "queue_priority": 2})):  # fmt: skip
        body = {"id": each.template["id"], **members}
        plant.rest.post("/runtemplate/", json=body).raise_for_status()
    eventually(lambda: plant.rest.get("/status").json()["waiting_for_prefect"] == 0)
    with plant.worker("w1", "--limit", "1"):
        plant.until_online("w1")
        first = plant.post_job(SECONDS_TO_SLEEP=60)
        eventually(lambda: order() == [first])
        later = [plant.post_job() for _ in range(3)]
        soon = [other.post_job() for _ in range(2)]
        for job in (*later, *soon):
            plant.run_of(job)
        plant.rest.post("/job/", json={"id": first, "state": "cancelled"}).raise_for_status()
        for job in (*later, *soon):
            assert plant.ended(job)["state"] == "succeeded"
    started = order()
    assert started[0] == first
    assert set(started[1:3]) == set(soon), (later, soon)
