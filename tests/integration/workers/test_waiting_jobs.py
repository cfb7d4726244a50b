"""`jobauto run --wait` as a real process says what its job waits for, and ends with its result."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from subprocess import Popen

from tests.support.paths import JOBAUTO
from tests.support.plant_services import services
from tests.support.processes import running
from tests.support.waits import eventually
from tests.support.workers import Plant


@contextmanager
def waiting_run(plant: Plant, name: str, *options: str) -> Iterator[tuple[Popen[bytes], Path]]:
    """The process, and what it says."""
    environment = plant.environment(
        JOBAUTO_HOME=str(plant.home),
        JOBAUTO_DATABASE_URL=plant.settings.ledger_url,
        JOBAUTO_POOL=plant.pool,
        JOBAUTO_PREFECT_API_URL=plant.settings.prefect_api_url,
        JOBAUTO_LEASE_SECONDS=str(plant.settings.lease_seconds),
        COLUMNS="1000",
    )
    argv = [JOBAUTO, "run", f"{plant.pool}/daily", "--wait", "--env", f"MARKS={plant.marks}"]
    log = plant.home / f"{name}.log"
    with running([*argv, *options], environment, log) as process:
        yield process, log


def pause(plant: Plant, paused: bool) -> None:
    path = f"/work_pools/{plant.pool}"
    plant.prefect.patch(path, json={"is_paused": paused}).raise_for_status()


def test_a_run_that_is_waited_for_says_what_it_waits_for(plant: Plant) -> None:
    with services(plant), waiting_run(plant, "first") as (first, log):
        eventually(lambda: f"no worker is alive in work pool {plant.pool}" in log.read_text())
        pause(plant, True)
        eventually(lambda: f"work pool {plant.pool} is paused in Prefect" in log.read_text())
        pause(plant, False)
        with plant.worker("w1", "--limit", "1"):
            assert first.wait(90) == 0
            assert "succeeded" in log.read_text()

            long = plant.post_job(SECONDS_TO_SLEEP=60)
            eventually(lambda: plant.job(long)["state"] == "running")
            with waiting_run(plant, "second", "--env", "EXIT_WITH=7") as (second, told):
                full = f"the workers of work pool {plant.pool} are full: they run 1 job"
                eventually(lambda: full in told.read_text())
                body = {"id": long, "state": "cancelled"}
                plant.rest.post("/job/", json=body).raise_for_status()
                assert second.wait(90) == 1
                assert "The bank is closed" in told.read_text()
