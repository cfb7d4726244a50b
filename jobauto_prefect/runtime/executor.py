"""How a job is executed, whatever executes it.

The way of a job: `prepare`, `put` for each file it is given, `start`, `stream` and `wait` side by
side, `stop` at any time, then `collector`. Which executors there are is in `executors.py`.
"""

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

from jobauto_prefect.clock import Clock
from jobauto_prefect.runtime.artifacts import Collector
from jobauto_prefect.runtime.output import Stream
from jobauto_prefect.runtime.plan import WorkerPlan
from jobauto_prefect.runtime.protocol import Launch, OutputLines, Report
from jobauto_prefect.runtime.users import Users
from jobauto_prefect.runtime.watchdog.client import Ended
from jobauto_prefect.runtime.watchdog.keeper import WatchdogKeeper
from jobauto_prefect.runtime.workplace import JobRecord, Workplace

Sink = Callable[[Stream, bytes], Awaitable[None]]
"""Takes what was read of a stream; no bytes at all are its end."""


class Execution(Protocol):
    """One job."""

    async def prepare(self, sink: Sink) -> None:
        """Get ready what may take long, such as an image; nothing of the job runs yet.

        `sink` takes what this has to say. Called once, and cancelled where the job is stopped
        meanwhile: then nothing may be left but what `discard` removes.

        Raises:
            StartFailed: the job can't be run; the message says what is missing.
            WorkerUnable: no such job can be run just now.
        """

    async def put(self, path: str, content: bytes) -> None:
        """Let the job find a file at a path in its directory; called between the two.

        Raises:
            StartFailed: it can't.
        """

    async def start(self) -> None:
        """Begin.

        Raises:
            StartFailed: without an exit code where the job was given up before anyone tried.
            WorkerUnable: no such job can be started just now, and nothing of this one was.
        """

    async def stream(self, sink: Sink) -> None:
        """Hand all output on; returns when there is no more."""

    async def wait(self) -> Ended:
        """Returns when nothing of the job lives.

        Raises:
            StartFailed: it turned out that it can't run; nothing of it did.
        """

    async def stop(self, seconds: float) -> None:
        """Ask it to end, and end it after so many seconds; a second call can only shorten them."""

    @property
    def is_reachable(self) -> bool:
        """Whether what runs it answers, as far as is known; else nobody knows whether it runs."""

    @property
    def pid(self) -> int | None:
        """The number of its leading process; None: it has none here, or has not begun."""

    async def collector(self) -> Collector:
        """What takes its artifacts, once it has ended; brings them here first where that is due."""

    def keep(self, report: Report, unsent: list[OutputLines]) -> None:
        """Write its outcome down, in case it can't be told before this worker ends.

        `unsent` are the lines of its output that the ledger may not have yet.
        """

    async def discard(self) -> None:
        """Remove what it left."""


class Executor(Protocol):
    """A way to execute jobs, such as processes of this machine."""

    def execution(self, launch: Launch) -> Execution:
        """An execution that has not begun.

        Raises:
            StartFailed: this worker lacks what it takes.
        """

    async def end_left(self, records: Sequence[JobRecord], stop_seconds: float) -> None:
        """End what is left of these jobs of a predecessor; returns when nothing of them lives.

        Raises:
            StartFailed: it can't be known whether something of them lives.
        """

    async def check(self) -> None:
        """Whether it can run jobs just now; asked while it could not.

        Raises:
            StartFailed: it can't; the message says why.
        """

    async def close(self) -> None:
        """No more jobs."""


@dataclass(frozen=True, slots=True)
class Equipment:
    """What a worker gives to its executors. `clock` is the ledger's time."""

    clock: Clock
    plan: WorkerPlan
    workplace: Workplace
    watchdogs: WatchdogKeeper
    users: Users
