"""The interface of executors.

A job's calls are `prepare`, `put` for each input file, `start`, `stream` and `wait` concurrently,
`stop` at any time, then `collector`. `executors.registry` lists the executors.
"""

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

from jobauto_prefect.clock import Clock
from jobauto_prefect.runtime.executors.users import Users
from jobauto_prefect.runtime.output.artifacts import Collector
from jobauto_prefect.runtime.output.lines import Stream
from jobauto_prefect.runtime.protocol import Launch, OutputLines, Report
from jobauto_prefect.runtime.watchdog.client import WatchdogSupervisor
from jobauto_prefect.runtime.watchdog.job_handles import Ended
from jobauto_prefect.runtime.worker_config import WorkerConfig
from jobauto_prefect.runtime.workspace import JobRecord, WorkerWorkspace

Sink = Callable[[Stream, bytes], Awaitable[None]]
"""Takes what was read of a stream; empty bytes mean its end."""


class Execution(Protocol):
    """One job."""

    async def prepare(self, sink: Sink) -> None:
        """Prepare what may take long, such as pulling an image, without starting the job.

        `sink` takes its output. Called once, and cancelled if the job is stopped meanwhile: it must
        then leave nothing but what `discard` removes.

        Raises:
            StartFailed: the job can't be run; the message says what is missing.
            WorkerUnable: this worker can't run such jobs just now.
        """

    async def put(self, path: str, content: bytes) -> None:
        """Write an input file to the job's directory; called between `prepare` and `start`.

        Raises:
            StartFailed: the file can't be written.
        """

    async def start(self) -> None:
        """Start the job.

        Raises:
            StartFailed: it can't be started; without an exit code if it was given up before any
                try.
            WorkerUnable: this worker can't start such jobs just now, and has not started this one.
        """

    async def stream(self, sink: Sink) -> None:
        """Pass all output to `sink`; return at its end."""

    async def wait(self) -> Ended:
        """Wait until no process of the job is alive.

        Raises:
            StartFailed: it turned out that the job can't run; none of it has run.
        """

    async def stop(self, seconds: float) -> None:
        """Ask the job to end, and kill it after `seconds`; a second call can only shorten them."""

    @property
    def is_reachable(self) -> bool:
        """Whether the job's runtime (watchdog, engine, cluster) answers, as far as known."""

    @property
    def pid(self) -> int | None:
        """The pid of the job's first process; None if it has none on this machine, or not yet."""

    async def collector(self) -> Collector:
        """Return the collector of the job's artifacts, copying them here first if needed."""

    def keep(self, report: Report, unsent: list[OutputLines]) -> None:
        """Save the outcome on disk, in case it can't be reported before this worker ends.

        `unsent` are the output lines that the ledger may not have yet.
        """

    async def discard(self) -> None:
        """Remove what the job left on the worker."""


class Executor(Protocol):
    """A way to execute jobs, such as processes on this machine."""

    def execution(self, launch: Launch) -> Execution:
        """Create an execution, not yet started.

        Raises:
            StartFailed: this worker lacks something that the job needs.
        """

    async def terminate_leftovers(self, records: Sequence[JobRecord], stop_seconds: float) -> None:
        """Terminate what a predecessor's jobs left running; return when all of it has ended.

        Raises:
            StartFailed: it can't be found out whether something is still running.
        """

    async def check(self) -> None:
        """Check whether jobs can run now; called again while they can't.

        Raises:
            StartFailed: they can't; the message says why.
        """

    async def close(self) -> None:
        """Close the executor; no more jobs follow."""


@dataclass(frozen=True, slots=True)
class ExecutorContext:
    """What a worker gives to its executors. `clock` is the ledger's time."""

    clock: Clock
    plan: WorkerConfig
    workspace: WorkerWorkspace
    watchdogs: WatchdogSupervisor
    users: Users
