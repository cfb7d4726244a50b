"""Jobs whose worker froze, forgot them, died with its machine, or can't work.

Their templates let jobs go on without contact, for nine hours: what is decided here is decided by
a worker's word, or by somebody's.
"""

import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from subprocess import Popen
from typing import Any
from uuid import UUID

import httpx
import pytest

from jobauto_prefect.jobs.claims import decision
from jobauto_prefect.jobs.claims.claim import OpenClaim
from jobauto_prefect.runtime.protocol import ClaimAnswer
from tests.support.breakable import Relay
from tests.support.claims import claim_of, granted
from tests.support.container_engines import IMAGE, podman
from tests.support.paths import JOBAUTO
from tests.support.plant_services import services
from tests.support.processes import running
from tests.support.servers import client
from tests.support.waits import eventually
from tests.support.workers import Plant

UNSHARE = shutil.which("unshare")


def retrying(plant: Plant, **members: Any) -> None:
    body = {"id": plant.template["id"], "max_attempts": 5, "on_contact_lost": "finish", **members}
    plant.rest.post("/runtemplate/", json=body).raise_for_status()


def worker_record(plant: Plant, name: str = "w1") -> dict[str, Any]:
    found: dict[str, Any] = plant.rest.get("/workers.json").raise_for_status().json()[name]
    return found


def attempts(plant: Plant) -> list[dict[str, Any]]:
    """All jobs, the first one first."""
    found = plant.rest.get("/jobs.json", params={"order": "id"}).raise_for_status().json()
    return sorted(found.values(), key=lambda job: int(job["id"]))


def last_attempt(plant: Plant, state: str) -> dict[str, Any]:
    """The newest job, once it is in that state."""

    def there() -> dict[str, Any] | None:
        job = attempts(plant)[-1]
        return job if job["state"] == state else None

    found: dict[str, Any] = eventually(there)
    return found


def test_a_grant_its_worker_never_heard_of_is_tried_again_by_that_worker(plant: Plant) -> None:
    retrying(plant)
    with plant.worker():
        instance = worker_record(plant)["instance"]
        forgotten = claim_of(
            deployment_id=plant.deployment_id(),
            instance=instance,
            parameters={"MARKS": str(plant.marks)},
        )
        with client(f"{plant.settings.url}/internal/v1", plant.token) as internal:
            granted(internal, forgotten)
        job = last_attempt(plant, "succeeded")
    first = attempts(plant)[0]
    assert (first["state"], job["attempt"]) == ("lost", 2)
    assert "has no process for it" in first["message"]
    assert len(plant.marked("starts")) == 1


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[UUID]:
    """The claims the facade was asked, in their order."""
    found: list[UUID] = []
    decide = decision.decide_claim

    def note(claim: OpenClaim) -> ClaimAnswer:
        found.append(claim.asked.claim_id)
        return decide(claim)

    monkeypatch.setattr(decision, "decide_claim", note)
    return found


@contextmanager
def frozen_after_grant(plant: Plant) -> Iterator[tuple[int, Popen[bytes]]]:
    """A job that runs by the ledger, and its worker, which was stopped before it heard of it."""
    port = httpx.URL(plant.settings.url).port
    assert port is not None
    with Relay(port) as relay, plant.worker(JOBAUTO_URL=f"http://127.0.0.1:{relay.port}") as frozen:
        relay.hang_answers()
        job = plant.post_job(SECONDS_TO_SLEEP=1)
        eventually(lambda: plant.job(job)["state"] == "running")
        frozen.send_signal(signal.SIGSTOP)
        relay.mend()
        yield job, frozen


@pytest.mark.parametrize("is_shown", [False, True], ids=["at once", "once Prefect shows it"])
def test_a_worker_frozen_between_grant_and_process_leaves_its_job_to_one_process(
    plant: Plant, asked: list[UUID], *, is_shown: bool
) -> None:
    retrying(plant)
    with services(plant), frozen_after_grant(plant) as (job, frozen):
        run = plant.run_of(job)
        eventually(lambda: plant.job(job)["state"] == "lost")
        if is_shown:
            plant.run_in(run, "CRASHED")
        frozen.send_signal(signal.SIGCONT)
        last_attempt(plant, "succeeded")
        plant.until_gone()
    assert asked.count(asked[0]) > 1
    assert plant.marked("overlaps") == []
    assert len(plant.marked("starts")) == 1


def test_a_worker_frozen_for_half_a_lease_asks_again_before_it_starts_its_process(
    plant: Plant, asked: list[UUID]
) -> None:
    retrying(plant)
    with frozen_after_grant(plant) as (job, frozen):
        time.sleep(plant.settings.lease_seconds)
        frozen.send_signal(signal.SIGCONT)
        assert plant.ended(job)["state"] == "succeeded"
    assert asked.count(asked[0]) > 1
    assert len(plant.marked("starts")) == 1


def test_a_machine_that_is_gone_for_good_is_declared_lost(plant: Plant) -> None:
    retrying(plant)
    with plant.worker() as gone:
        first = plant.post_job(SECONDS_TO_SLEEP=60)
        eventually(lambda: plant.marked("starts"))
        # The machine: worker, watchdog and jobs at once; nobody is left to tell.
        gone.send_signal(signal.SIGSTOP)
        _signal(_descendants(gone.pid), signal.SIGKILL)
        gone.kill()
    plant.until_gone()
    eventually(lambda: worker_record(plant)["state"] == "silent")
    assert plant.job(first)["state"] == "running"
    assert "jobauto worker lost 'w1'" in _jobauto(plant, "doctor")
    output = _spoken(plant, "worker", "lost", "w1")
    assert f"({first})" in output
    retried = attempts(plant)[-1]
    assert (retried["attempt"], retried["state"]) == (2, "scheduled")
    assert "lost" in _spoken(plant, "worker", "list")
    body = {"id": retried["id"], "state": "cancelled"}
    plant.rest.post("/job/", json=body).raise_for_status()


def test_a_machine_that_stood_still_and_was_declared_lost_ends_what_it_runs(plant: Plant) -> None:
    retrying(plant)
    with plant.worker() as still:
        first = plant.post_job(SECONDS_TO_SLEEP=60)
        eventually(lambda: plant.marked("starts"))
        _signal([still.pid, *_descendants(still.pid)], signal.SIGSTOP)
        eventually(lambda: worker_record(plant)["state"] == "silent")
        _spoken(plant, "worker", "lost", "w1")
        retried = attempts(plant)[-1]["id"]
        body = {"id": retried, "state": "cancelled"}
        plant.rest.post("/job/", json=body).raise_for_status()
        _signal([*_descendants(still.pid), still.pid], signal.SIGCONT)
        plant.until_gone()
        assert still.wait(60) != 0
    assert "another one has its name, or it was declared lost" in plant.log_of()
    assert plant.job(first)["state"] == "lost"
    assert len(plant.marked("starts")) == 1


def _signal(pids: list[int], number: signal.Signals) -> None:
    for pid in pids:
        with suppress(ProcessLookupError):  # some are short
            os.kill(pid, number)


def _descendants(pid: int) -> list[int]:
    listed = subprocess.run(
        ["ps", "-o", "pid=", "--ppid", str(pid)], capture_output=True, text=True, check=False
    )
    children = [int(word) for word in listed.stdout.split()]
    return children + [below for child in children for below in _descendants(child)]


def _spoken(plant: Plant, *words: str) -> str:
    """A command over REST, which starts in a fraction of the time."""
    return _jobauto(plant, *words, "--url", plant.settings.url)


def _jobauto(plant: Plant, *words: str, code: int = 0) -> str:
    environment = plant.environment(
        JOBAUTO_HOME=str(plant.home),
        JOBAUTO_DATABASE_URL=plant.settings.ledger_url,
        JOBAUTO_POOL=plant.pool,
        JOBAUTO_PREFECT_API_URL=plant.settings.prefect_api_url,
        JOBAUTO_LEASE_SECONDS=str(plant.settings.lease_seconds),
        JOBAUTO_TOKEN=plant.rest.headers["Authorization"].removeprefix("Bearer "),
    )
    done = subprocess.run(
        [JOBAUTO, *words], env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == code, done.stderr
    return " ".join(done.stdout.split())  # lines are as long as the terminal


@contextmanager
def worker_on_small_disk(plant: Plant) -> Iterator[tuple[Popen[bytes], Path]]:
    """A worker whose work directory is a disk of its own; also where that is for others."""
    work = plant.home / "worker" / "work"
    work.mkdir(parents=True)
    mounted = f"mount -t tmpfs -o size=512k none '{work}' && exec \"$@\""
    argv = ["unshare", "--mount", *([] if os.geteuid() == 0 else ["--map-root-user"])]
    argv += ["sh", "-c", mounted, "sh", sys.executable, "-m", "prefect", "worker", "start"]
    argv += ["--type", "jobauto", "--pool", plant.pool, "--name", "w1"]
    with running(argv, plant.environment(), plant.home / "worker-w1.log") as process:
        plant.until_online("w1")
        yield process, Path(f"/proc/{process.pid}/root{work}")


@pytest.mark.skipif(UNSHARE is None, reason="there is no unshare")
def test_a_worker_with_a_full_disk_takes_no_jobs_until_there_is_room(plant: Plant) -> None:
    retrying(plant)
    with worker_on_small_disk(plant) as (_, work):
        with (work / "filler").open("wb", buffering=0) as filler:
            _fill(filler)
        job_id = plant.post_job()
        eventually(lambda: worker_record(plant)["state"] == "hindered")
        assert "No space left" in worker_record(plant)["hindrances"]["disk"]
        eventually(lambda: _prefect_status(plant) == "OFFLINE")
        assert "worker w1 on" in (doctor := _jobauto(plant, "doctor", code=1))
        assert "make room in its work directory" in doctor
        taken = len(attempts(plant))
        top = _spoken(plant, "top")
        assert "can't work: nothing can be written in" in top
        waiting = attempts(plant)[-1]
        assert waiting["state"] == "scheduled"
        (work / "filler").unlink()
        job = last_attempt(plant, "succeeded")
        assert job["attempt"] == 1
        eventually(lambda: _prefect_status(plant) == "ONLINE")
        eventually(lambda: worker_record(plant)["state"] == "working")
    lost = [one for one in attempts(plant) if one["state"] == "lost"]
    assert len(lost) <= taken <= 2
    assert all("disk" in one["message"] or "written" in one["message"] for one in lost)
    assert plant.job(job_id)["attempt"] == 1


def _fill(filler: Any) -> None:
    try:
        while True:
            filler.write(bytes(4096))
    except OSError:
        return


def _prefect_status(plant: Plant, name: str = "w1") -> str:
    found = plant.prefect.post(f"/work_pools/{plant.pool}/workers/filter", json={}).json()
    status: str = next(worker["status"] for worker in found if worker["name"] == name)
    return status


def test_an_executor_that_is_away_costs_no_attempt_and_no_job_of_another_one(
    plant: Plant, tmp_path: Path
) -> None:
    with podman() as engine:
        retrying(plant)
        app = plant.rest.get(f"/app/{plant.template['app_id']}/definition.json").json()
        plant.rest.post("/app/", json=app | {"ociimage": IMAGE}).raise_for_status()
        contained = plant.with_template("contained", plant.pool)
        retrying(contained, executor="Podman", executor_settings={"network": "none"})
        socket = tmp_path / "engine.sock"
        with plant.worker(JOBAUTO_PODMAN_URL=f"unix://{socket}"):
            contained.post_job()
            eventually(lambda: "Podman" in worker_record(plant)["hindrances"])
            other = plant.post_job()
            assert plant.ended(other)["state"] == "succeeded"
            waiting = [job for job in attempts(plant) if job["executor"] == "Podman"]
            assert waiting[-1]["attempt"] == 1
            socket.symlink_to(engine.url.removeprefix("unix://"))
            eventually(lambda: worker_record(plant)["hindrances"] == {})

            def ended() -> dict[str, Any] | None:
                job = [job for job in attempts(plant) if job["executor"] == "Podman"][-1]
                return job if job["end"] else None

            job = eventually(ended)
        assert (job["attempt"], job["state"] != "lost") == (1, True)
