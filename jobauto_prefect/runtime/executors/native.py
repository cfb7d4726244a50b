"""The Native executor: a job is a process on this machine, in a directory of its own."""

import asyncio
import os
from collections.abc import Sequence

from jobauto_prefect.errors import StartFailed, WorkerUnable
from jobauto_prefect.runtime.executor import ExecutorContext, Sink
from jobauto_prefect.runtime.orphan_processes import ProcessFingerprint, terminate_all
from jobauto_prefect.runtime.output.artifacts import Collector
from jobauto_prefect.runtime.output.pipes import Pipes
from jobauto_prefect.runtime.protocol import Launch, OutputLines, Report
from jobauto_prefect.runtime.watchdog import process_table
from jobauto_prefect.runtime.watchdog.client import Watchdog
from jobauto_prefect.runtime.watchdog.job_handles import Ended, Group, ProcessStart, User
from jobauto_prefect.runtime.watchdog.jobs import MARKER
from jobauto_prefect.runtime.workspace import JobRecord, JobWorkspace

INHERITED = ("PATH", "HOME", "LANG", "TZ")
"""The only variables that a job inherits from its worker's environment."""


class NativeExecutor:
    """Starts processes through the worker's watchdog."""

    def __init__(self, context: ExecutorContext) -> None:
        self.clock = context.clock
        self.workspace = context.workspace
        self.watchdogs = context.watchdogs
        self.users = context.users
        self._inherited = {name: os.environ[name] for name in INHERITED if name in os.environ}

    def execution(self, launch: Launch) -> "NativeExecution":
        """Create an execution, not yet started."""
        return NativeExecution(self, launch)

    def environment(self, launch: Launch, user: User | None) -> dict[str, str]:
        """Return all variables of a job."""
        own = {"HOME": user.home} if user else {}
        return {"PATH": os.defpath, **self._inherited, **own, **launch.environment}

    async def terminate_leftovers(self, records: Sequence[JobRecord], stop_seconds: float) -> None:
        """Send TERM to all processes of these jobs, and KILL after `seconds`."""
        await terminate_all([_fingerprint(record) for record in records], stop_seconds)

    async def check(self) -> None:
        """Do nothing: `Fitness` checks what every job needs."""

    async def close(self) -> None:
        """Do nothing: no connection is held."""


def _fingerprint(record: JobRecord) -> ProcessFingerprint:
    same_boot = record.boot_id == process_table.boot_id()
    return ProcessFingerprint(
        record.pid if same_boot and record.started is not None else None,
        record.started,
        f"{MARKER}={record.directory}",
    )


class NativeExecution:
    """One process and its descendants."""

    def __init__(self, executor: NativeExecutor, launch: Launch) -> None:
        self._executor = executor
        self._launch = launch
        self._user: User | None = None
        self._workspace = JobWorkspace(executor.workspace, launch)
        self._watchdog: Watchdog | None = None
        self._group: Group | None = None
        self._pipes = Pipes()

    async def prepare(self, sink: Sink) -> None:  # noqa: ARG002 - there is nothing to say
        """Make the directory."""
        self._user = user = self._executor.users.user_of(self._launch)
        self._workspace.make((user.uid, user.gid) if user else None)

    async def put(self, path: str, content: bytes) -> None:
        """Write the file."""
        await self._workspace.put(path, content)

    async def start(self) -> None:
        """Start the process."""
        launch = self._launch
        start = ProcessStart(
            job=launch.job_id,
            claim=launch.claim_id,
            argv=launch.argv,
            environment=self._executor.environment(launch, self._user),
            directory=launch.directory,
            record=self._workspace.record_path,
            user=self._user,
        )
        try:
            self._watchdog = await self._executor.watchdogs.get()
            async with self._pipes.writers() as (stdout, stderr):
                self._group = await self._watchdog.spawn(start, stdout, stderr)
        except OSError as error:  # out of descriptors, processes or memory
            message = f"no process can be started: {error.strerror}"
            raise WorkerUnable(message, "processes") from None
        self._workspace.note_start(self._executor.clock(), await self._group.started)

    @property
    def is_reachable(self) -> bool:
        """Always true: the watchdog reports the end of its processes."""
        return True

    @property
    def pid(self) -> int | None:
        """The pid of the first process; None before the start."""
        return self._workspace.pid

    async def stream(self, sink: Sink) -> None:
        """Pass all output to `sink`; return when no process can write any more."""
        await self._pipes.stream(sink)

    async def wait(self) -> Ended:
        """Wait until no process of the job is alive."""
        if self._group is None:
            raise StartFailed("the job has not been started")
        return await asyncio.shield(self._group.ended)

    async def stop(self, seconds: float) -> None:
        """Send TERM to all processes of the job, and KILL after `seconds`."""
        if self._watchdog is not None:
            await self._watchdog.stop(self._launch.job_id, seconds)

    async def collector(self) -> Collector:
        """Return the collector of the artifacts in the job's directory."""
        return self._workspace.collector()

    def keep(self, report: Report, unsent: list[OutputLines]) -> None:
        """Write the outcome to the job's record."""
        self._workspace.keep(report, unsent)

    async def discard(self) -> None:
        """Remove the job's directory and record."""
        await self._workspace.discard()
