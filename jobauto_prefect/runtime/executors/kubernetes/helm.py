"""Installs the release an application needs, before its job.

`helm` is a process under the worker's watchdog, so that it ends with its worker. A worker runs one
installation of a release at a time. Between workers Helm refuses a release that is being installed,
and the refused worker retries for Helm's timeout.
"""

import asyncio
import csv
import os
from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path

from jobauto_prefect.errors import StartFailed
from jobauto_prefect.runtime.executor import Sink
from jobauto_prefect.runtime.exit_codes import NOT_EXECUTABLE
from jobauto_prefect.runtime.orphan_processes import ProcessFingerprint, terminate_all
from jobauto_prefect.runtime.output.lines import Stream
from jobauto_prefect.runtime.output.pipes import Pipes
from jobauto_prefect.runtime.protocol import HelmRun, Launch
from jobauto_prefect.runtime.watchdog.client import Watchdog, WatchdogSupervisor
from jobauto_prefect.runtime.watchdog.job_handles import Ended, Group, ProcessStart
from jobauto_prefect.runtime.watchdog.jobs import MARKER
from jobauto_prefect.runtime.worker_config import KubernetesConfig
from jobauto_prefect.runtime.workspace import JobRecord

OVER_SECONDS = 60.0  # in addition to Helm's own timeout, for fetching the chart and rolling back
STOP_SECONDS = 10.0  # for Helm to mark a release as failed when asked to end
BUSY_PAUSE_SECONDS = 2.0
ERROR_BYTES = 4096  # bytes of stderr that are examined
NOT_PASSED_ON = ("JOBAUTO_", "MULTIFLEXI_", "PREFECT_", "DB_")

BUSY = ("another operation (install/upgrade/rollback) is in progress",)
BUSY_UPGRADE = (*BUSY, "cannot re-use a name that is still in use", "release: already exists")
"""Helm's messages about a release that another process is installing; the last two appear if
neither process found one."""


class Releases:
    """Installs the releases that the jobs of one worker need."""

    def __init__(self, watchdogs: WatchdogSupervisor, plan: KubernetesConfig) -> None:
        self._watchdogs = watchdogs
        self._plan = plan
        self._locks: defaultdict[str, asyncio.Lock] = defaultdict(asyncio.Lock)

    async def install(
        self, launch: Launch, run: HelmRun, namespace: str, record: str, sink: Sink
    ) -> None:
        """Run `helm` until it succeeds; its output goes to `sink`.

        Raises:
            StartFailed: with Helm's message.
        """
        lock = self._locks[run.release]
        try:
            async with asyncio.timeout(run.timeout_seconds):
                await lock.acquire()
        except TimeoutError:
            message = f"timed out waiting for other jobs that install {run.release.strip('/')}"
            raise StartFailed(message, NOT_EXECUTABLE) from None
        try:
            await self._install(self._start(launch, run, namespace, record), run, sink)
        finally:
            lock.release()

    async def _install(self, start: ProcessStart, run: HelmRun, sink: Sink) -> None:
        loop = asyncio.get_running_loop()
        until = loop.time() + run.timeout_seconds
        while True:
            tail = ErrorTail(sink)
            ended = await self._run(start, run, tail)
            if ended.lost is not None:
                raise StartFailed(ended.lost)
            if ended.exit_code == 0:
                return
            if not tail.contains(BUSY_UPGRADE if run.argv[1] == "upgrade" else BUSY):
                raise StartFailed(f"helm failed: {tail.message()}", ended.exit_code)
            if loop.time() + BUSY_PAUSE_SECONDS > until:
                raise StartFailed(f"helm timed out waiting: {tail.message()}", ended.exit_code)
            await asyncio.sleep(BUSY_PAUSE_SECONDS)

    async def terminate_leftovers(self, records: Sequence[JobRecord], stop_seconds: float) -> None:
        """Terminate helm processes left by a predecessor's jobs."""
        traces = [
            ProcessFingerprint(None, None, f"{MARKER}={record.directory}") for record in records
        ]
        await terminate_all(traces, stop_seconds)

    def _start(self, launch: Launch, run: HelmRun, namespace: str, record: str) -> ProcessStart:
        folder = self._plan.helm_directory or Path(launch.directory)
        inherited = {
            name: text for name, text in os.environ.items() if not name.startswith(NOT_PASSED_ON)
        }
        return ProcessStart(
            job=launch.job_id,
            claim=launch.claim_id,
            argv=confined_argv(run.argv, folder),
            environment={
                "PATH": os.defpath,
                **inherited,
                "HELM_NAMESPACE": namespace,
                **({"HELM_KUBECONTEXT": self._plan.context} if self._plan.context else {}),
                MARKER: launch.directory,
            },
            directory=launch.directory,
            record=record,
            folder=str(folder) if folder.is_dir() else None,
        )

    async def _run(self, start: ProcessStart, run: HelmRun, tail: "ErrorTail") -> Ended:
        watchdog = await self._watchdogs.get()
        pipes = Pipes()
        try:
            async with pipes.writers() as (stdout, stderr):
                group = await watchdog.spawn(start, stdout, stderr)
        except OSError as error:
            raise StartFailed(f"helm can't be started: {error.strerror}", NOT_EXECUTABLE) from None
        reading = asyncio.create_task(pipes.stream(tail.take))
        try:
            async with asyncio.timeout(run.timeout_seconds + OVER_SECONDS):
                ended = await asyncio.shield(group.ended)
        except TimeoutError:
            await self._stop(watchdog, start.job, group)
            message = f"helm was stopped: it took more than {run.timeout_seconds} s"
            raise StartFailed(message, NOT_EXECUTABLE) from None
        except asyncio.CancelledError:
            await self._stop(watchdog, start.job, group)
            raise
        finally:
            await asyncio.wait({reading}, timeout=1)
            reading.cancel()
        return ended

    async def _stop(self, watchdog: Watchdog, job: int, group: Group) -> None:
        await watchdog.stop(job, STOP_SECONDS)
        await asyncio.shield(group.ended)


def confined_argv(argv: Sequence[str], folder: Path) -> list[str]:
    """Return the `helm` command with its local chart and values files as paths in the folder.

    Links are followed. A file that is not found is not left to Helm, which would also read URLs.

    Raises:
        StartFailed: a file is not in the folder.
    """
    words = list(argv)
    chart = 4 if words[1] == "upgrade" else 3
    if words[chart].startswith((".", "/")) or (folder / words[chart]).exists():
        words[chart] = _path_within(folder, words[chart])
    for place, word in enumerate(words[:-1]):
        if word == "--values":
            (path,) = next(csv.reader([words[place + 1]]))
            quoted = _path_within(folder, path).replace('"', '""')
            words[place + 1] = f'"{quoted}"'  # Helm reads comma-separated paths
    return words


def _path_within(folder: Path, path: str) -> str:
    try:
        real = (folder / path).resolve(strict=True)
    except (OSError, RuntimeError, ValueError):
        real = None
    if real is None or not real.is_relative_to(folder.resolve()):
        raise StartFailed(
            f"helm can't use {path}: charts and values files must be in {folder}, and so must "
            "the targets of links; "
            "an administrator can put it there, or set JOBAUTO_HELM_DIRECTORY",
            NOT_EXECUTABLE,
        )
    return str(real)


class ErrorTail:
    """Passes output on and keeps the end of stderr."""

    def __init__(self, sink: Sink) -> None:
        self._sink = sink
        self._stderr = b""

    async def take(self, stream: Stream, data: bytes) -> None:
        """Pass a piece of output on, and keep the end of stderr."""
        if stream == "stderr":
            self._stderr = (self._stderr + data)[-ERROR_BYTES:]
        await self._sink(stream, data)

    def contains(self, phrases: Sequence[str]) -> bool:
        """Whether stderr contains one of these phrases."""
        text = self._stderr.decode(errors="replace")
        return any(phrase in text for phrase in phrases)

    def message(self) -> str:
        """Return Helm's error without its earlier output."""
        lines = [line.strip() for line in self._stderr.decode(errors="replace").splitlines()]
        lines = [line for line in lines if line]
        first = next((n for n, line in enumerate(lines) if line.startswith("Error:")), -1)
        return " ".join(lines[first:]) if lines else "no message"
