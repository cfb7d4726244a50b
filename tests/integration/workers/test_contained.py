"""Containers from the run template to Prefect's story, by a worker process."""

import os
import signal
from collections.abc import Iterator

import pytest

from tests.support.container_engines import EXECUTOR_SETTINGS, IMAGE, Engine, podman
from tests.support.documents import smallest
from tests.support.secrets import SECRET
from tests.support.waits import eventually
from tests.support.workers import Plant

SCRIPT = (
    'echo "hello from $COMPANY_CODE: $PASSWORD"; touch runs; [ "$HOLD" = no ] || sleep 60; exit 7'
)


@pytest.fixture(scope="module")
def engine() -> Iterator[Engine]:
    with podman() as running:
        yield running


@pytest.fixture
def contained(plant: Plant) -> Plant:
    """A plant whose template runs a script of its own in a container of Podman."""
    definition = smallest(
        name="contained",
        executable="sh",
        cmdparamsTemplate="-c ${SCRIPT}",
        ociimage=IMAGE,
        environment={
            "SCRIPT": {"type": "string", "defval": SCRIPT},
            "HOLD": {"type": "string", "defval": "no"},
            "PASSWORD": {"type": "password"},
            "COMPANY_CODE": {"type": "string", "defval": "nobody"},
        },
    )
    return plant.with_application(
        definition,
        executor="Podman",
        executor_settings=EXECUTOR_SETTINGS,
        max_attempts=1,
        env={"PASSWORD": SECRET},
    )


def held(plant: Plant, engine: Engine) -> int:
    """A job whose container runs."""
    job = plant.post_job(HOLD="yes")
    eventually(lambda: [one for one in engine.containers() if one["State"] == "running"])
    return job


def test_a_container_from_run_template_to_prefect(contained: Plant, engine: Engine) -> None:
    plant = contained
    plant.deployment_id()
    with plant.worker(JOBAUTO_PODMAN_URL=engine.url) as worker:
        job = plant.ended(plant.post_job())
        assert (job["exitcode"], job["severity"], job["executor"]) == (7, "error", "Podman")
        assert job["stdout"].strip() == "hello from nobody: ********"
        assert "exit code 7" in plant.run_in(plant.run_of(job["id"]), "FAILED")["state"]["message"]

        cancelled = held(plant, engine)
        plant.set_state(plant.run_of(cancelled), "CANCELLING")
        assert plant.ended(cancelled)["state"] == "cancelled"
        assert engine.containers() == []

        lost = held(plant, engine)
        os.kill(worker.pid, signal.SIGKILL)
        assert plant.ended(lost)["message"] == "lost: the worker died"
        assert engine.containers() == []
