"""Prefect goes away while jobs run, and comes back."""

import asyncio
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from jobauto_prefect.engine.prefect_server.process import prefect_command, wait_ready
from jobauto_prefect.settings import Settings
from tests.support.ports import free_port
from tests.support.prefect_database import provide_prefect_database
from tests.support.prefect_server import STARTS_WITHIN
from tests.support.processes import clean_environment, running
from tests.support.waits import eventually
from tests.support.workers import Plant


class OwnPrefect:
    """A Prefect server that can be stopped and started again with what it knows."""

    def __init__(self, home: Path) -> None:
        port = free_port()
        self.url = f"http://127.0.0.1:{port}/api"
        self._settings = Settings(home=home, prefect_port=port, prefect_api_url=self.url)
        self._stack = ExitStack()

    def start(self) -> None:
        provide_prefect_database(self._settings.home)
        argv, environment = prefect_command(self._settings, clean_environment())
        log = self._settings.home / "prefect.log"
        self._stack.enter_context(running(argv, environment, log))
        asyncio.run(wait_ready(self.url, STARTS_WITHIN))

    def stop(self) -> None:
        self._stack.close()


@pytest.fixture(scope="module")
def own_prefect(tmp_path_factory: pytest.TempPathFactory) -> Iterator[OwnPrefect]:
    prefect = OwnPrefect(tmp_path_factory.mktemp("own-prefect"))
    prefect.start()
    yield prefect
    prefect.stop()


@pytest.fixture(scope="module")
def prefect_server(own_prefect: OwnPrefect) -> str:
    return own_prefect.url


def test_a_prefect_that_is_away_costs_no_job(plant: Plant, own_prefect: OwnPrefect) -> None:
    with plant.worker(PREFECT_CLIENT_MAX_RETRIES="0") as worker:
        running_job = plant.post_job(SECONDS_TO_SLEEP=2, EXIT_WITH=7)
        eventually(lambda: plant.marked("pids"))
        flow_run = plant.run_of(running_job)
        own_prefect.stop()
        assert plant.ended(running_job)["exitcode"] == 7
        later = plant.post_job(EXIT_WITH=4)
        assert plant.job(later)["state"] == "scheduled"
        own_prefect.start()
        assert plant.run_in(flow_run, "FAILED")["state"]["message"].startswith("exit code 7")
        third = plant.post_job()  # its message brings the one along that was put off
        assert plant.ended(later)["exitcode"] == 4
        plant.ended(third)
        plant.run_in(plant.run_of(later), "COMPLETED")
        assert worker.poll() is None
    assert len(plant.marked("starts")) == 3
    assert plant.marked("overlaps") == []


def test_a_worker_that_starts_before_prefect_serves_once_it_answers(
    plant: Plant, own_prefect: OwnPrefect
) -> None:
    """And does not wait for its next heartbeat, which is in an hour."""
    own_prefect.stop()
    with plant.starting_worker("w1", PREFECT_WORKER_HEARTBEAT_SECONDS="3600") as worker:
        eventually(lambda: plant.rest.get("/workers.json").json())
        own_prefect.start()
        plant.until_online("w1")
        plant.ended(plant.post_job())
        assert worker.poll() is None
