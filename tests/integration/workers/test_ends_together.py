"""A worker that dies while Prefect is told of many ends at once."""

from collections import Counter
from datetime import UTC, datetime, timedelta
from urllib.parse import urlsplit
from uuid import uuid4

import pytest

from jobauto_prefect.engine.services.reconciler import confirm_ends
from tests.support.breakable import LossyRelay
from tests.support.plant_services import Watch
from tests.support.waits import eventually
from tests.support.workers import Plant

SET, SET_ALL = "/set_state", "/bulk_set_state"
JOBS = 8


@pytest.mark.parametrize("arrives", [True, False], ids=["answer lost", "call lost"])
def test_each_end_is_one_event_whatever_prefect_had_heard(
    plant: Plant, watch: Watch, arrives: bool
) -> None:
    port = urlsplit(plant.settings.prefect_api_url).port or 0
    with (
        LossyRelay(port) as relay,
        plant.worker(
            "w1", "--limit", str(JOBS), PREFECT_API_URL=f"http://127.0.0.1:{relay.port}/api"
        ) as worker,
    ):
        end = plant.marks / "end"
        end.unlink(missing_ok=True)
        jobs = [plant.post_job(QUIET="yes", ENDS_WITH=str(end)) for _ in range(JOBS)]
        runs = [plant.run_of(job) for job in jobs]
        for run in runs:
            plant.run_in(run, "RUNNING")
        relay.hold(SET)
        end.touch()
        for job in jobs:
            assert plant.ended(job)["state"] == "succeeded"
        relay.lose(SET_ALL, 10**6)
        relay.go_on()
        if not arrives:
            relay.hold(SET_ALL)
        eventually(lambda: relay.lost if arrives else relay.count(SET_ALL))
        worker.kill()
        relay.cut()
        relay.go_on()
    watch.ahead = timedelta(minutes=1)
    watch.with_prefect(confirm_ends)
    for run in runs:
        plant.run_in(run, "COMPLETED")
    assert completed_events(plant, runs) == dict.fromkeys(runs, 1)


def completed_events(plant: Plant, runs: list[str]) -> dict[str, int]:
    """Run -> how many events say that it is completed, once all that were sent are kept."""
    last = f"tests.{uuid4()}"
    sent = {"event": last, "resource": {"prefect.resource.id": last}, "id": str(uuid4())}
    sent |= {"occurred": datetime.now(UTC).isoformat()}
    plant.prefect.post("/events", json=[sent]).raise_for_status()
    eventually(lambda: events(plant, last, [last]))
    found = events(plant, "prefect.flow-run.Completed", [f"prefect.flow-run.{run}" for run in runs])
    counted = Counter(found)
    return {run: counted[f"prefect.flow-run.{run}"] for run in runs}


def events(plant: Plant, name: str, ids: list[str]) -> list[str]:
    """What the events of a name, of some resources, are about."""
    wanted = {"event": {"name": [name]}, "resource": {"id": ids}}
    answer = plant.prefect.post("/events/filter", json={"filter": wanted, "limit": 50})
    return [
        event["resource"]["prefect.resource.id"]
        for event in answer.raise_for_status().json()["events"]
    ]
