"""Whether a worker can start jobs just now, determined by trying."""

import asyncio
import contextlib
import logging
import os
import subprocess
import sys
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path

from jobauto_prefect.errors import StartFailed

logger = logging.getLogger(__name__)

DISK, PROCESSES, NAME, PROTOCOL = "disk", "processes", "name", "protocol"
"""Requirements of every job: space in the work directory, a process, the worker's name, and a
service that understands the worker."""

NEEDED_BY_ALL = frozenset({DISK, PROCESSES, NAME, PROTOCOL})

PROBE_BYTES = 64 * 1024
PIPES = 4  # as many as the start of a job needs
CHECK_SECONDS = 10.0
FIRST_CHECK_SECONDS = 1.0  # after something was found missing; doubled each time

Check = Callable[[], Awaitable[None]]
"""Tries something; raises StartFailed or OSError on failure."""


class Fitness:
    """What prevents a worker from working, by what is missing: "disk", or an executor's name.

    `listener` is called after each change.
    """

    def __init__(self, checks: Mapping[str, Check]) -> None:
        self._checks = checks
        self._hindrances: dict[str, str] = {}
        self._doubted = asyncio.Event()
        self.useless = False
        self.listener: Callable[[], None] | None = None

    @property
    def hindrances(self) -> Mapping[str, str]:
        """What is missing, and why."""
        return self._hindrances

    @property
    def is_able(self) -> bool:
        """Whether the worker could start any job."""
        return not self.useless and not self._hindrances.keys() & NEEDED_BY_ALL

    @property
    def missing_executors(self) -> list[str]:
        """The executors that can't run jobs now."""
        return sorted(self._hindrances.keys() - NEEDED_BY_ALL)

    @property
    def is_superseded(self) -> bool:
        """Whether another worker process has taken over this worker's name."""
        return NAME in self._hindrances

    def note_missing(self, part: str, why: str) -> None:
        """Note a missing part; it is checked again soon."""
        if self._hindrances.get(part) != why:
            logger.warning("this worker can't work: %s", why)
            self._hindrances[part] = why
            self._doubted.set()
            self._tell()

    def note_available(self, part: str) -> None:
        """Note that a part is there; it may have been missing."""
        if self._hindrances.pop(part, None) is not None:
            logger.info("%s is available again", part)
            if not self._hindrances:
                self.useless = False
            self._tell()

    def note_useless(self, useless: bool) -> None:
        """Whether every run template of the work pool needs something that is missing."""
        if useless != self.useless:
            self.useless = useless
            self._tell()

    async def run(self) -> None:
        """Check until cancelled: the disk always, other parts while they are missing."""
        pause = CHECK_SECONDS
        while True:
            self._doubted.clear()
            for part in {DISK, *self._hindrances} & self._checks.keys():
                try:
                    await self._checks[part]()
                except (StartFailed, OSError) as error:
                    self.note_missing(part, str(error))
                else:
                    self.note_available(part)
            try:
                async with asyncio.timeout(pause):
                    await self._doubted.wait()
            except TimeoutError:
                pause = min(2 * pause, CHECK_SECONDS)
            else:
                pause = FIRST_CHECK_SECONDS
                await asyncio.sleep(pause)

    def _tell(self) -> None:
        if self.listener is not None:
            self.listener()


def disk_check(directory: Path) -> Check:
    """Whether files can be written in the work directory."""

    def write() -> None:
        path = directory / "probe"
        try:
            path.write_bytes(bytes(PROBE_BYTES))
        except OSError as error:
            message = f"nothing can be written in {directory}: {error.strerror}"
            raise StartFailed(message) from None
        finally:
            with contextlib.suppress(OSError):
                path.unlink()

    async def check() -> None:
        await asyncio.to_thread(write)

    return check


async def check_processes() -> None:
    """Whether a process can be started, with pipes for its output."""
    await asyncio.to_thread(_start_process)


def _start_process() -> None:
    nothing = [sys.executable, "-I", "-S", "-c", ""]
    try:
        with contextlib.ExitStack() as stack:
            for _ in range(PIPES):
                for descriptor in os.pipe():
                    stack.callback(os.close, descriptor)
            subprocess.run(nothing, check=True, timeout=30, stdin=subprocess.DEVNULL)
    except (OSError, subprocess.SubprocessError) as error:
        reason = error.strerror if isinstance(error, OSError) else str(error)
        raise StartFailed(f"no process can be started: {reason}") from None
