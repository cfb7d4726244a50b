"""How a job is executed, whatever executes it."""

from collections.abc import Awaitable, Callable
from typing import Protocol

from jobauto_prefect.runtime.artifacts import Collector
from jobauto_prefect.runtime.output import Stream
from jobauto_prefect.runtime.protocol import Launch, Report
from jobauto_prefect.runtime.watchdog.client import Ended

Sink = Callable[[Stream, bytes], Awaitable[None]]
"""Takes what was read of a stream; no bytes at all are its end."""


class Execution(Protocol):
    """One job."""

    async def start(self) -> None:
        """Begin.

        Raises:
            StartFailed: without an exit code where the job was given up before anyone tried.
        """

    async def stream(self, sink: Sink) -> None:
        """Hand all output on; returns when there is no more."""

    async def wait(self) -> Ended:
        """Returns when nothing of the job lives."""

    async def stop(self, seconds: float) -> None:
        """Ask it to end, and end it after so many seconds."""

    @property
    def pid(self) -> int | None:
        """The number of its leading process; None: it has none here, or has not begun."""

    def collector(self) -> Collector:
        """What takes its artifacts, once it has ended."""

    def keep(self, report: Report) -> None:
        """Write its outcome down, in case it can't be told before this worker ends."""

    async def discard(self) -> None:
        """Remove what it left."""


class Executor(Protocol):
    """A way to execute jobs, such as processes of this machine."""

    def prepare(self, launch: Launch) -> Execution:
        """An execution that has not begun."""

    async def close(self) -> None:
        """No more jobs."""
