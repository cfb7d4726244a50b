"""Supervises child processes: starts them, keeps them alive, ends them in order without leftovers.

It only imports the standard library, to keep the supervising process small.
"""

import asyncio
import contextlib
import ctypes
import itertools
import os
import signal
import sys
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Self

from jobauto_prefect.errors import JobautoError
from jobauto_prefect.home import make_folder, private_file

FIRST_PAUSE_SECONDS = 0.5
LONGEST_PAUSE_SECONDS = 30.0
STABLE_SECONDS = 60.0
"""A part that ran this long is restarted at once when it ends."""

READY_WITHIN_SECONDS = 120.0
KILLED_WITHIN_SECONDS = 5.0
LOG_LIMIT_BYTES = 10 * 1024 * 1024
PR_SET_PDEATHSIG = 1

READY_VARIABLE = "JOBAUTO_READY_FD"
"""Variable with the pipe in which a part reports, once, that it is ready."""

_libc = ctypes.CDLL(None) if sys.platform == "linux" else None

Tell = Callable[[str, str, int | None], None]
"""Called with a part's name, what happened (started, ended) and its pid or exit code."""


@dataclass(frozen=True, slots=True)
class Part:
    """One child process. `ready` returns once it is ready; None: as soon as it is running.

    With `says_ready` it reports that itself instead, see `signal_ready`. `stop_seconds` is how long
    it may take to end after SIGTERM before it is killed.
    """

    name: str
    argv: Sequence[str]
    environment: Mapping[str, str] = field(repr=False)
    stop_seconds: float = 10.0
    ready: Callable[[], Awaitable[None]] | None = None
    says_ready: bool = False


def signal_ready() -> None:
    """Report to this process's supervisor, if there is one, that it is ready."""
    pipe = os.environ.pop(READY_VARIABLE, None)
    if pipe is not None:
        with contextlib.suppress(OSError), os.fdopen(int(pipe), "wb") as file:
            file.write(b"\n")


def _end_with_parent() -> None:
    """In a new child, ask the kernel for SIGTERM when its parent dies, for whatever reason."""
    if _libc is not None:
        _libc.prctl(PR_SET_PDEATHSIG, signal.SIGTERM)


class ReadyPipe:
    """The pipe in which a child reports that it is ready; see `signal_ready`."""

    def __init__(self) -> None:
        self._reading, self.writing = os.pipe()
        self.environment = {READY_VARIABLE: str(self.writing)}

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_error: object) -> None:
        os.close(self._reading)
        os.close(self.writing)

    async def said(self) -> None:
        """Wait until the child is ready."""
        is_ready, loop = asyncio.Event(), asyncio.get_running_loop()
        loop.add_reader(self._reading, is_ready.set)
        try:
            await is_ready.wait()
        finally:
            loop.remove_reader(self._reading)


class SupervisedPart:
    """One supervised part."""

    def __init__(self, part: Part, folder: Path, logs: Path, tell: Tell) -> None:
        self.part = part
        self.log = logs / f"{part.name}.log"
        self._folder = folder
        self._tell = tell
        self._stopping = False
        self._process: asyncio.subprocess.Process | None = None
        self._keeping: asyncio.Task[None] | None = None

    async def start(self) -> None:
        """Start the part and wait until it is ready.

        Raises:
            JobautoError: it ended before it was ready, or was not ready in time.
        """
        with ReadyPipe() as pipe:
            process = await self._spawn(pipe if self.part.says_ready else None)
            ready = pipe.said if self.part.says_ready else self.part.ready
            if ready is not None:
                await self._until_ready(process, ready)
        self._keeping = asyncio.create_task(self._keep(process))

    async def _until_ready(
        self, process: asyncio.subprocess.Process, ready: Callable[[], Awaitable[None]]
    ) -> None:
        waiting, ending = asyncio.ensure_future(ready()), asyncio.ensure_future(process.wait())
        try:
            await asyncio.wait(
                {waiting, ending},
                timeout=READY_WITHIN_SECONDS,
                return_when=asyncio.FIRST_COMPLETED,
            )
            if waiting.done():
                await waiting
                return
        finally:
            waiting.cancel()
            ending.cancel()
        what = f"was not ready within {READY_WITHIN_SECONDS:.0f} s"
        if process.returncode is not None:
            what = f"ended with exit code {process.returncode} before it was ready"
        lines = self.log.read_text(errors="replace").strip().splitlines()
        last = lines[-1][:300] if lines else "no output"
        raise JobautoError(f"{self.part.name} {what}: {last} (full log: {self.log})")

    async def _spawn(self, pipe: "ReadyPipe | None" = None) -> asyncio.subprocess.Process:
        with self._open_log() as log:
            self._process = await asyncio.create_subprocess_exec(
                *self.part.argv,
                env={**self.part.environment, **(pipe.environment if pipe else {})},
                pass_fds=(pipe.writing,) if pipe else (),
                cwd=self._folder,
                stdin=asyncio.subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
                preexec_fn=_end_with_parent,
            )
        self._tell(self.part.name, "started", self._process.pid)
        return self._process

    def _open_log(self) -> IO[bytes]:
        if self.log.exists() and self.log.stat().st_size > LOG_LIMIT_BYTES:
            self.log.replace(self.log.with_suffix(".log.1"))
        return open(self.log, "ab", opener=private_file)

    async def _keep(self, process: asyncio.subprocess.Process) -> None:
        """Restart the part whenever it ends, with growing delays if it soon ends again."""
        pause = FIRST_PAUSE_SECONDS
        while not self._stopping:
            since = time.monotonic()
            code = await process.wait()
            if self._stopping:
                return
            self._tell(self.part.name, "ended", code)
            lasted = time.monotonic() - since
            pause = FIRST_PAUSE_SECONDS if lasted > STABLE_SECONDS else pause
            await asyncio.sleep(pause)
            pause = min(2 * pause, LONGEST_PAUSE_SECONDS)
            process = await self._spawn()

    async def stop(self, hurry: asyncio.Event) -> None:
        """End the part and its children; `hurry` signals it a second time."""
        self._stopping = True
        if self._keeping is not None:
            self._keeping.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await self._keeping
        process = self._process
        if process is None:
            return
        self._signal(signal.SIGTERM)
        hurrying = asyncio.create_task(self._hurry(hurry))
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(self.part.stop_seconds):
                await process.wait()
        hurrying.cancel()
        # Kill the rest of its process group.
        if self._process is not None:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(self._process.pid, signal.SIGKILL)
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(KILLED_WITHIN_SECONDS):
                await process.wait()

    async def _hurry(self, hurry: asyncio.Event) -> None:
        await hurry.wait()
        self._signal(signal.SIGTERM)

    def _signal(self, number: signal.Signals) -> None:
        if self._process is not None and self._process.returncode is None:
            self._process.send_signal(number)


class Supervisor:
    """The parts of one service: started concurrently; their `stages` end from last to first."""

    def __init__(
        self, stages: Sequence[Sequence[Part]], folder: Path, logs: Path, tell: Tell
    ) -> None:
        make_folder(logs)
        self._stages = [
            [SupervisedPart(part, folder, logs, tell) for part in stage] for stage in stages
        ]
        self.hurry = asyncio.Event()

    async def start(self) -> None:
        """Start all parts and wait until they are ready.

        Raises:
            JobautoError: one of them ended before it was ready.
        """
        async with asyncio.TaskGroup() as tasks:
            for supervised in itertools.chain(*self._stages):
                tasks.create_task(supervised.start())

    async def stop(self) -> None:
        """End all parts, the last stage first. Setting `hurry` speeds it up."""
        for stage in reversed(self._stages):
            async with asyncio.TaskGroup() as tasks:
                for supervised in stage:
                    tasks.create_task(supervised.stop(self.hurry))
