"""Jobs as containers: by the Docker API of both engines, and by both executors' names."""

import asyncio
import contextlib
import os
import signal
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import pytest

from jobauto_prefect.runtime.protocol import ArtifactPattern, Ending, Launch
from jobauto_prefect.runtime.worker_context import WorkerContext, open_worker
from tests.support.breakable import SocketRelay
from tests.support.container_engines import Engine
from tests.support.launches import Opened, contained, left_in, plan
from tests.support.paths import ROOT
from tests.support.recorder import Recorder
from tests.support.waits import until

pytestmark = pytest.mark.parametrize("engine", ["Podman", "Docker"], indirect=True)

HOSTILE = {
    "QUOTES": 'it\'s "quoted" `id` $(id) ${HOME} \\ %s',
    "LINES": "one\ntwo\r\nthree\n",
    "EMPTY": "",
    "EQUALS": "a=b=c",
    "CZECH": "žluťoučký kůň 🐎",
    "DASH": "--rm -v /:/host",
}

DRIVER = """
import asyncio, sys
from pathlib import Path
sys.path.insert(0, sys.argv[4])
from jobauto_prefect.runtime.worker_context import open_worker
from jobauto_prefect.runtime.worker_config import WorkerConfig
from tests.support.launches import contained

async def main():
    plan = WorkerConfig(url=sys.argv[1], token="t", worker="w/1", pool="p", host="h",
                      directory=Path(sys.argv[2]), stop_seconds=0.5, docker_url=sys.argv[3])
    async with open_worker(plan) as worker:
        watchdog = await worker.runner._executors["Docker"].watchdogs.get()
        print(watchdog.pid, flush=True)
        await worker.runner.run(contained(worker, "trap '' TERM; touch runs; sleep 60", job=41))

asyncio.run(main())
"""


@pytest.fixture(autouse=True)
def nothing_remains(engine: Engine) -> Iterator[None]:
    yield
    assert engine.containers() == []


@pytest.fixture
async def worker(opened: Opened, engine: Engine) -> WorkerContext:
    return await opened(docker_url=engine.url, podman_url=engine.url)


def texts(facade: Recorder, stream: str = "stdout", job: int = 1) -> list[str]:
    return [text for _, one, text in facade.lines(job) if one == stream]


def leave(name: str, request: Launch) -> None:
    """A file for the job to find."""
    Path(request.directory, name).touch()


async def test_it_succeeds_with_its_output_apart(
    worker: WorkerContext, facade: Recorder, engine: Engine
) -> None:
    for job, executor in enumerate(sorted({"Docker", engine.name}), 1):
        script = "echo out; echo err >&2; pwd; id -u"
        request = contained(worker, script, executor=executor, job=job)
        outcome = await worker.runner.run(request)
        assert (outcome.report.ending, outcome.report.exit_code) == (Ending.EXITED, 0)
        assert texts(facade, job=job) == ["out", request.directory, str(os.getuid())]
        assert texts(facade, "stderr", job) == ["err"]
    assert left_in(worker) == []


async def test_the_exit_code_is_the_processs(worker: WorkerContext) -> None:
    # The first process of a container is spared by its own signals: a shell below it is not.
    for script, code in (("exit 42", 42), ("exit 255", 255), ("kill -9 $$; sleep 9", 137)):
        command = ["sh", "-c", 'sh -c "$0"; exit $?', script]
        outcome = await worker.runner.run(contained(worker, command))
        assert (outcome.report.ending, outcome.report.exit_code) == (Ending.EXITED, code)


async def test_hostile_values_arrive_as_they_are(worker: WorkerContext, facade: Recorder) -> None:
    arguments = ["$(touch x)", "a b", "'\"", "line\nline", "--", "-rf", "{A}${A}", "🐎", ""]
    script = "tr '\\0' '\\n' < /proc/self/environ > env; cat /proc/self/environ > environ; "
    script += 'for one in "$@"; do printf "%s\\0" "$one"; done > args'
    request = contained(
        worker,
        ["sh", "-c", script, "sh", *arguments],
        environment=HOSTILE,
        artifacts=[ArtifactPattern(name=n, path=n, type="file") for n in ("environ", "args")],
    )
    await worker.runner.run(request)
    kept = {one.query["path"]: one.body.decode() for one in facade.requests if one.method == "PUT"}
    assert kept["args"].split("\0") == [*arguments, ""]
    environment = dict(entry.partition("=")[::2] for entry in kept["environ"].split("\0") if entry)
    assert {name: environment[name] for name in request.environment} == request.environment


async def test_the_output_comes_while_it_runs(worker: WorkerContext, facade: Recorder) -> None:
    script = "echo first; while [ ! -e go ]; do sleep 0.05; done; echo second"
    request = contained(worker, script)
    running = asyncio.create_task(worker.runner.run(request))
    await until(lambda: texts(facade) == ["first"])
    leave("go", request)
    await running
    assert texts(facade) == ["first", "second"]


async def test_all_of_a_long_output_is_kept(worker: WorkerContext, facade: Recorder) -> None:
    script = "seq 1 20000; seq 1 20000 >&2"
    await worker.runner.run(contained(worker, script, output_limit_bytes=10_000_000))
    numbers = [str(number) for number in range(1, 20001)]
    assert (texts(facade), texts(facade, "stderr")) == (numbers, numbers)


async def test_an_artifact_is_taken_from_the_mounted_directory(
    worker: WorkerContext, facade: Recorder
) -> None:
    request = contained(
        worker,
        "echo '{\"a\": 1}' > out.json; echo there > $TMPDIR/temporary",
        artifacts=[ArtifactPattern(name="out", path="out.json", type="file")],
    )
    await worker.runner.run(request)
    (artifact,) = [one for one in facade.requests if one.method == "PUT"]
    assert (artifact.query["path"], artifact.body) == ("out.json", b'{"a": 1}\n')


async def test_a_timeout_ends_it(worker: WorkerContext) -> None:
    request = contained(worker, "trap '' TERM; sleep 60", timeout_seconds=0.5)
    outcome = await worker.runner.run(request)
    assert (outcome.report.ending, outcome.report.exit_code) == (Ending.TIMEOUT, 137)


async def test_cancelling_asks_it_to_end_first(worker: WorkerContext, facade: Recorder) -> None:
    script = "trap 'echo bye; exit 7' TERM; echo ready; while :; do sleep 0.05; done"
    running = asyncio.create_task(worker.runner.run(contained(worker, script)))
    await until(lambda: texts(facade))
    assert worker.runner.stop(1, "enough")
    outcome = await asyncio.wait_for(running, 30)
    assert (outcome.report.ending, outcome.report.exit_code) == (Ending.CANCELLED, 7)
    assert texts(facade) == ["ready", "bye"]


async def test_cancelled_while_it_is_made_it_never_starts(worker: WorkerContext) -> None:
    request = contained(worker, "touch started; sleep 60")
    running = asyncio.create_task(worker.runner.run(request))
    await until(lambda: Path(request.directory).exists())
    worker.runner.stop(1, "changed my mind")
    outcome = await asyncio.wait_for(running, 30)
    assert (outcome.report.ending, outcome.report.exit_code) == (Ending.CANCELLED, None)


NOT_STARTED: list[tuple[dict[str, Any], int, str]] = [
    ({"command": ["no-such-program"]}, 127, "no-such-program"),
    ({"command": ["/usr/bin/plain"]}, 126, "can't be started"),
    ({"image": None}, 126, "add ociimage to the application's definition"),
    ({"image": "localhost/none", "executor_settings": {"pull": "never"}}, 126, "none"),
    ({"image": "127.0.0.1:9/none"}, 126, "image 127.0.0.1:9/none can't be pulled"),
    ({"executor_settings": {"memory": "much"}}, 126, "executor setting memory"),
]


async def test_what_cannot_be_started_says_why(
    opened: Opened, engine: Engine, facade: Recorder
) -> None:
    worker = await opened(docker_url=engine.url)
    for job, (changes, code, message) in enumerate(NOT_STARTED, 1):
        request = contained(worker, **{"command": ["true"], "job": job, **changes})
        outcome = await worker.runner.run(request)
        assert (outcome.report.ending, outcome.report.exit_code) == (Ending.NOT_STARTED, code)
        assert message in outcome.report.message
        assert message in texts(facade, "notice", job)[0]
    assert left_in(worker) == []


async def test_an_engine_that_is_away_is_the_workers_trouble_and_not_the_jobs(
    opened: Opened, facade: Recorder
) -> None:
    facade.lease_seconds = 1.5
    worker = await opened(podman_url="unix:///nowhere")
    outcome = await worker.runner.run(contained(worker, ["true"], executor="Podman"))
    assert (outcome.report.ending, outcome.report.worker_unable) == (Ending.LOST, True)
    assert "set JOBAUTO_PODMAN_URL" in outcome.report.message
    assert (worker.fitness.is_able, worker.fitness.missing_executors) == (True, ["Podman"])
    hindrances = [renewal["hindrances"] for renewal in facade.bodies("renewals")]
    await until(
        lambda: any("Podman" in renewal["hindrances"] for renewal in facade.bodies("renewals"))
    )
    assert hindrances[0] == {}
    assert left_in(worker) == []


async def test_a_container_whose_engine_is_away_is_unknown_until_it_answers(
    opened: Opened, engine: Engine, facade: Recorder, tmp_path: Path
) -> None:
    facade.lease_seconds = 4
    socket = tmp_path / "engine.sock"
    with SocketRelay(socket, engine.url.removeprefix("unix://")) as relay:
        worker = await opened(docker_url=f"unix://{socket}")
        request = contained(worker, ["sh", "-c", "while [ ! -e go ]; do sleep 0.1; done; exit 3"])
        running = asyncio.create_task(worker.runner.run(request))
        had = {str(request.job_id): str(request.claim_id)}
        renewals = facade.bodies
        await until(lambda: worker.runner.jobs and worker.runner._jobs[1]._runs)
        relay.cut()
        await until(lambda: renewals("renewals")[-1]["unknown"] == had)
        assert renewals("renewals")[-1]["jobs"] == {}
        relay.mend()
        await until(lambda: renewals("renewals")[-1]["jobs"] == had)
        (Path(request.directory) / "go").touch()
        assert (await running).report.exit_code == 3


async def test_limits_and_a_read_only_root(worker: WorkerContext, facade: Recorder) -> None:
    script = "ulimit -n; touch /etc/x || echo refused; touch here && echo written"
    settings: dict[str, Any] = {"ulimits": {"nofile": "77:99", "nproc": "1024"}, "read_only": True}
    settings |= {"memory": "64m", "cpu": 0.5}
    await worker.runner.run(contained(worker, script, executor_settings=settings))
    assert texts(facade) == ["77", "refused", "written"]


@pytest.mark.skipif(os.getuid() != 0, reason="only root can run jobs as others")
async def test_it_runs_as_the_user_that_is_set(worker: WorkerContext, facade: Recorder) -> None:
    request = contained(
        worker,
        "id -u; id -g; echo mine > out",
        executor_settings={"user": "1234:5678"},
        artifacts=[ArtifactPattern(name="out", path="out", type="file")],
    )
    await worker.runner.run(request)
    assert texts(facade) == ["1234", "5678"]
    assert [one.body for one in facade.requests if one.method == "PUT"] == [b"mine\n"]


@pytest.mark.parametrize("count", [6, pytest.param(20, marks=pytest.mark.soak)])
async def test_many_at_once(worker: WorkerContext, facade: Recorder, count: int) -> None:
    """Each ends only after all have started."""
    jobs = range(1, count + 1)
    script = "touch here; while [ ! -e go ]; do sleep 0.1; done; echo $0"
    requests = [contained(worker, ["sh", "-c", script, str(job)], job=job) for job in jobs]
    running = asyncio.gather(*(worker.runner.run(one) for one in requests))
    directories = [Path(one.directory) for one in requests]
    await until(lambda: all((one / "here").exists() for one in directories), 120)
    for one in requests:
        leave("go", one)
    outcomes = await asyncio.wait_for(running, 120)
    assert [outcome.report.exit_code for outcome in outcomes] == [0] * count
    assert [texts(facade, job=job) for job in jobs] == [[str(job)] for job in jobs]


# workers that die


@contextlib.asynccontextmanager
async def dying(
    facade: Recorder, engine: Engine, directory: Path
) -> AsyncIterator[tuple["subprocess.Popen[bytes]", int]]:
    """A worker whose job runs and does not heed TERM, and the number of its watchdog."""
    worker = _driver(facade, engine, directory)
    try:
        assert worker.stdout is not None
        watchdog = int(await asyncio.to_thread(worker.stdout.readline))
        await until((directory / "w-1-e0dcb624" / "job-41" / "runs").exists)
        yield worker, watchdog
    finally:
        worker.kill()
        worker.wait()


def _driver(facade: Recorder, engine: Engine, directory: Path) -> "subprocess.Popen[bytes]":
    root = str(ROOT)
    argv = [sys.executable, "-c", DRIVER, facade.url, str(directory), engine.url, root]
    return subprocess.Popen(argv, stdout=subprocess.PIPE)


def kill_both(worker: "subprocess.Popen[bytes]", watchdog: int) -> None:
    """A worker and its watchdog, which is stopped first: nobody reports the job."""
    os.kill(watchdog, signal.SIGSTOP)
    worker.kill()
    worker.wait()
    os.kill(watchdog, signal.SIGKILL)


async def test_the_container_of_a_dead_worker_is_gone_before_it_is_reported(
    facade: Recorder, engine: Engine, tmp_path: Path
) -> None:
    seen: list[int] = []

    def reported(_: Any) -> tuple[int, Any]:
        seen.append(len(engine.containers()))
        return 200, {"recorded": True, "story": {"state": "CRASHED", "message": "lost"}}

    facade.answers["jobs/41/report"] = reported
    async with dying(facade, engine, tmp_path) as (worker, _):
        worker.kill()
        await until(lambda: seen, 60)
    assert seen == [0]
    (report,) = facade.reports(41)
    assert (report["ending"], report["message"]) == ("lost", "the worker died")


async def test_the_successor_ends_what_worker_and_watchdog_left(
    facade: Recorder, engine: Engine, tmp_path: Path
) -> None:
    async with dying(facade, engine, tmp_path) as (worker, watchdog):
        kill_both(worker, watchdog)
        assert len(engine.containers()) == 1
        assert facade.reports(41) == []
    async with open_worker(plan(facade, tmp_path, docker_url=engine.url, stop_seconds=0.5)):
        (report,) = facade.reports(41)
        assert (report["ending"], report["message"]) == ("lost", "its worker died")
        assert engine.containers() == []


async def test_without_its_engine_a_successor_says_nothing_of_the_job(
    facade: Recorder, engine: Engine, tmp_path: Path
) -> None:
    async with dying(facade, engine, tmp_path) as (worker, watchdog):
        kill_both(worker, watchdog)
    async with open_worker(plan(facade, tmp_path, docker_url="unix:///nowhere")):
        assert facade.reports(41) == []
    async with open_worker(plan(facade, tmp_path, docker_url=engine.url, stop_seconds=0.5)):
        assert len(facade.reports(41)) == 1


async def test_a_worker_whose_watchdog_died_ends_the_container(
    worker: WorkerContext, facade: Recorder
) -> None:
    running = asyncio.create_task(worker.runner.run(contained(worker, "echo on; sleep 60")))
    await until(lambda: texts(facade))
    watchdog = await worker.runner._executors["Docker"].watchdogs.get()
    os.kill(watchdog.pid, 9)
    outcome = await asyncio.wait_for(running, 30)
    assert outcome.report.ending is Ending.LOST
    assert outcome.report.message == "the watchdog of this worker died"


async def test_a_container_that_somebody_removed_is_lost(
    worker: WorkerContext, facade: Recorder, engine: Engine
) -> None:
    running = asyncio.create_task(worker.runner.run(contained(worker, "echo on; sleep 60")))
    await until(lambda: texts(facade))
    with contextlib.closing(engine.client()) as client:
        client.remove_container(engine.containers()[0]["Id"], force=True)
    outcome = await asyncio.wait_for(running, 30)
    assert outcome.report.ending is Ending.LOST
    assert "the container is gone" in outcome.report.message
