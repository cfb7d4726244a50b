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
from jobauto_prefect.runtime.protocol import ArtifactPattern, Ending, InputFile
from jobauto_prefect.runtime.worker_context import WorkerContext, open_worker
from tests.support.launches import launch, left_in, plan
from tests.support.recorder import Recorder
from tests.support.waits import until

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
async def worker(facade: Recorder, open_place: Path) -> AsyncIterator[WorkerContext]:
    async with open_worker(plan(facade, open_place / "work", run_as=(USER,))) as opened:
        yield opened


async def test_the_job_is_its_user_in_a_directory_of_its_own(
    worker: WorkerContext, facade: Recorder
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


async def test_its_input_is_its_own_alone(worker: WorkerContext, facade: Recorder) -> None:
    facade.answers["jobs/1/inputs/7"] = lambda _request: (200, {})
    given = InputFile(artifact_id=7, path="tmp/inputs/KEY/a.json")
    script = f"cd tmp; stat -c '%u %g %a' inputs inputs/KEY; stat -c '%u %g %a' ../{given.path}"
    await worker.runner.run(launch(worker, script, inputs=[given]))
    texts = [text for _, _, text in facade.lines(1)]
    assert texts == [f"{UID} {GID} 700", f"{UID} {GID} 700", f"{UID} {GID} 600"]


async def test_the_job_reads_nothing_of_the_worker(
    worker: WorkerContext, facade: Recorder, open_place: Path
) -> None:
    key = open_place / "secret.key"
    key.write_text("geheim")
    key.chmod(0o600)
    watchdog = await worker.runner._executors["Native"].watchdogs.get()
    script = (
        f"cat {key} {worker.work_directory}/records/* /proc/{watchdog.pid}/environ"
        f" /proc/{os.getpid()}/environ; ls {worker.work_directory}; kill -9 {watchdog.pid}"
    )
    outcome = await worker.runner.run(launch(worker, script))
    assert outcome.report.exit_code != 0
    texts = [text for _, stream, text in facade.lines(1)]
    assert len([text for text in texts if "denied" in text or "not permitted" in text]) == 6


async def test_the_worker_can_end_the_job(worker: WorkerContext, facade: Recorder) -> None:
    script = "trap '' TERM; echo ready; while :; do sleep 0.05; done"
    running = asyncio.create_task(worker.runner.run(launch(worker, script)))
    await until(lambda: facade.lines(1))
    worker.runner.stop(1, "enough")
    outcome = await asyncio.wait_for(running, 20)
    assert (outcome.report.ending, outcome.report.exit_code) == (Ending.CANCELLED, 137)


async def test_links_of_the_job_lead_to_nothing_of_the_workers(
    worker: WorkerContext, facade: Recorder, open_place: Path
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
        await open_worker(plan(facade, tmp_path / "closed", run_as=(USER,))).__aenter__()


async def test_an_unknown_user_is_refused_at_the_start(facade: Recorder, tmp_path: Path) -> None:
    with pytest.raises(InvalidInput, match="there is no user no-such-user"):
        await open_worker(plan(facade, tmp_path, run_as=("no-such-user",))).__aenter__()


# a user for each company

ACME, GLOBEX = "nobody", "daemon"


@pytest.fixture
async def divided(facade: Recorder, open_place: Path) -> AsyncIterator[WorkerContext]:
    run_as = (f"1={ACME}", f"2={GLOBEX}")
    async with open_worker(plan(facade, open_place / "work", run_as=run_as)) as opened:
        yield opened


async def test_jobs_of_another_company_are_closed(divided: WorkerContext, facade: Recorder) -> None:
    secret = launch(
        divided,
        "echo geheim > file; chmod 777 file; echo $$; while [ ! -e tmp/end ]; do sleep 0.1; done",
        job=1,
        company_id=1,
        environment={"PASSWORD": "s3cret-word"},
    )
    running = asyncio.create_task(divided.runner.run(secret))
    await until(lambda: facade.lines(1))
    ((_, _, pid),) = facade.lines(1)
    attempts = (
        f"cat {secret.directory}/file",
        f"ls {secret.directory}",
        f"touch {secret.directory}/tmp/end",
        f"cat /proc/{pid}/environ",
        f"ls /proc/{pid}/cwd/",
        f"kill -9 {pid}",
    )
    for job, attempt in enumerate(attempts, 2):
        spy = launch(divided, f"id -un; {attempt}", job=job, company_id=2)
        outcome = await divided.runner.run(spy)
        assert outcome.report.exit_code != 0, attempt
        user, *lines = [text for _, _, text in facade.lines(job)]
        assert user == GLOBEX
        assert "denied" in lines[0] or "not permitted" in lines[0].lower(), attempt
    divided.runner.stop(1, "enough")
    assert (await running).report.ending is Ending.CANCELLED


async def test_a_company_without_a_user_has_no_jobs_here(
    divided: WorkerContext, facade: Recorder
) -> None:
    outcome = await divided.runner.run(launch(divided, "id", company="umbrella", company_id=3))
    assert outcome.report.ending is Ending.NOT_STARTED
    assert "no jobs of company umbrella" in outcome.report.message
    assert "--run-as 3=USER" in outcome.report.message
    assert facade.bodies("workers")[0]["run_as"] == {"1": ACME, "2": GLOBEX}


async def test_who_gets_the_slug_of_another_company_does_not_get_its_user(
    divided: WorkerContext, facade: Recorder
) -> None:
    for job, company_id in ((1, 1), (2, 2)):
        await divided.runner.run(
            launch(divided, "id -un", job=job, company="acme", company_id=company_id)
        )
    assert [facade.lines(job)[0][2] for job in (1, 2)] == [ACME, GLOBEX]


async def test_the_others_have_the_user_without_a_company(
    facade: Recorder, open_place: Path
) -> None:
    run_as = (f"1={ACME}", GLOBEX)
    async with open_worker(plan(facade, open_place / "work", run_as=run_as)) as worker:
        await worker.runner.run(launch(worker, "id -un", company_id=3))
    assert facade.lines(1)[0][2] == GLOBEX


async def test_a_company_has_one_user(facade: Recorder, open_place: Path) -> None:
    run_as = (f"1={ACME}", f"1={GLOBEX}")
    with pytest.raises(InvalidInput, match="a user for 1 is already given"):
        await open_worker(plan(facade, open_place / "work", run_as=run_as)).__aenter__()


async def test_a_company_is_named_by_its_id(facade: Recorder, open_place: Path) -> None:
    with pytest.raises(InvalidInput, match="jobauto company show acme"):
        await open_worker(plan(facade, open_place, run_as=(f"acme={ACME}",))).__aenter__()


async def test_a_setuid_file_that_is_left_there_gives_no_rights(
    worker: WorkerContext, facade: Recorder, open_place: Path
) -> None:
    left = open_place / "id"
    shutil.copy("/usr/bin/id", left)
    left.chmod(0o4755)
    await worker.runner.run(launch(worker, f"{left} -u; grep NoNewPrivs /proc/self/status"))
    assert [text for _, _, text in facade.lines(1)] == [str(UID), "NoNewPrivs:\t1"]
