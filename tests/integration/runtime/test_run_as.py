"""Jobs of another user, by a worker that is root."""

import asyncio
import os
import pwd
import shutil
import tempfile
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from jobauto_prefect.errors import InvalidInput, NotReady
from jobauto_prefect.runtime.opening import OpenWorker, open_worker
from jobauto_prefect.runtime.protocol import ArtifactPattern, Ending
from tests.integration.runtime.conftest import launch, plan
from tests.integration.runtime.recorder import Recorder
from tests.integration.runtime.test_runner import left_in
from tests.integration.runtime.test_watchdog import until

USER, UID, GID = "nobody", 65534, 65534

pytestmark = pytest.mark.skipif(os.getuid() != 0, reason="only root can run jobs as others")


@pytest.fixture
def open_place() -> Iterator[Path]:
    """A directory everybody can reach."""
    path = Path(tempfile.mkdtemp())
    path.chmod(0o755)
    yield path
    shutil.rmtree(path)


@pytest.fixture
async def worker(facade: Recorder, open_place: Path) -> AsyncIterator[OpenWorker]:
    async with open_worker(plan(facade, open_place / "work", run_as=USER)) as opened:
        yield opened


async def test_the_job_is_its_user_in_a_directory_of_its_own(
    worker: OpenWorker, facade: Recorder
) -> None:
    script = "id -u; id -g; id -G; echo $HOME; stat -c '%u %g %a' . tmp; touch out; pwd -P"
    request = launch(worker, script, artifacts=[ArtifactPattern(name="o", path="out", type="file")])
    await worker.runner.run(request)
    home = pwd.getpwnam(USER).pw_dir
    texts = [text for _, _, text in facade.lines(1)]
    assert texts[:2] == [str(UID), str(GID)]
    assert texts[2].split() == [str(group) for group in os.getgrouplist(USER, GID)]
    assert texts[3:] == [home, *[f"{UID} {GID} 700"] * 2, request.directory]
    assert [one.query["path"] for one in facade.requests if one.method == "PUT"] == ["out"]
    assert left_in(worker) == []


async def test_the_job_reads_nothing_of_the_worker(
    worker: OpenWorker, facade: Recorder, open_place: Path
) -> None:
    key = open_place / "secret.key"
    key.write_text("geheim")
    key.chmod(0o600)
    watchdog = await worker.runner._executors["Native"].watchdog()
    script = (
        f"cat {key} {worker.work_directory}/records/* /proc/{watchdog.pid}/environ"
        f" /proc/{os.getpid()}/environ; ls {worker.work_directory}; kill -9 {watchdog.pid}"
    )
    outcome = await worker.runner.run(launch(worker, script))
    assert outcome.report.exit_code != 0
    texts = [text for _, stream, text in facade.lines(1)]
    assert len([text for text in texts if "denied" in text or "not permitted" in text]) == 6


async def test_the_worker_can_end_the_job(worker: OpenWorker, facade: Recorder) -> None:
    script = "trap '' TERM; echo ready; while :; do sleep 0.05; done"
    running = asyncio.create_task(worker.runner.run(launch(worker, script)))
    await until(lambda: facade.lines(1))
    worker.runner.stop(1, "enough")
    outcome = await asyncio.wait_for(running, 20)
    assert (outcome.report.ending, outcome.report.exit_code) == (Ending.CANCELLED, 137)


async def test_links_of_the_job_lead_to_nothing_of_the_workers(
    worker: OpenWorker, facade: Recorder, open_place: Path
) -> None:
    key = open_place / "secret.key"
    key.write_text("geheim")
    key.chmod(0o600)
    script = f"ln -s {key} soft; ln {key} hard; ln -s / root; mkfifo fifo; echo mine > mine"
    patterns = [
        ArtifactPattern(name="all", path=path, type="file")
        for path in ("soft", "hard", "root", "fifo", f"root{key}", ".*", ".")
    ]
    await worker.runner.run(launch(worker, script, artifacts=patterns))
    sent = {one.query["path"]: one.body for one in facade.requests if one.method == "PUT"}
    assert sent == {"mine": b"mine\n"}


async def test_a_place_the_user_cannot_reach_is_refused_at_the_start(
    facade: Recorder, tmp_path: Path
) -> None:
    (tmp_path / "closed").mkdir(mode=0o700)
    with pytest.raises(NotReady, match="JOBAUTO_WORKER_DIRECTORY"):
        await open_worker(plan(facade, tmp_path / "closed", run_as=USER)).__aenter__()


async def test_an_unknown_user_is_refused_at_the_start(facade: Recorder, tmp_path: Path) -> None:
    with pytest.raises(InvalidInput, match="there is no user no-such-user"):
        await open_worker(plan(facade, tmp_path, run_as="no-such-user")).__aenter__()
