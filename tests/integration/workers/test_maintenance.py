"""Real workers while it is frozen, and after."""

from tests.support.waits import eventually
from tests.support.workers import Plant


def test_what_waits_says_why_what_runs_ends_and_the_end_wakes_the_others(plant: Plant) -> None:
    with plant.worker():
        plant.until_online("w1")
        before = plant.post_job(SECONDS_TO_SLEEP=3)
        eventually(lambda: plant.marked("starts"))
        plant.rest.put("/maintenance.json", json={"reason": "new disk"}).raise_for_status()
        waiting = plant.post_job()
        clicked = plant.click_run()
        told = "maintenance: new disk"
        eventually(lambda: str(plant.job(waiting)["message"]).startswith(told))
        eventually(lambda: plant.jobs_of(clicked))  # its claim made its job
        assert plant.job(waiting)["waits_for"].startswith(told)
        run = plant.flow_run(plant.run_of(waiting))
        assert run["state_type"] == "SCHEDULED"
        assert plant.ended(before)["state"] == "succeeded"
        assert len(plant.marked("starts")) == 1

        plant.rest.delete("/maintenance.json").raise_for_status()
        assert plant.ended(waiting)["state"] == "succeeded"
        plant.run_in(clicked, "COMPLETED")
        assert len(plant.marked("starts")) == 3
