"""All jobs of one worker: their leases, their ends, and its shutdown."""

import asyncio
import contextlib
import logging
from collections.abc import Collection, Iterator, Mapping
from types import TracebackType
from typing import Self
from uuid import UUID

from jobauto_prefect.errors import InvalidInput, JobautoError, StartFailed
from jobauto_prefect.logs import current_log_context, log_context, valid_traceparent
from jobauto_prefect.monitoring import tracing
from jobauto_prefect.retries import retry_until_available
from jobauto_prefect.runtime.executor import Executor
from jobauto_prefect.runtime.exit_codes import NOT_EXECUTABLE
from jobauto_prefect.runtime.facade_client import FacadeClient
from jobauto_prefect.runtime.fitness import NAME, PROTOCOL, Fitness
from jobauto_prefect.runtime.job import Confirm, Job, OnLines, Outcome
from jobauto_prefect.runtime.protocol import Ending, Launch, Renewal, Report

logger = logging.getLogger(__name__)
RENEWALS_PER_LEASE = 3
LAST_REPORT_SECONDS = 5.0  # for reporting outcomes when the worker shuts down
SHUTDOWN = "shutdown"
TRACEPARENT = "TRACEPARENT"
NOT_UNDERSTOOD = (
    "the service does not understand this worker ({}); install the same version of jobauto here"
)
SUPERSEDED = "another worker has taken this one's name, or this one was declared lost"


class HeldJobs:
    """The claims and jobs of one worker process.

    A job is held from its grant until its report is accepted. Each renewal lists everything the
    facade granted, first as claim, then as job: what is not listed has no process.
    """

    def __init__(self, worker: str, instance: UUID) -> None:
        self.worker = worker
        self.instance = instance
        self._claims: set[UUID] = set()
        self._jobs: dict[int, UUID] = {}
        self._left: dict[int, UUID] = {}
        self._stops: dict[int, str] = {}
        self._number = self._answered = 0

    @contextlib.contextmanager
    def claiming(self, claim_id: UUID) -> Iterator[None]:
        """Hold a claim while it waits for an answer; call `hold` for a granted job within."""
        self._claims.add(claim_id)
        try:
            yield
        finally:
            self._claims.discard(claim_id)

    def hold(self, launch: Launch) -> None:
        """Hold a granted job."""
        self._jobs[launch.job_id] = launch.claim_id

    def release(self, job_id: int) -> None:
        """Release a job that has ended and has been reported."""
        self._jobs.pop(job_id, None)
        self._stops.pop(job_id, None)

    def leave_to_successor(self, job_id: int) -> None:
        """Leave a job whose outcome this worker can't report to a later start."""
        if job_id in self._jobs:
            self._left[job_id] = self._jobs[job_id]
        self.release(job_id)

    def stop(self, job_id: int, why: str) -> None:
        """Mark a job to end before it starts; see `reason_to_stop`."""
        if job_id in self._jobs:
            self._stops.setdefault(job_id, why)

    def reason_to_stop(self, job_id: int) -> str | None:
        """Return why a job must not start; None if it may."""
        return self._stops.get(job_id)

    def next_renewal(
        self,
        *,
        settled: Collection[int] = (),
        unreachable: Collection[int] = (),
        hindrances: Mapping[str, str] | None = None,
        clock_ahead: float = 0.0,
    ) -> Renewal:
        """Build the next renewal; `settled` jobs are released, `unreachable` ones unknown."""
        self._number += 1
        held = {job: claim for job, claim in self._jobs.items() if job not in settled}
        unknown = {job: claim for job, claim in held.items() if job in unreachable}
        return Renewal(
            worker=self.worker,
            instance=self.instance,
            number=self._number,
            answered=self._answered,
            jobs={job: claim for job, claim in held.items() if job not in unknown},
            claims=sorted(self._claims),
            unknown=unknown | self._left,
            hindrances=dict(hindrances or {}),
            clock_ahead=clock_ahead,
        )

    def answered(self, renewal: Renewal) -> None:
        """Note that a renewal has been answered."""
        self._answered = max(self._answered, renewal.number)


class Runner:
    """Runs the jobs of a worker; leaving its context closes executors and ends running jobs."""

    def __init__(
        self,
        client: FacadeClient,
        executors: Mapping[str, Executor],
        *,
        held: HeldJobs,
        fitness: Fitness,
        lease_seconds: float,
        stop_seconds: float,
    ) -> None:
        self._client = client
        self._executors = executors
        self._held = held
        self._fitness = fitness
        self._worker = held.worker
        self._lease_seconds = lease_seconds
        self._stop_seconds = stop_seconds
        self._clock = client.clock
        self._jobs: dict[int, Job] = {}
        self._begun_at: dict[int, float] = {}
        self._renewed_at = float("-inf")
        self._idle = asyncio.Event()
        self._idle.set()
        self._grace: asyncio.Timeout | None = None
        self._tasks: list[asyncio.Task[None]] = []

    async def __aenter__(self) -> Self:
        loops = (self._renew_for_ever(), self._fitness.run())
        self._tasks = [asyncio.create_task(loop) for loop in loops]
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        for task in self._tasks:
            task.cancel()
        for executor in self._executors.values():
            await executor.close()

    @property
    def jobs(self) -> frozenset[int]:
        """The ids of the unsettled jobs."""
        return frozenset(self._jobs)

    async def run(
        self,
        launch: Launch,
        on_lines: OnLines | None = None,
        confirm: Confirm | None = None,
    ) -> Outcome:
        """Run a claimed job until the ledger has its outcome.

        `on_lines` gets its output in batches as it arrives, and must not block. `confirm` is called
        right before the process starts.
        """
        self._held.hold(launch)
        try:
            with log_context(job_id=launch.job_id), _span_of(launch) as traced:
                outcome = await self._run(traced, on_lines, confirm)
            if outcome.kept:
                self._held.leave_to_successor(launch.job_id)
            return outcome
        finally:
            self._held.release(launch.job_id)

    async def _run(
        self, launch: Launch, on_lines: OnLines | None, confirm: Confirm | None
    ) -> Outcome:
        executor = self._executors.get(launch.executor)
        if executor is None:
            there = ", ".join(sorted(self._executors))
            why = f"this worker has no executor {launch.executor}; it has {there}"
            return await self._refuse(launch, why)
        try:
            execution = executor.execution(launch)
        except StartFailed as error:
            return await self._refuse(launch, str(error))
        job = Job(
            launch,
            execution,
            self._client,
            worker=self._worker,
            stop_seconds=self._stop_seconds,
            on_lines=on_lines,
            confirm=confirm,
        )
        self._jobs[launch.job_id] = job
        self._begun_at[launch.job_id] = asyncio.get_running_loop().time()
        self._idle.clear()
        if (stop := self._held.reason_to_stop(launch.job_id)) is not None:
            job.stop(stop)
        try:
            return await job.run()
        finally:
            if job.unable is not None:
                self._fitness.note_missing(job.unable.part, str(job.unable))
            del self._jobs[launch.job_id], self._begun_at[launch.job_id]
            if not self._jobs:
                self._idle.set()

    def stop(self, job_id: int, message: str) -> bool:
        """Cancel a job; return False if it is not running here. A claimed one will not start."""
        job = self._jobs.get(job_id)
        if job is not None:
            job.stop(message)
        else:
            self._held.stop(job_id, message)
        return job is not None

    async def drain(self, grace_seconds: float) -> None:
        """Wait for the jobs for the grace period and end the others as lost.

        An outcome the facade does not accept soon stays on disk for the next worker of this name.
        """
        if await self._wait_until_idle(grace_seconds):
            return
        for job in self._jobs.values():
            job.stop(SHUTDOWN, Ending.LOST)
        if not await self._wait_until_idle(self._stop_seconds + LAST_REPORT_SECONDS):
            for job in self._jobs.values():
                job.abandon()
            await self._wait_until_idle(1)

    def hurry(self, grace_seconds: float) -> None:
        """Shorten the grace period of a running drain."""
        if self._grace is not None:
            when = asyncio.get_running_loop().time() + grace_seconds
            self._grace.reschedule(min(when, self._grace.when() or when))

    async def _wait_until_idle(self, seconds: float) -> bool:
        try:
            async with asyncio.timeout(seconds) as self._grace:
                await self._idle.wait()
        except TimeoutError:
            return False
        finally:
            self._grace = None
        return True

    async def _refuse(self, launch: Launch, why: str) -> Outcome:
        report = Report(
            claim_id=launch.claim_id,
            worker=self._worker,
            ending=Ending.NOT_STARTED,
            exit_code=NOT_EXECUTABLE,
            message=why,
            ended_at=self._clock(),
        )
        try:
            answer = await retry_until_available(self._client.report, launch.job_id, report)
        except JobautoError as error:
            logger.warning("the outcome of job %s was refused: %s", launch.job_id, error)
            return Outcome(report, None)
        return Outcome(report, answer)

    async def _renew_for_ever(self) -> None:
        """Renew the leases of all jobs; without jobs it is still the worker's sign of life."""
        pause = self._lease_seconds / RENEWALS_PER_LEASE
        while True:
            try:
                async with asyncio.timeout(pause):
                    await self._renew()
            except (JobautoError, TimeoutError) as error:
                if isinstance(error, InvalidInput):  # it drains: the leases go on, see SignOfLife
                    self._fitness.note_missing(PROTOCOL, NOT_UNDERSTOOD.format(error))
                logger.warning("leases were not renewed: %s", str(error) or "no answer in time")
                self._stop_without_contact()
            await asyncio.sleep(pause)

    def _stop_without_contact(self) -> None:
        now = asyncio.get_running_loop().time()
        for job_id, job in self._jobs.items():
            silent = now - max(self._renewed_at, self._begun_at[job_id])
            if job.launch.stop_without_contact and silent >= self._lease_seconds:
                job.stop("its worker had no contact with the service for one lease", Ending.LOST)

    async def _renew(self) -> None:
        asked_at = asyncio.get_running_loop().time()
        renewal = self._held.next_renewal(
            settled=[job_id for job_id, job in self._jobs.items() if job.is_settled],
            unreachable=[job_id for job_id, job in self._jobs.items() if not job.is_reachable],
            hindrances=self._fitness.hindrances,
            clock_ahead=round(self._clock.host_is_ahead.total_seconds(), 1),
        )
        answer = await self._client.renew(renewal)
        self._held.answered(renewal)
        self._renewed_at = asked_at
        self._fitness.note_available(PROTOCOL)
        if answer.superseded:
            self._fitness.note_missing(NAME, SUPERSEDED)
        self._fitness.note_useless(answer.useless)
        for job_id, why in answer.stop.items():
            self.stop(job_id, why)


@contextlib.contextmanager
def _span_of(launch: Launch) -> Iterator[Launch]:
    """Trace the job's process as a span; yield the launch that passes the trace on to it."""
    given = launch.environment.get(TRACEPARENT)
    parent = valid_traceparent(given)
    attributes: tracing.Attributes = {
        "jobauto.job_id": launch.job_id,
        "jobauto.attempt": launch.attempt,
        "jobauto.executor": launch.executor,
        "jobauto.company": launch.company,
    }
    with tracing.span("job", parent, attributes) as made:
        if made is None or given != parent:  # the definition uses that name for something else
            yield launch
        else:
            environment = {
                **launch.environment,
                TRACEPARENT: current_log_context().traceparent or "",
            }
            yield launch.model_copy(update={"environment": environment})
