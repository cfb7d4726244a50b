"""The watchdog with real processes: starts, stops, escapes, and dead or silent workers."""

import asyncio
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import suppress
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from threading import Thread
from typing import Any

import pytest

from jobauto_prefect.errors import StartFailed
from jobauto_prefect.runtime.watchdog.client import Watchdog
from jobauto_prefect.runtime.watchdog.job_handles import Group, ProcessStart
from tests.support.paths import ROOT
from tests.support.processes import is_alive
from tests.support.waits import until
from tests.support.watchdogs import begin, start

PYTHON = sys.executable
SILENT = r"the worker was silent for \d+ s"


@pytest.fixture
async def watchdog() -> AsyncIterator[Watchdog]:
    running = await Watchdog.start(
        url="http://127.0.0.1:9", token="t", worker="w", lease_seconds=30, stop_seconds=1
    )
    yield running
    if running.alive:
        await running.close()


async def run(watchdog: Watchdog, request: ProcessStart) -> tuple[Group, bytes]:
    """Start, and everything it writes until it has ended."""
    reading, writing = os.pipe()
    try:
        group = await watchdog.spawn(request, writing, writing)
    finally:
        os.close(writing)
    output = await asyncio.to_thread(read_all, reading)
    await group.ended
    return group, output


def read_all(descriptor: int) -> bytes:
    with os.fdopen(descriptor, "rb") as pipe:
        return pipe.read()


async def test_a_process_gets_its_arguments_environment_and_nothing_else(
    watchdog: Watchdog, tmp_path: Path
) -> None:
    script = (
        "import json,os,sys; print(json.dumps([sys.argv[1:], dict(os.environ), os.getcwd(),"
        " sys.stdin.read(), sorted(int(x) for x in os.listdir('/proc/self/fd'))[:-1]]))"
    )
    hostile = ["$(touch x)", "a b", "'\"", "line\nline", "--", "-rf", "{A}${A}", "žluťoučký 🐎", ""]
    request = start(tmp_path / "job", [PYTHON, "-I", "-c", script, *hostile], VALUE="ý\n'$(x)'")
    group, output = await run(watchdog, request)
    arguments, environment, directory, stdin, descriptors = json.loads(output)
    assert arguments == hostile
    environment.pop("LC_CTYPE", None)  # Python's own doing
    assert environment == dict(request.environment)
    assert (directory, stdin, descriptors) == (str(tmp_path / "job"), "", [0, 1, 2])
    assert (group.ended.result().exit_code, group.ended.result().lost) == (0, None)


@pytest.mark.parametrize(("command", "code"), [("exit 7", 7), ("kill -9 $$", 137)])
async def test_the_exit_code_is_the_processs_own(
    watchdog: Watchdog, tmp_path: Path, command: str, code: int
) -> None:
    group, _ = await run(watchdog, start(tmp_path / "job", ["sh", "-c", command]))
    assert group.ended.result().exit_code == code


async def test_signals_have_their_default_action_in_jobs(
    watchdog: Watchdog, tmp_path: Path
) -> None:
    _, output = await run(
        watchdog, start(tmp_path / "job", ["grep", "-E", "Sig(Ign|Blk)", "/proc/self/status"])
    )
    of_the_c_library = 0b11 << 31  # signals 32 and 33, which no program can set back
    masks = [int(line.split()[1], 16) for line in output.splitlines()]
    assert masks
    assert not any(mask & ~of_the_c_library for mask in masks)


def not_executable(directory: Path) -> str:
    (directory / "file").write_text("#!/bin/sh\n")
    return str(directory / "file")


def no_program(directory: Path) -> str:
    path = Path(not_executable(directory))
    path.write_text("neither")
    path.chmod(0o755)
    return str(path)


def no_interpreter(directory: Path) -> str:
    path = Path(no_program(directory))
    path.write_text("#!/no/such/interpreter\n")
    return str(path)


@pytest.mark.parametrize(
    ("executable", "code", "message"),
    [
        (lambda _: "no-such-program", 127, "no-such-program is not found on PATH"),
        (lambda _: "/no/such/program", 127, "/no/such/program does not exist"),
        (no_interpreter, 127, "the program named in its first line does not exist"),
        (not_executable, 126, "may not be executed"),
        (no_program, 126, "is not a program this system can run"),
        (str, 126, "may not be executed"),
    ],
)
async def test_what_cannot_be_started_says_why(
    watchdog: Watchdog,
    tmp_path: Path,
    executable: Callable[[Path], str],
    code: int,
    message: str,
) -> None:
    with pytest.raises(StartFailed, match=message) as failed:
        await begin(watchdog, start(tmp_path / "job", [executable(tmp_path)]))
    assert failed.value.exit_code == code
    await run(watchdog, start(tmp_path / "job", ["true"]))


async def test_too_long_arguments_are_refused_readably(watchdog: Watchdog, tmp_path: Path) -> None:
    with pytest.raises(StartFailed, match="too long") as failed:
        await begin(watchdog, start(tmp_path / "job", ["true", "x" * 1_000_000]))
    assert failed.value.exit_code == 126


async def test_stopping_ends_the_whole_group(watchdog: Watchdog, tmp_path: Path) -> None:
    request = start(tmp_path / "job", ["sh", "-c", "sleep 60 & echo $! > child; wait"])
    group = await begin(watchdog, request)
    child = tmp_path / "job" / "child"
    await until(lambda: child.exists() and child.read_text().strip())
    await watchdog.stop(1, 5)
    ended = await asyncio.wait_for(group.ended, 20)
    assert (ended.exit_code, ended.lost) == (143, None)
    assert not is_alive(int(child.read_text()))


async def test_a_child_may_finish_cleaning_up_after_its_leader_died_of_term(
    watchdog: Watchdog, tmp_path: Path
) -> None:
    child = (
        "trap 'sleep 0.3; echo clean > done; exit' TERM; touch ready; while :; do sleep 0.05; done"
    )
    group = await begin(watchdog, start(tmp_path / "job", ["sh", "-c", f"({child}) & wait"]))
    await until((tmp_path / "job" / "ready").exists)
    await watchdog.stop(1, 5)
    await asyncio.wait_for(group.ended, 20)
    assert (tmp_path / "job" / "done").exists()


async def test_a_process_that_ignores_term_is_killed(watchdog: Watchdog, tmp_path: Path) -> None:
    script = "trap '' TERM; touch ready; while :; do sleep 0.05; done"
    group = await begin(watchdog, start(tmp_path / "job", ["sh", "-c", script]))
    await until((tmp_path / "job" / "ready").exists)
    before = time.monotonic()
    await watchdog.stop(1, 0.4)
    assert (await asyncio.wait_for(group.ended, 20)).exit_code == 137
    assert time.monotonic() - before >= 0.4
    assert group.pid is not None
    assert not is_alive(group.pid)


async def test_what_a_job_leaves_behind_is_killed(watchdog: Watchdog, tmp_path: Path) -> None:
    request = start(tmp_path / "job", ["sh", "-c", "sleep 60 & echo $! > child"])
    await asyncio.wait_for((await begin(watchdog, request)).ended, 20)
    assert not is_alive(int((tmp_path / "job" / "child").read_text()))


ESCAPE = """
import os, sys, time
if os.fork(): os._exit(0) if sys.argv[1] == "leave" else time.sleep(60)
os.setsid()
if os.fork(): os._exit(0)
if sys.argv[2] == "hide": os.execve("/bin/sh", ["sh", "-c", "echo $$ > child; exec sleep 60"], {})
open("child", "w").write(str(os.getpid()) + "\\n")
time.sleep(60)
"""


@pytest.mark.parametrize("environment", ["keep", "hide"])
async def test_a_daemon_that_left_its_session_ends_with_its_job(
    watchdog: Watchdog, tmp_path: Path, environment: str
) -> None:
    argv = [PYTHON, "-I", "-c", ESCAPE, "stay", environment]
    group = await begin(watchdog, start(tmp_path / "job", argv))
    child = tmp_path / "job" / "child"
    await until(lambda: child.exists() and child.read_text().endswith("\n"))
    assert is_alive(int(child.read_text()))
    await watchdog.stop(1, 2)
    await asyncio.wait_for(group.ended, 20)
    assert not is_alive(int(child.read_text()))


async def test_a_daemon_of_one_job_does_not_end_another_job(
    watchdog: Watchdog, tmp_path: Path
) -> None:
    """The daemon of an ended job goes; the one of the job beside it stays."""
    other = await begin(
        watchdog, start(tmp_path / "b", [PYTHON, "-I", "-c", ESCAPE, "stay", "keep"], job=2)
    )
    theirs = tmp_path / "b" / "child"
    await until(lambda: theirs.exists() and theirs.read_text().endswith("\n"))
    script = f"{PYTHON} -I -c '{ESCAPE}' leave keep; until [ -s child ]; do sleep 0.02; done"
    await asyncio.wait_for(
        (await begin(watchdog, start(tmp_path / "a", ["sh", "-c", script], job=1))).ended, 30
    )
    assert not is_alive(int((tmp_path / "a" / "child").read_text()))
    assert is_alive(int(theirs.read_text()))
    assert not other.ended.done()
    await watchdog.stop(2, 0)
    await asyncio.wait_for(other.ended, 20)
    assert not is_alive(int(theirs.read_text()))


async def test_the_worker_ends_the_jobs_of_a_dead_watchdog(
    watchdog: Watchdog, tmp_path: Path
) -> None:
    request = start(tmp_path / "job", ["sh", "-c", "sleep 60 & echo $! > child; wait"])
    group = await begin(watchdog, request)
    child = tmp_path / "job" / "child"
    await until(lambda: child.exists() and child.read_text().strip())
    os.kill(watchdog.pid, signal.SIGKILL)
    ended = await asyncio.wait_for(group.ended, 20)
    assert ended.lost == "the watchdog of this worker died"
    assert group.pid is not None
    assert not is_alive(group.pid)
    assert not is_alive(int(child.read_text()))
    assert not watchdog.alive
    with pytest.raises(StartFailed):
        await begin(watchdog, request)


HIDDEN = """
import sys, time; sys.path.insert(0, sys.argv[1])
from jobauto_prefect.runtime.watchdog import process_table
process_table.hide_memory(); print("hidden", flush=True); time.sleep(60)
"""


@pytest.mark.skipif(os.getuid() != 0, reason="root can become two processes of another user")
def test_nobody_of_the_same_user_reads_the_environment_of_a_hidden_process() -> None:
    """A copy of the package, because the user may have no way to the original."""
    nobody = 65534
    root = ROOT
    with tempfile.TemporaryDirectory() as copy:
        Path(copy).chmod(0o755)
        package = Path(copy, "jobauto_prefect", "runtime")
        shutil.copytree(root / "jobauto_prefect" / "runtime" / "watchdog", package / "watchdog")
        for folder in (package, package.parent):
            (folder / "__init__.py").touch()
        with subprocess.Popen(
            ["/usr/bin/env", "python3", "-c", HIDDEN, copy],
            env={"TOKEN": "secret", "PATH": os.environ["PATH"]},
            user=nobody,
            stdout=subprocess.PIPE,
        ) as process:
            assert process.stdout is not None
            assert process.stdout.readline() == b"hidden\n"
            reading = subprocess.run(
                ["cat", f"/proc/{process.pid}/environ"],
                user=nobody,
                capture_output=True,
                check=False,
            )
            process.kill()
    assert (reading.returncode, reading.stdout) == (1, b"")


# Workers that die or fall silent: a driver process is killed or stopped.

DRIVER = """
import asyncio, json, os, sys
from pathlib import Path
sys.path.insert(0, sys.argv[3])
from jobauto_prefect.runtime.watchdog.client import Watchdog
from tests.support.watchdogs import begin, start

async def main():
    watchdog = await Watchdog.start(
        url=sys.argv[1], token="the-token", worker="w", lease_seconds=1.0, stop_seconds=5)
    script = "sleep 60 & echo $$ $! > pids; wait"
    group = await begin(watchdog, start(Path(sys.argv[2]), ["sh", "-c", script], job=41))
    print(watchdog.pid, flush=True)
    ended = await group.ended
    print(json.dumps([ended.exit_code, ended.lost]), flush=True)
    try:
        await begin(watchdog, start(Path(sys.argv[2]), ["true"], job=42))
    except Exception as error:
        print(type(error).__name__, flush=True)

asyncio.run(main())
"""


class Recorder(BaseHTTPRequestHandler):
    """Keeps what is posted; answers 503 first, then 200."""

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        requests: list[Any] = self.server.requests  # type: ignore[attr-defined]
        requests.append((self.path, self.headers["Authorization"], json.loads(body)))
        self.send_response(503 if len(requests) == 1 else 200)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, *args: Any) -> None:
        pass


@pytest.fixture
def facade() -> Iterator[HTTPServer]:
    server = HTTPServer(("127.0.0.1", 0), Recorder)
    server.requests = []  # type: ignore[attr-defined]
    Thread(target=server.serve_forever, daemon=True).start()
    yield server
    server.shutdown()
    server.server_close()


@pytest.fixture
def driver(facade: HTTPServer, tmp_path: Path) -> Iterator["subprocess.Popen[str]"]:
    root = ROOT
    process = subprocess.Popen(
        [PYTHON, "-c", DRIVER, f"http://127.0.0.1:{facade.server_port}", str(tmp_path / "job"),
         str(root)],
        stdout=subprocess.PIPE,
        text=True,
    )  # fmt: skip
    yield process
    with suppress(ProcessLookupError):
        process.kill()
    process.wait()
    assert process.stdout is not None
    process.stdout.close()
    # Its watchdog goes once the job is reported: the first attempt is refused.
    deadline = time.monotonic() + 10
    while len(facade.requests) < 2 and time.monotonic() < deadline:  # type: ignore[attr-defined]
        time.sleep(0.02)


async def pids_of(driver: "subprocess.Popen[str]", directory: Path) -> list[int]:
    """Watchdog, leader, child."""
    assert driver.stdout is not None
    watchdog = int(await asyncio.to_thread(driver.stdout.readline))
    file = directory / "pids"
    await until(lambda: file.exists() and len(file.read_text().split()) == 2)
    return [watchdog, *map(int, file.read_text().split())]


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGSTOP])
async def test_the_jobs_of_a_killed_or_stopped_worker_end_and_are_reported(
    driver: "subprocess.Popen[str]", facade: HTTPServer, tmp_path: Path, number: signal.Signals
) -> None:
    pids = await pids_of(driver, tmp_path / "job")
    driver.send_signal(number)
    await until(lambda: not any(map(is_alive, pids)))
    (first, second) = facade.requests  # type: ignore[attr-defined]
    assert first == second
    path, authorization, body = second
    assert path == "/internal/v1/jobs/41/report"
    assert authorization == "Bearer the-token"
    assert body["ending"] == "lost"
    why = "the worker died" if number is signal.SIGKILL else SILENT
    assert re.fullmatch(why, body["message"])
    assert not (tmp_path / "job").exists()


async def test_a_stopped_worker_that_wakes_up_learns_it_and_starts_nothing(
    driver: "subprocess.Popen[str]", tmp_path: Path
) -> None:
    pids = await pids_of(driver, tmp_path / "job")
    driver.send_signal(signal.SIGSTOP)
    await until(lambda: not any(map(is_alive, pids)))
    driver.send_signal(signal.SIGCONT)
    assert driver.stdout is not None
    code, lost = json.loads(await asyncio.to_thread(driver.stdout.readline))
    assert (code, bool(re.fullmatch(SILENT, lost))) == (143, True)
    assert await asyncio.to_thread(driver.stdout.readline) == "StartFailed\n"


async def test_a_watchdog_that_was_stopped_itself_does_not_blame_its_worker(
    driver: "subprocess.Popen[str]", tmp_path: Path
) -> None:
    watchdog, leader, _ = await pids_of(driver, tmp_path / "job")
    for number, pause in ((signal.SIGSTOP, 2.5), (signal.SIGCONT, 0.7)):
        for pid in (driver.pid, watchdog):
            os.kill(pid, number)
        await asyncio.sleep(pause)
    assert is_alive(leader)
