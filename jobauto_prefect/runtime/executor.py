"""How a job is executed, whatever executes it.

The way of a job: `prepare`, `put` for each file it is given, `start`, `stream` and `wait` side by
side, `stop` at any time, then `collector`. Which executors there are is in `executors.registry`.
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
"""Takes what was read of a stream; no bytes at all are its end."""


class Execution(Protocol):
    """One job."""

    async def prepare(self, sink: Sink) -> None:
        """Prepare what may take long, such as an image; the job does not start yet.

        `sink` takes what this has to say. Called once, and cancelled where the job is stopped
        meanwhile: then nothing may be left but what `discard` removes.

        Raises:
            StartFailed: the job can't be run; the message says what is missing.
            WorkerUnable: no such job can be run just now.
        """

    async def put(self, path: str, content: bytes) -> None:
        """Write an input file into the job's directory; called between `prepare` and `start`.

        Raises:
            StartFailed: the file can't be written.
        """

    async def start(self) -> None:
        """Start the job.

        Raises:
            StartFailed: without an exit code where the job was given up before anyone tried.
            WorkerUnable: no such job can be started just now, and nothing of this one was.
        """

    async def stream(self, sink: Sink) -> None:
        """Pass all output to `sink`; return when there is no more."""

    async def wait(self) -> Ended:
        """Wait until no process of the job is alive.

        Raises:
            StartFailed: it turned out that it can't run; nothing of it did.
        """

    async def stop(self, seconds: float) -> None:
        """Ask it to end, and end it after so many seconds; a second call can only shorten them."""

    @property
    def is_reachable(self) -> bool:
        """Whether the job's runtime (watchdog, engine, cluster) answers, as far as is known."""

    @property
    def pid(self) -> int | None:
        """The pid of the job's first process; None if it has none on this machine, or none yet."""

    async def collector(self) -> Collector:
        """Return the collector of the job's artifacts, after copying them here where needed."""

    def keep(self, report: Report, unsent: list[OutputLines]) -> None:
        """Save the outcome on disk, in case it can't be reported before this worker ends.

        `unsent` are the lines of its output that the ledger may not have yet.
        """

    async def discard(self) -> None:
        """Remove what the job left on the worker."""


class Executor(Protocol):
    """A way to execute jobs, such as processes of this machine."""

    def execution(self, launch: Launch) -> Execution:
        """Create an execution that has not started.

        Raises:
            StartFailed: this worker lacks what the job needs.
        """

    async def terminate_leftovers(self, records: Sequence[JobRecord], stop_seconds: float) -> None:
        """Terminate what a predecessor's jobs left running; return when none of it is alive.

        Raises:
            StartFailed: it can't be known whether something of them lives.
        """

    async def check(self) -> None:
        """Check whether jobs can run now; called again while they can't.

        Raises:
            StartFailed: it can't; the message says why.
        """

    async def close(self) -> None:
        """Close the executor: no more jobs follow."""


@dataclass(frozen=True, slots=True)
class ExecutorContext:
    """What a worker gives to its executors. `clock` is the ledger's time."""

    clock: Clock
    plan: WorkerConfig
    workspace: WorkerWorkspace
    watchdogs: WatchdogSupervisor
    users: Users
