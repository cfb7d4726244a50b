"""Why a job that is due does not start."""

from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import uuid4

from jobauto_prefect.jobs.waits import WaitContext, wait_reason
from jobauto_prefect.ledger.jobs.waits import LivingWorker
from jobauto_prefect.ledger.records import Job
from jobauto_prefect.ledger.service_status import PrefectStatus

NOON = datetime(2026, 5, 4, 12, tzinfo=UTC)
DUE = NOON - timedelta(hours=1)
WAITING = Job(id=7, schedule=DUE, flow_run_id=uuid4(), message=None, executor="Native")
WITHOUT_RUN = Job(id=8, schedule=DUE, flow_run_id=None, message=None, executor="Native")
BANK = "the bank is not available yet"
HELD_UP = Job(id=9, schedule=DUE, flow_run_id=uuid4(), message=BANK, executor="Native")

IDLE = LivingWorker("idle", running=1, limit=2)
FULL = LivingWorker("full", running=2, limit=2)
UNLIMITED = LivingWorker("unlimited", running=9)
WITHOUT_DISK = LivingWorker("broken", limit=2, hindrances={"disk": "its disk is full"})
WITHOUT_PODMAN = LivingWorker("half", limit=2, hindrances={"Podman": "Podman does not answer"})


def reason(job: Job, *workers: LivingWorker, **around: Any) -> str | None:
    """What a job of the work pool `main` waits for, where these workers are alive."""
    alive = {"main": workers} if workers else {}
    return wait_reason(job, "main", WaitContext(workers=alive, **around))


def test_a_job_says_the_first_thing_that_is_in_its_way() -> None:
    away = PrefectStatus(away="Prefect does not answer", paused=["main"])
    assert "Prefect does not answer" in (reason(WAITING, prefect=away) or "")
    paused = PrefectStatus(paused=["main"])
    assert reason(WAITING, IDLE, prefect=paused) == "work pool main is paused in Prefect"
    assert "no worker is alive" in (reason(WAITING, prefect=PrefectStatus(paused=["x"])) or "")
    assert reason(HELD_UP, FULL) == BANK
    refused = reason(WITHOUT_RUN, IDLE, run_errors={8: "Prefect said no"})
    assert refused == "its flow run can't be created yet: Prefect said no"


def test_of_workers_of_prefects_own_kinds_nothing_is_said() -> None:
    foreign = PrefectStatus(foreign=["main"])
    assert reason(WAITING, prefect=foreign) is None
    assert reason(HELD_UP, prefect=foreign) == BANK


def test_a_job_waits_for_workers_that_are_all_full() -> None:
    full = "the workers of work pool main are full: they run 2 jobs"
    assert reason(WAITING, FULL) == full
    assert reason(WAITING, FULL, WITHOUT_DISK) == full
    assert reason(WAITING, FULL, IDLE) is None
    assert reason(WAITING, FULL, UNLIMITED) is None


def test_a_job_waits_for_workers_that_can_not_start_it() -> None:
    assert reason(WAITING, WITHOUT_DISK) == (
        "no worker of work pool main can start it: broken: its disk is full"
    )
    contained = Job(id=10, schedule=DUE, flow_run_id=uuid4(), message=None, executor="Podman")
    assert reason(contained, WITHOUT_PODMAN, WITHOUT_DISK) == (
        "no worker of work pool main can start it: half: Podman does not answer;"
        " broken: its disk is full"
    )
    assert reason(contained, WITHOUT_PODMAN, IDLE) is None
    assert reason(WAITING, WITHOUT_PODMAN) is None


def test_a_job_that_may_start_any_moment_waits_for_nothing() -> None:
    for job in (WAITING, WITHOUT_RUN):
        assert reason(job, IDLE, run_errors={8: None}) is None
