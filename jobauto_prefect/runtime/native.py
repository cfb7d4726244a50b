"""The Native executor: a job is a process of this machine, in a directory of its own."""

import asyncio
import os
from collections.abc import Sequence

from jobauto_prefect.errors import StartFailed, WorkerUnable
from jobauto_prefect.runtime.artifacts import Collector
from jobauto_prefect.runtime.executor import Equipment, Sink
from jobauto_prefect.runtime.pipes import Pipes
from jobauto_prefect.runtime.place import JobPlace
from jobauto_prefect.runtime.protocol import Launch, OutputLines, Report
from jobauto_prefect.runtime.survivors import Traces, end_all
from jobauto_prefect.runtime.watchdog import tree
from jobauto_prefect.runtime.watchdog.client import Ended, Group, Start, User, Watchdog
from jobauto_prefect.runtime.watchdog.jobs import MARKER
from jobauto_prefect.runtime.workplace import JobRecord

INHERITED = ("PATH", "HOME", "LANG", "TZ")
"""All that a job gets of its worker's own environment."""


class NativeExecutor:
    """Starts processes through the worker's watchdog."""

    def __init__(self, equipment: Equipment) -> None:
        self.clock = equipment.clock
        self.workplace = equipment.workplace
        self.watchdogs = equipment.watchdogs
        self.users = equipment.users
        self._inherited = {name: os.environ[name] for name in INHERITED if name in os.environ}

    def execution(self, launch: Launch) -> "NativeExecution":
        """An execution that has not begun."""
        return NativeExecution(self, launch)

    def environment(self, launch: Launch, user: User | None) -> dict[str, str]:
        """All variables of a job."""
        own = {"HOME": user.home} if user else {}
        return {"PATH": os.defpath, **self._inherited, **own, **launch.environment}

    async def end_left(self, records: Sequence[JobRecord], stop_seconds: float) -> None:
        """TERM to all their processes, and KILL after so many seconds."""
        await end_all([_traces(record) for record in records], stop_seconds)

    async def check(self) -> None:
        """What it takes, every job takes; see `Fitness`."""

    async def close(self) -> None:
        """Nothing is held open for the next job."""


def _traces(record: JobRecord) -> Traces:
    same_boot = record.boot_id == tree.boot_id()
    return Traces(
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
        self._place = JobPlace(executor.workplace, launch)
        self._watchdog: Watchdog | None = None
        self._group: Group | None = None
        self._pipes = Pipes()

    async def prepare(self, sink: Sink) -> None:  # noqa: ARG002 - there is nothing to say
        """Make the directory."""
        self._user = user = self._executor.users.of(self._launch.company)
        self._place.make((user.uid, user.gid) if user else None)

    async def put(self, path: str, content: bytes) -> None:
        """Write the file."""
        await self._place.put(path, content)

    async def start(self) -> None:
        """Start the process."""
        try:
            self._watchdog = await self._executor.watchdogs.living()
            async with self._pipes.writers() as (stdout, stderr):
                self._group = await self._watchdog.spawn(self._start_message(), stdout, stderr)
        except OSError as error:  # no more descriptors, processes or memory
            message = f"no process can be started: {error.strerror}"
            raise WorkerUnable(message, "processes") from None
        self._place.note_start(self._executor.clock(), await self._group.started)

    def _start_message(self) -> Start:
        launch = self._launch
        return Start(
            job=launch.job_id,
            claim=launch.claim_id,
            argv=launch.argv,
            environment=self._executor.environment(launch, self._user),
            directory=launch.directory,
            record=self._place.record_path,
            user=self._user,
        )

    @property
    def is_reachable(self) -> bool:
        """Its watchdog always says what becomes of it."""
        return True

    @property
    def pid(self) -> int | None:
        """The number of its leading process; None: it has not begun."""
        return self._place.pid

    async def stream(self, sink: Sink) -> None:
        """Hand all output on; returns when nobody can write any more."""
        await self._pipes.stream(sink)

    async def wait(self) -> Ended:
        """Returns when no process of the job lives."""
        if self._group is None:
            raise StartFailed("the job has not been started")
        return await asyncio.shield(self._group.ended)

    async def stop(self, seconds: float) -> None:
        """TERM to everything of the job, and KILL after so many seconds."""
        if self._watchdog is not None:
            await self._watchdog.stop(self._launch.job_id, seconds)

    async def collector(self) -> Collector:
        """What takes the artifacts from the job's directory."""
        return self._place.collector()

    def keep(self, report: Report, unsent: list[OutputLines]) -> None:
        """Write the outcome to the job's record."""
        self._place.keep(report, unsent)

    async def discard(self) -> None:
        """Remove the job's directory and record."""
        await self._place.discard()
