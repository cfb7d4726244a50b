"""Real child processes that are looked after."""

import asyncio
import os
import signal
import sys
import time
from pathlib import Path

import pytest

from jobauto_prefect.cli.service.supervisor import Part, Supervisor
from jobauto_prefect.errors import JobautoError
from tests.support.processes import is_alive

SLEEPER = "import time; time.sleep(60)"
STUBBORN = """
import signal, subprocess, sys, time
signal.signal(signal.SIGTERM, signal.SIG_IGN)
child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"])
open("child", "w").write(str(child.pid))
time.sleep(60)
"""
FAREWELL = """
import signal, sys, time
def end(*_):
    time.sleep({pause})
    open("ended", "a").write("{name} ")
    sys.exit()
signal.signal(signal.SIGTERM, end)
open("{name}-runs", "w").write("yes")
time.sleep(60)
"""
HURRIED = """
import signal, time
asked = []
signal.signal(signal.SIGTERM, lambda *_: asked.append(1))
open("listening", "w").write("yes")
while len(asked) < 2:
    time.sleep(0.01)
    if asked:
        open("asked", "w").write("yes")
"""


class Told:
    """What the supervisor says, with a way to wait for it."""

    def __init__(self) -> None:
        self.events: list[tuple[str, int | None]] = []

    def __call__(self, _name: str, event: str, number: int | None) -> None:
        self.events.append((event, number))

    async def until(self, count: int) -> None:
        async with asyncio.timeout(90):
            while len(self.events) < count:  # noqa: ASYNC110 - it is another thread's process
                await asyncio.sleep(0.01)


def supervisor(folder: Path, program: str, told: Told, **more: object) -> Supervisor:
    part = Part("part", [sys.executable, "-c", program], dict(os.environ), **more)  # type: ignore[arg-type]
    return Supervisor([[part]], folder, folder / "logs", told)


def seen(path: Path) -> str:
    """What a program has written there; it is written in one go."""
    until = time.monotonic() + 90
    while not path.exists() or not path.read_text():
        assert time.monotonic() < until
        time.sleep(0.01)
    return path.read_text()


async def test_a_part_that_is_killed_is_started_again(tmp_path: Path) -> None:
    told = Told()
    parts = supervisor(tmp_path, SLEEPER, told)
    await parts.start()
    first = told.events[0][1]
    assert first is not None

    os.kill(first, signal.SIGKILL)

    await told.until(3)
    await parts.stop()
    assert [event for event, _ in told.events] == ["started", "ended", "started"]
    assert told.events[1] == ("ended", -signal.SIGKILL)
    assert told.events[2][1] != first


async def test_a_part_that_ignores_its_end_is_killed_with_its_children(tmp_path: Path) -> None:
    parts = supervisor(tmp_path, STUBBORN, Told(), stop_seconds=0.2)
    await parts.start()
    child = int(seen(tmp_path / "child"))
    assert is_alive(child)

    await parts.stop()

    async with asyncio.timeout(60):
        while is_alive(child):  # noqa: ASYNC110 - nobody tells us
            await asyncio.sleep(0.01)


async def test_hurrying_asks_a_second_time(tmp_path: Path) -> None:
    parts = supervisor(tmp_path, HURRIED, Told(), stop_seconds=120)
    await parts.start()
    seen(tmp_path / "listening")
    stopping = asyncio.create_task(parts.stop())
    await asyncio.to_thread(seen, tmp_path / "asked")
    await asyncio.sleep(0.2)
    assert not stopping.done()

    parts.hurry.set()

    async with asyncio.timeout(60):
        await stopping


async def test_a_part_that_ends_before_it_is_ready_is_told_with_its_last_words(
    tmp_path: Path,
) -> None:
    async def never() -> None:
        await asyncio.sleep(60)

    parts = supervisor(tmp_path, "print('no key'); raise SystemExit(3)", Told(), ready=never)

    with pytest.raises(ExceptionGroup) as raised:
        await parts.start()

    (error,) = raised.value.exceptions
    assert isinstance(error, JobautoError)
    assert "part ended with exit code 3 before it was ready: no key" in str(error)
    await parts.stop()


async def test_parts_start_side_by_side_and_end_from_last_to_first(tmp_path: Path) -> None:
    def part(name: str, pause: float, other: str) -> Part:
        """A part that is ready once the other one runs."""
        program = FAREWELL.format(name=name, pause=pause)
        return Part(
            name,
            [sys.executable, "-c", program],
            dict(os.environ),
            ready=lambda: asyncio.to_thread(seen, tmp_path / f"{other}-runs"),
        )

    stages = [[part("first", 0, "last")], [part("last", 0.3, "first")]]
    parts = Supervisor(stages, tmp_path, tmp_path / "logs", lambda *_told: None)
    await parts.start()
    await parts.stop()
    assert (tmp_path / "ended").read_text().split() == ["last", "first"]


async def test_a_part_says_itself_when_it_is_ready(tmp_path: Path) -> None:
    program = (
        "import time; from jobauto_prefect.cli.service.supervisor import signal_ready;"
        "time.sleep(0.3); open('worked', 'w').write('yes'); signal_ready(); signal_ready();"
        f"{SLEEPER}"
    )
    parts = supervisor(tmp_path, program, Told(), says_ready=True)

    await parts.start()

    assert (tmp_path / "worked").exists()
    await parts.stop()


async def test_a_log_that_has_grown_large_is_put_aside(tmp_path: Path) -> None:
    logs = tmp_path / "logs"
    logs.mkdir()
    (logs / "part.log").write_bytes(b"x" * (11 * 1024 * 1024))
    parts = supervisor(tmp_path, SLEEPER, Told())

    await parts.start()
    await parts.stop()

    assert (logs / "part.log").stat().st_size == 0
    assert (logs / "part.log.1").exists()
