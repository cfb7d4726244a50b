"""The Native executor: a job is a process of this machine, in a directory of its own."""

import asyncio
import contextlib
import logging
import os
from collections.abc import AsyncIterator, Awaitable, Callable

from jobauto_prefect.clock import Clock, utc_now
from jobauto_prefect.errors import StartFailed
from jobauto_prefect.runtime.artifacts import Collector
from jobauto_prefect.runtime.executor import Sink
from jobauto_prefect.runtime.launch import TEMPORARY
from jobauto_prefect.runtime.output import Stream
from jobauto_prefect.runtime.protocol import Launch, Report
from jobauto_prefect.runtime.watchdog import tree
from jobauto_prefect.runtime.watchdog.client import Ended, Group, Start, User, Watchdog
from jobauto_prefect.runtime.workplace import JobRecord, Workplace

logger = logging.getLogger(__name__)

INHERITED = ("PATH", "HOME", "LANG", "TZ")
"""All that a job gets of its worker's own environment."""

READ_BYTES = 1 << 16


class NativeExecutor:
    """Starts processes through the worker's watchdog; a dead watchdog is replaced."""

    def __init__(
        self,
        workplace: Workplace,
        start_watchdog: Callable[[], Awaitable[Watchdog]],
        user: User | None = None,
        clock: Clock = utc_now,
    ) -> None:
        self.workplace = workplace
        self.user = user
        self.clock = clock
        self._start_watchdog = start_watchdog
        self._watchdog: Watchdog | None = None
        self._starting = asyncio.Lock()
        self._inherited = {name: os.environ[name] for name in INHERITED if name in os.environ}
        if user is not None:
            self._inherited["HOME"] = user.home

    def prepare(self, launch: Launch) -> "NativeExecution":
        """An execution that has not begun."""
        return NativeExecution(self, launch)

    def environment(self, launch: Launch) -> dict[str, str]:
        """All variables of a job."""
        return {"PATH": os.defpath, **self._inherited, **launch.environment}

    async def watchdog(self) -> Watchdog:
        """The one that lives."""
        async with self._starting:
            if self._watchdog is None or not self._watchdog.alive:
                self._watchdog = await self._start_watchdog()
            return self._watchdog

    async def close(self) -> None:
        """Let the watchdog go, which ends what still runs."""
        if self._watchdog is not None and self._watchdog.alive:
            await self._watchdog.close()


class NativeExecution:
    """One process and its descendants."""

    def __init__(self, executor: NativeExecutor, launch: Launch) -> None:
        self._executor = executor
        self._launch = launch
        self._record = JobRecord(
            job_id=launch.job_id,
            claim_id=launch.claim_id,
            directory=launch.directory,
            boot_id=tree.boot_id(),
        )
        self._watchdog: Watchdog | None = None
        self._group: Group | None = None
        self._readers: dict[Stream, int] = {}

    async def start(self) -> None:
        """Make the directory and start the process."""
        user = self._executor.user
        self._executor.workplace.make(
            self._record, owner=(user.uid, user.gid) if user else None, folder=TEMPORARY
        )
        try:
            self._watchdog = await self._executor.watchdog()
            async with self._pipes() as (stdout, stderr):
                self._group = await self._watchdog.spawn(self._start_message(), stdout, stderr)
        except OSError as error:  # no more descriptors, processes or memory
            raise StartFailed(f"the job can't be started: {error.strerror}", 126) from None
        self._note_start(await self._group.started)

    def _start_message(self) -> Start:
        launch = self._launch
        return Start(
            job=launch.job_id,
            claim=launch.claim_id,
            argv=launch.argv,
            environment=self._executor.environment(launch),
            directory=launch.directory,
            record=str(self._executor.workplace.record_path(launch.job_id)),
            user=self._executor.user,
        )

    @contextlib.asynccontextmanager
    async def _pipes(self) -> AsyncIterator[tuple[int, int]]:
        """The writing ends, closed here afterwards; the reading ends only if nothing started."""
        stdout_reader, stdout = os.pipe()
        stderr_reader, stderr = os.pipe()
        self._readers = {"stdout": stdout_reader, "stderr": stderr_reader}
        try:
            yield stdout, stderr
        except BaseException:
            for reader in self._readers.values():
                os.close(reader)
            raise
        finally:
            os.close(stdout)
            os.close(stderr)

    @property
    def pid(self) -> int | None:
        """The number of its leading process; None: it has not begun."""
        return self._record.pid

    def _note_start(self, pid: int) -> None:
        leader = tree.read(pid)
        self._record.pid = pid
        self._record.started = leader.started if leader else None
        self._record.started_at = self._executor.clock()
        self._write()

    async def stream(self, sink: Sink) -> None:
        """Hand all output on; returns when nobody can write any more."""
        async with asyncio.TaskGroup() as tasks:
            for stream, descriptor in self._readers.items():
                tasks.create_task(_pump(stream, descriptor, sink))

    async def wait(self) -> Ended:
        """Returns when no process of the job lives."""
        if self._group is None:
            raise StartFailed("the job has not been started")
        return await asyncio.shield(self._group.ended)

    async def stop(self, seconds: float) -> None:
        """TERM to everything of the job, and KILL after so many seconds."""
        if self._watchdog is not None:
            await self._watchdog.stop(self._launch.job_id, seconds)

    def collector(self) -> Collector:
        """What takes the artifacts from the job's directory."""
        user = self._executor.user
        return Collector(
            self._launch.directory,
            user.uid if user else os.geteuid(),
            self._launch.artifact_limit_bytes,
        )

    def keep(self, report: Report) -> None:
        """Write the outcome to the job's record."""
        self._record.report = report
        self._write()

    def _write(self) -> None:
        try:
            self._executor.workplace.write(self._record)
        except OSError as error:  # a full disk must not cost the job its outcome
            logger.warning("the record of job %s was not written: %s", self._record.job_id, error)

    async def discard(self) -> None:
        """Remove the job's directory and record."""
        await asyncio.to_thread(
            self._executor.workplace.remove, self._launch.job_id, self._launch.directory
        )


async def _pump(stream: Stream, descriptor: int, sink: Sink) -> None:
    reader = asyncio.StreamReader()
    transport, _ = await asyncio.get_running_loop().connect_read_pipe(
        lambda: asyncio.StreamReaderProtocol(reader), os.fdopen(descriptor, "rb", buffering=0)
    )
    try:
        while data := await reader.read(READ_BYTES):
            await sink(stream, data)
    finally:
        transport.close()
        await sink(stream, b"")
