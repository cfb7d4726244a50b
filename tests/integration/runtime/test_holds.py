"""What the watchdog does about jobs that run elsewhere; here a file stands for what runs."""

import asyncio
import os
import signal
import subprocess
import sys
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from jobauto_prefect.errors import StartFailed
from jobauto_prefect.runtime.watchdog.client import Watchdog
from jobauto_prefect.runtime.watchdog.jobs import MARKER
from tests.support.paths import ROOT
from tests.support.recorder import Recorder
from tests.support.waits import until
from tests.support.watchdogs import begin, held, start

DRIVER = """
import asyncio, sys
sys.path.insert(0, sys.argv[3])
from pathlib import Path
from jobauto_prefect.runtime.watchdog.client import Watchdog
from tests.support.watchdogs import held

async def main():
    watchdog = await Watchdog.start(
        url=sys.argv[1], token="t", worker="w", lease_seconds=30, stop_seconds=1)
    await watchdog.hold(held(Path(sys.argv[2]), sys.argv[4]))
    print("held", flush=True)
    await asyncio.sleep(60)

asyncio.run(main())
"""


def driver(facade: Recorder, directory: Path, undo: str) -> "subprocess.Popen[bytes]":
    root = str(ROOT)
    argv = [sys.executable, "-c", DRIVER, facade.url, str(directory), root, undo]
    return subprocess.Popen(argv, stdout=subprocess.PIPE)


@pytest.fixture
async def watchdog(facade: Recorder) -> AsyncIterator[Watchdog]:
    running = await Watchdog.start(
        url=facade.url, token="t", worker="w", lease_seconds=30, stop_seconds=1
    )
    yield running
    if running.alive:
        await running.close()


def runs(tmp_path: Path) -> Path:
    path = tmp_path / "runs"
    path.touch()
    return path


async def test_what_a_dead_worker_left_is_ended_before_it_is_reported(
    facade: Recorder, tmp_path: Path
) -> None:
    elsewhere, tried = runs(tmp_path), tmp_path / "tried"
    # The first attempt fails, as with a server that does not answer.
    undo = f"test -e {tried} && rm -f {elsewhere} || {{ touch {tried}; exit 1; }}"
    with driver(facade, tmp_path, undo) as worker:
        assert worker.stdout is not None
        await asyncio.to_thread(worker.stdout.readline)
        seen: list[bool] = []
        facade.answers["jobs/1/report"] = lambda _: (
            seen.append(elsewhere.exists()) or 200,
            {"recorded": True, "story": {"state": "CRASHED", "message": "lost"}},
        )
        worker.kill()
        await until(lambda: seen)
    assert seen == [False]
    (report,) = facade.reports(1)
    assert (report["ending"], report["message"]) == ("lost", "the worker died")


async def test_what_ended_by_itself_is_let_go(watchdog: Watchdog, tmp_path: Path) -> None:
    elsewhere = runs(tmp_path)
    await watchdog.hold(held(tmp_path, f"rm {elsewhere}"))
    await watchdog.release(1)
    await watchdog.close()
    assert elsewhere.exists()


async def test_a_worker_that_leaves_its_jobs_has_them_ended(
    watchdog: Watchdog, facade: Recorder, tmp_path: Path
) -> None:
    elsewhere = runs(tmp_path)
    group = await watchdog.hold(held(tmp_path, f"rm {elsewhere}"))
    await watchdog.close()
    assert (await group.ended).lost
    await until(lambda: facade.reports(1))
    assert not elsewhere.exists()


async def test_a_worker_without_a_watchdog_is_told(watchdog: Watchdog, tmp_path: Path) -> None:
    group = await watchdog.hold(held(tmp_path, "true"))
    os.kill(watchdog.pid, signal.SIGKILL)
    assert (await group.ended).lost == "the watchdog of this worker died"
    with pytest.raises(StartFailed) as refused:
        await watchdog.hold(held(tmp_path, "true", job=2))
    assert refused.value.exit_code is None


async def test_the_processes_of_a_lost_job_end_after_it_is_lost(
    watchdog: Watchdog, tmp_path: Path
) -> None:
    group = await watchdog.hold(held(tmp_path, "true"))
    environment = {**os.environ, MARKER: str(tmp_path / "job")}  # as in a container on this machine
    process = await asyncio.create_subprocess_exec("sleep", "60", env=environment)
    os.kill(watchdog.pid, signal.SIGKILL)
    assert await process.wait() == -signal.SIGKILL
    assert group.ended.done()


async def test_the_commands_are_no_processes_of_other_jobs(
    facade: Recorder, tmp_path: Path
) -> None:
    """A job that is being ended takes only its own along."""
    ended = tmp_path / "ended"
    watchdog = await Watchdog.start(
        url=facade.url, token="t", worker="w", lease_seconds=30, stop_seconds=0.5
    )
    job = start(tmp_path / "native", ["sh", "-c", "trap '' TERM; echo > ready; sleep 60"], job=2)
    await begin(watchdog, job)
    await until((tmp_path / "native" / "ready").exists)
    await watchdog.hold(held(tmp_path, f"sleep 1.5; touch {ended}"))
    await watchdog.close()
    await until(lambda: facade.reports(1) and facade.reports(2))
    assert ended.exists()
