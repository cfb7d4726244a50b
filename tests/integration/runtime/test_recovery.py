"""A worker of the same name after its predecessor died."""

import asyncio
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from uuid import uuid4

import pytest

from jobauto_prefect.runtime.orphan_processes import ProcessFingerprint, find_survivors
from jobauto_prefect.runtime.protocol import Ending
from jobauto_prefect.runtime.watchdog import process_table
from jobauto_prefect.runtime.worker_context import open_worker
from jobauto_prefect.runtime.workspace import JobRecord, WorkerWorkspace
from tests.support.launches import Opened, launch, plan
from tests.support.paths import ROOT
from tests.support.processes import is_alive
from tests.support.recorder import Recorder
from tests.support.waits import until

DRIVER = """
import asyncio, sys
from pathlib import Path
sys.path.insert(0, sys.argv[3])
from jobauto_prefect.runtime.worker_context import open_worker
from jobauto_prefect.runtime.worker_config import WorkerConfig
from tests.support.launches import launch

async def main():
    plan = WorkerConfig(url=sys.argv[1], token="t", worker="w/1", pool="p", host="h",
                      directory=Path(sys.argv[2]), stop_seconds=0.5)
    async with open_worker(plan) as worker:
        script = "sleep 60 & echo $$ $! > pids; trap '' TERM; wait"
        watchdog = await worker.runner._executors["Native"].watchdogs.get()
        print(watchdog.pid, flush=True)
        await worker.runner.run(launch(worker, script, job=41))

asyncio.run(main())
"""


@pytest.fixture
def driver(facade: Recorder, tmp_path: Path) -> Iterator["subprocess.Popen[str]"]:
    root = str(ROOT)
    with subprocess.Popen(
        [sys.executable, "-c", DRIVER, facade.url, str(tmp_path / "work"), root],
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        yield process
        process.kill()


def left(job: int, directory: Path) -> dict[str, str | int]:
    return {
        "job_id": job,
        "claim_id": str(uuid4()),
        "directory": str(directory),
        "flow_run_id": str(uuid4()),
    }


def session(script: str) -> "subprocess.Popen[bytes]":
    return subprocess.Popen(["sh", "-c", script], start_new_session=True)


async def test_what_a_dead_worker_and_a_dead_watchdog_left_is_ended_and_reported(
    driver: "subprocess.Popen[str]", facade: Recorder, opened: Opened, tmp_path: Path
) -> None:
    assert driver.stdout is not None
    watchdog = int(await asyncio.to_thread(driver.stdout.readline))
    directory = tmp_path / "work" / "w-1-e0dcb624" / "job-41"
    pids = directory / "pids"
    await until(lambda: pids.exists() and len(pids.read_text().split()) == 2)
    leader, child = map(int, pids.read_text().split())
    os.kill(watchdog, signal.SIGSTOP)
    driver.kill()
    driver.wait()
    os.kill(watchdog, signal.SIGKILL)
    await until(lambda: not is_alive(leader))  # it dies with the watchdog
    assert is_alive(child)
    assert facade.reports(41) == []

    facade.left_over = [left(41, directory), left(42, directory.parent / "job-42")]
    await opened()
    assert not is_alive(child)
    for job in (41, 42):
        (report,) = facade.reports(job)
        assert (report["ending"], report["message"]) == ("lost", "its worker died")
    assert not directory.exists()


async def test_a_predecessors_living_leader_is_ended_with_its_group(
    facade: Recorder, opened: Opened, tmp_path: Path
) -> None:
    """As after a crash that spared the job's processes."""
    work = tmp_path / "work" / "w-1-e0dcb624"
    (work / "records").mkdir(parents=True)
    ready, termed = tmp_path / "ready", tmp_path / "termed"
    # The child begins before the trap: a TERM between its fork and its exec would be lost else.
    leading = f"trap ': > {termed}; exit' TERM; : > {ready}; while :; do sleep 0.05; done"
    script = f"sleep 60 & {leading}"
    with session(script) as leader:
        await until(ready.exists)
        found = process_table.read_process(leader.pid)
        assert found is not None
        record = JobRecord(
            job_id=5,
            claim_id=uuid4(),
            directory=str(work / "job-5"),
            boot_id=process_table.boot_id(),
            pid=leader.pid,
            started=found.started,
        )
        (work / "records" / "5.json").write_text(record.model_dump_json())
        (work / "records" / "6.json").write_text("cut off")
        await opened(stop_seconds=30)
        assert not is_alive(leader.pid)
    assert termed.exists()
    assert facade.reports(5)[0]["ending"] == "lost"


def test_a_stranger_with_the_number_of_an_ended_process_is_left_alone() -> None:
    with session("exec sleep 60") as stranger:
        found = process_table.read_process(stranger.pid)
        assert found is not None
        traces = ProcessFingerprint(stranger.pid, found.started - 1, "JOBAUTO_JOB_DIR=/none")
        assert find_survivors(traces, process_table.snapshot()) == set()
        same = ProcessFingerprint(stranger.pid, found.started, "JOBAUTO_JOB_DIR=/none")
        assert find_survivors(same, process_table.snapshot()) == {stranger.pid}
        stranger.kill()


async def test_jobs_of_another_place_are_left_to_their_leases(
    facade: Recorder, opened: Opened
) -> None:
    facade.left_over = [left(7, Path("/elsewhere/work/job-7"))]
    await opened()
    assert facade.reports(7) == []


async def test_an_outcome_kept_at_shutdown_is_told_by_the_next_worker(
    facade: Recorder, tmp_path: Path
) -> None:
    go = tmp_path / "go"
    script = f"until [ -e {go} ]; do sleep 0.1; done; exit 9"
    async with open_worker(plan(facade, tmp_path / "work", stop_seconds=0.1)) as worker:
        request = launch(worker, script, job=8, secrets=["geheim-geheim"])
        running = asyncio.create_task(worker.runner.run(request))
        await until(lambda: worker.runner.jobs)
        facade.stop()
        draining = asyncio.create_task(worker.runner.drain(60))
        go.touch()
        await until(lambda: worker.runner._jobs[8]._telling is not None)
        worker.runner.hurry(0.1)
        await asyncio.wait_for(draining, 60)
        outcome = await running
        assert outcome.answer is None
        assert outcome.report.exit_code == 9
        workspace = Path(worker.work_directory)
    (record,) = WorkerWorkspace(workspace, -1).records()
    assert record.report is not None
    assert "geheim" not in record.model_dump_json()
    facade.start()
    facade.left_over = [left(8, workspace / "job-8")]
    async with open_worker(plan(facade, tmp_path / "work")):
        (report,) = facade.reports(8)
    assert (report["ending"], report["exit_code"]) == (Ending.EXITED, 9)
    assert report["claim_id"] == str(request.claim_id)
    await until(lambda: not workspace.exists())


async def test_output_that_a_stopped_worker_could_not_send_is_sent_by_the_next_one(
    facade: Recorder, tmp_path: Path
) -> None:
    """A worker drains while the ledger takes no output; the job is told in full all the same."""
    facade.answers["jobs/9/output"] = lambda _: (503, {"message": "busy"})
    script = "seq 1 8000; echo geheim-geheim"
    async with open_worker(plan(facade, tmp_path / "work", stop_seconds=0.1)) as worker:
        request = launch(
            worker, script, job=9, secrets=["geheim-geheim"], output_limit_bytes=600_000
        )
        running = asyncio.create_task(worker.runner.run(request))
        await until(lambda: facade.bodies("jobs/9/output"))
        await until(lambda: worker.runner._jobs[9]._telling is not None)
        await worker.runner.drain(0.5)
        assert (await running).answer is None
        workspace = Path(worker.work_directory)
    text = (workspace / "records" / "9.json").read_text()
    assert "geheim" not in text
    assert facade.reports(9) == []
    del facade.answers["jobs/9/output"]
    facade.requests.clear()
    facade.left_over = [left(9, workspace / "job-9")]
    async with open_worker(plan(facade, tmp_path / "work")):
        (report,) = facade.reports(9)
    assert report["exit_code"] == 0
    numbers, streams, texts = zip(*facade.lines(9), strict=True)
    assert numbers == tuple(range(1, len(numbers) + 1))
    assert texts[:8000] == tuple(str(number) for number in range(1, 8001))
    assert texts[8000:] == ("********",)
    assert set(streams) == {"stdout"}
