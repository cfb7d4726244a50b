"""One job from its launch to its accepted report."""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from datetime import datetime
from typing import NamedTuple

from jobauto_prefect.errors import (
    Forbidden,
    JobautoError,
    StartFailed,
    Unauthorized,
    WorkerUnable,
)
from jobauto_prefect.retries import retry_until_available
from jobauto_prefect.runtime.executor import Execution
from jobauto_prefect.runtime.exit_codes import NOT_EXECUTABLE
from jobauto_prefect.runtime.facade_client import FacadeClient
from jobauto_prefect.runtime.output.artifacts import plain_values
from jobauto_prefect.runtime.output.lines import Output, Stream
from jobauto_prefect.runtime.output.masking import Masker
from jobauto_prefect.runtime.output.sender import OutputSender
from jobauto_prefect.runtime.protocol import Ending, Launch, OutputLines, Report, ReportAnswer

logger = logging.getLogger(__name__)

LAST_OUTPUT_SECONDS = 2.0  # for reading the rest of the pipes once the processes have ended
FULL_PAUSE_SECONDS = 0.002  # between reads of output that is no longer kept: some 30 MB/s
MOST_NOTICES = 100
MOST_FILES_SHOWN = 10  # of those a job left

OnLines = Callable[[list[OutputLines]], Awaitable[None]]
Confirm = Callable[[Launch], Awaitable[None]]
"""Raises Conflict if a launch no longer belongs to this worker."""


class Outcome(NamedTuple):
    """How a job ended.

    `answer` is None if the ledger rejected the report; `kept` says that the report stays on disk
    for a later start of the worker.
    """

    report: Report
    answer: ReportAnswer | None
    kept: bool = False


class StopReason(NamedTuple):
    """Why a job is being ended."""

    ending: Ending
    message: str


class Job:
    """Runs one job, once. Other tasks may call `stop` and `abandon` at any time."""

    def __init__(
        self,
        launch: Launch,
        execution: Execution,
        client: FacadeClient,
        *,
        worker: str,
        stop_seconds: float,
        on_lines: OnLines | None = None,
        confirm: Confirm | None = None,
    ) -> None:
        self.launch = launch
        self._confirm = confirm
        self._execution = execution
        self._client = client
        self._worker = worker
        self._stop_seconds = stop_seconds
        self._clock = client.clock
        self._output = Output(launch.secrets, launch.output_limit_bytes, client.clock)
        self._sender = OutputSender(launch, client, self._output, on_lines)
        self._masker = Masker(launch.secrets)
        self._produced: dict[str, dict[str, str]] = {}
        self._why: StopReason | None = None
        self._kept = False
        self.is_settled = False  # the ledger has its report, or does not want one
        self.unable: WorkerUnable | None = None  # why this worker could not start it
        self._runs = False
        self._preparing: asyncio.Task[None] | None = None
        self._telling: asyncio.Task[Outcome] | None = None
        self._stopping: asyncio.Task[None] | None = None

    def stop(self, message: str, ending: Ending = Ending.CANCELLED) -> None:
        """End the job's processes; the first reason counts. No effect after its end."""
        if self._why is None:
            self._why = StopReason(ending, message)
            self._end_processes()

    def abandon(self) -> None:
        """Stop waiting for the facade; an unsent report stays on disk."""
        if self._telling is not None:
            self._telling.cancel()

    async def run(self) -> Outcome:
        """Run the process, pass its output on, and report its end to the ledger."""
        sending = asyncio.create_task(self._sender.run())
        for notice in self.launch.notices:
            self._output.notice(notice)
        try:
            report = await self._execute()
            self._output.finish()
            self._keep(report)
            self._telling = asyncio.create_task(self._tell(report, sending))
            await asyncio.wait({self._telling})
            if not self._telling.cancelled():
                return self._telling.result()
            self._keep(report)
            return Outcome(report, None, kept=True)
        finally:
            self.abandon()
            sending.cancel()

    def _keep(self, report: Report) -> None:
        """Save the report on disk for a later worker."""
        self._execution.keep(report, self._sender.unsent())

    @property
    def is_reachable(self) -> bool:
        """Whether the job's state can be read; see `Execution.is_reachable`."""
        return self._execution.is_reachable

    # the processes

    async def _execute(self) -> Report:
        try:
            await self._prepare()
            if self._why is not None:
                return self._report(*self._why)
            started_at = self._clock()  # afterwards it may already have been running for a while
            await self._execution.start()
        except StartFailed as error:
            return self._not_started(error)
        self._runs = True
        try:
            return await self._run_to_end(started_at)
        except BaseException:  # otherwise the processes would be left alone
            await asyncio.shield(self._execution.stop(self._stop_seconds))
            raise

    async def _prepare(self) -> None:
        """Prepare the job; return early if it is stopped meanwhile."""
        if self._why is not None:
            return
        self._preparing = asyncio.create_task(self._get_ready())
        try:
            await asyncio.wait({self._preparing})
        finally:
            self._preparing.cancel()
        if not self._preparing.cancelled():
            self._preparing.result()

    async def _get_ready(self) -> None:
        await self._execution.prepare(self._read)
        job_id, claim_id = self.launch.job_id, self.launch.claim_id
        for file in self.launch.inputs:
            try:
                content = await retry_until_available(
                    self._client.input, job_id, claim_id, file.artifact_id
                )
            except JobautoError as error:
                raise StartFailed(
                    f"its input {file.path} can't be fetched: {error}", NOT_EXECUTABLE
                ) from None
            await self._execution.put(file.path, content)
        try:
            if self._confirm is not None:
                await self._confirm(self.launch)
        except JobautoError as error:
            raise StartFailed(f"it was not started: {error}") from None

    async def _run_to_end(self, started_at: datetime) -> Report:
        limit = self.launch.timeout_seconds
        timer = asyncio.get_running_loop().call_later(
            limit, self.stop, f"it ran longer than {limit:g} s", Ending.TIMEOUT
        )
        if self._why is not None:  # stopped while it was starting
            self._end_processes()
        streaming = asyncio.create_task(self._execution.stream(self._read))
        try:
            ended = await self._execution.wait()
        except StartFailed as error:  # it turned out only now that it could not start
            return self._not_started(error) if self._why is None else self._report(*self._why)
        finally:
            timer.cancel()
            self._runs = False
            await _finish(streaming)
        why = StopReason(Ending.LOST, ended.lost) if ended.lost else self._why
        ending, message = why or StopReason(Ending.EXITED, "")
        return self._report(ending, message, ended.exit_code, started_at)

    def _end_processes(self) -> None:
        if self._preparing is not None:
            self._preparing.cancel()
        if self._runs:
            self._stopping = asyncio.create_task(self._execution.stop(self._stop_seconds))

    async def _read(self, stream: Stream, data: bytes) -> None:
        self._output.feed(stream, data)
        self._sender.wake()
        if self._output.is_full:
            await asyncio.sleep(FULL_PAUSE_SECONDS)

    # the outcome

    def _not_started(self, error: StartFailed) -> Report:
        message = self._masker.mask(str(error))
        self._output.notice(message)
        if isinstance(error, WorkerUnable):
            self.unable = error
            return self._report(Ending.LOST, message).model_copy(update={"worker_unable": True})
        if error.exit_code is None:
            return self._report(Ending.LOST, message)
        return self._report(Ending.NOT_STARTED, message, error.exit_code)

    def _report(
        self,
        ending: Ending,
        message: str,
        exit_code: int | None = None,
        started_at: datetime | None = None,
    ) -> Report:
        return Report(
            claim_id=self.launch.claim_id,
            worker=self._worker,
            ending=ending,
            exit_code=exit_code,
            pid=self._execution.pid,
            message=message,
            started_at=started_at,
            ended_at=self._clock(),
        )

    async def _tell(self, report: Report, sending: asyncio.Task[None]) -> Outcome:
        # The directory of a lost job may already be gone.
        if report.started_at is not None and report.ending is not Ending.LOST:
            try:
                await self._send_artifacts()
            except Exception as error:  # whatever artifacts a job leaves, its exit code decides
                logger.exception("artifacts of job %s were not kept", self.launch.job_id)
                self._output.notice(f"artifacts were not kept: {type(error).__name__}")
        self._sender.finish()
        await sending
        report = report.model_copy(
            update={
                "lines": self._output.lines,
                "notices": self._output.notices[:MOST_NOTICES],
                "produced": self._produced,
            }
        )
        return Outcome(report, await self._send_report(report), self._kept)

    async def _send_artifacts(self) -> None:
        collector = await self._execution.collector()
        artifacts = collector.artifacts(self.launch.result_file, self.launch.artifacts)
        job_id, claim_id = self.launch.job_id, self.launch.claim_id
        while (artifact := await asyncio.to_thread(next, artifacts, None)) is not None:
            try:
                await retry_until_available(self._client.artifact, job_id, claim_id, artifact)
            except JobautoError as error:
                collector.notices.append(f"not kept: {artifact.path}: {error}")
            values = plain_values(artifact, self._masker)
            if values and len(self._produced) < MOST_FILES_SHOWN:
                self._produced[artifact.path] = dict(values)
        for notice in collector.notices:
            self._output.notice(self._masker.mask(notice))

    async def _send_report(self, report: Report) -> ReportAnswer | None:
        job_id, answer = self.launch.job_id, None
        try:
            answer = await retry_until_available(self._client.report, job_id, report)
        except JobautoError as error:
            logger.warning("the outcome of job %s was refused: %s", job_id, error)
            if isinstance(error, Unauthorized | Forbidden):
                self._kept = True  # this worker can report it after a restart with a better token
                return None
        self.is_settled = True
        await self._execution.discard()
        return answer


async def _finish(streaming: asyncio.Task[None]) -> None:
    """Read the last output; a process may still hold the pipe open."""
    await asyncio.wait({streaming}, timeout=LAST_OUTPUT_SECONDS)
    streaming.cancel()
    await asyncio.wait({streaming})
    if not streaming.cancelled() and (error := streaming.exception()):
        logger.error("output was lost", exc_info=error)
