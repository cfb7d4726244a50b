"""One flow run in the hands of the jobauto worker: claim, Running, job, final state."""

import asyncio
import logging
from collections.abc import Callable
from dataclasses import dataclass
from uuid import UUID, uuid4

from jobauto_prefect.engine.api import PrefectApi
from jobauto_prefect.engine.dispatch import UNKNOWN
from jobauto_prefect.engine.due import WaitingRun
from jobauto_prefect.engine.logs import LogShipper
from jobauto_prefect.engine.runs import ENDING, Answer, propose, states_of, was_ended
from jobauto_prefect.engine.show import Bearing, Shower, begin, beginning, persist
from jobauto_prefect.errors import (
    Conflict,
    Forbidden,
    JobautoError,
    Unauthorized,
)
from jobauto_prefect.jobs.appearance import Appearance
from jobauto_prefect.logs import about, current
from jobauto_prefect.runtime.client import insist
from jobauto_prefect.runtime.launch_claim import LaunchClaim
from jobauto_prefect.runtime.opening import OpenWorker
from jobauto_prefect.runtime.protocol import (
    Claim,
    ClaimAnswer,
    Ending,
    Launch,
    Report,
    Story,
)

logger = logging.getLogger(__name__)

TAKEN_SECONDS = 5.0  # until a run that another job holds is asked for again
FOREIGN_SECONDS = 60.0  # until a run that is none of ours is asked for again
UNAUTHORIZED_SECONDS = 30.0

NOT_YET_SECONDS = (0.02, 0.06)
"""An announcement may come before whoever made the run has noted whose it is; then the facade is
asked again so soon."""

OF_ENDS = frozenset({"jobauto.exit_code", "jobauto.severity"})
"""Labels that a run can't have from its beginning."""

RUNNING_SECONDS = 5.0
"""How long a claimed job waits for Prefect to say Running; then it starts all the same, and
Prefect hears of it when it is back."""

CANCELLED_IN_PREFECT = "cancelled in Prefect"
DELETED_IN_PREFECT = "its flow run was deleted in Prefect"
NO_DEPLOYMENT = "this work pool runs deployments of jobauto's run templates, and this run has none"


@dataclass(slots=True, eq=False)
class Flight:
    """A flow run in hand. `end` says why it must not start, or not go on."""

    run: WaitingRun
    claim: LaunchClaim | None = None
    claiming: "asyncio.Task[ClaimAnswer] | None" = None
    job_id: int | None = None
    checking: "asyncio.Task[None] | None" = None
    end: str | None = None


class Driver:
    """Drives flow runs, each on its own; `pause` is called where none can be claimed for now."""

    def __init__(
        self,
        api: PrefectApi,
        opened: OpenWorker,
        worker: str,
        logs: LogShipper,
        pause: Callable[[float], None],
    ) -> None:
        self._api = api
        self._opened = opened
        self._worker = worker
        self._logs = logs
        self._pause = pause
        self._shower = Shower(api, calm=self.decided)
        self._flights: dict[UUID, Flight] = {}
        self._undecided: set[Flight] = set()
        self._none_undecided = asyncio.Event()

    async def drive(self, run: WaitingRun) -> float:
        """Take a run from its claim to its end; returns the seconds to leave it alone."""
        if run.deployment_id is None:
            await persist(propose, self._api, run.id, "FAILED", NO_DEPLOYMENT)
            return FOREIGN_SECONDS
        with about():
            return await self._drive(run, run.deployment_id)

    async def _drive(self, run: WaitingRun, deployment_id: UUID) -> float:
        flight = self._flights[run.id] = Flight(run)
        self._undecided.add(flight)
        try:
            answer = await self._claim(flight, deployment_id)
            if isinstance(answer, float):
                return answer
            if answer.refusal is not None:
                await self._shower.show(run.id, answer.refusal.story, Bearing(run.labels))
            elif answer.launch is not None:
                await self._fly(flight, answer.launch)
            else:
                return UNKNOWN
        finally:
            if flight.job_id is not None:
                self._opened.held.release(flight.job_id)
            self._decided(flight)
            del self._flights[run.id]
        return 0

    # claiming

    async def _claim(self, flight: Flight, deployment_id: UUID) -> ClaimAnswer | float:
        """The facade's answer, or for how long to leave the run."""
        run = flight.run
        claim = Claim(
            claim_id=uuid4(),
            flow_run_id=run.id,
            run_number=run.run_count + 1,
            deployment_id=deployment_id,
            parameters=dict(run.parameters),
            auto_scheduled=run.auto_scheduled,
            scheduled_for=run.scheduled_for,
            idempotency_key=run.idempotency_key,
            announced=run.announced,
            worker=self._worker,
            instance=self._opened.held.instance,
            work_directory=self._opened.work_directory,
            without=self._opened.fitness.missing_executors,
        )
        # The same claim as long as there is no answer: one that got lost does no harm.
        flight.claim = LaunchClaim(self._opened.client, claim)
        with self._opened.held.claiming(claim.claim_id):
            flight.claiming = asyncio.create_task(_answer_to(flight.claim, run))
            await asyncio.wait({flight.claiming})
            if flight.claiming.cancelled():
                return TAKEN_SECONDS
            error = flight.claiming.exception()
            if error is not None:
                return self._refused(run, error)
            answer = flight.claiming.result()
            if answer.launch is not None:
                self._opened.held.hold(answer.launch)
            return answer

    def _refused(self, run: WaitingRun, error: BaseException) -> float:
        if isinstance(error, Conflict):
            logger.debug("flow run %s is left untouched: %s", run.id, error)
            return TAKEN_SECONDS
        if isinstance(error, Unauthorized):
            logger.error("the facade does not know this worker's token: %s", error)
            self._pause(UNAUTHORIZED_SECONDS)
        elif isinstance(error, Forbidden):
            logger.error("flow run %s can't be claimed: %s", run.id, error)
        elif isinstance(error, JobautoError):
            logger.error("the claim of flow run %s failed: %s", run.id, error)
        else:
            raise error
        return FOREIGN_SECONDS

    def give_up_claims(self) -> None:
        """Do not wait for the facade's answers any longer."""
        for flight in self._flights.values():
            if flight.claiming is not None:
                flight.claiming.cancel()

    async def decided(self) -> None:
        """Return when it is known of each run in hand whether a process starts for it."""
        while self._undecided:
            self._none_undecided.clear()
            await self._none_undecided.wait()

    def _decided(self, flight: Flight) -> None:
        self._undecided.discard(flight)
        if not self._undecided:
            self._none_undecided.set()

    # the job

    async def _fly(self, flight: Flight, launch: Launch) -> None:
        run, flight.job_id = flight.run, launch.job_id
        current().job_id = launch.job_id
        if not run.announced:
            looks = Appearance(run.name, run.tags)
            self._shower.begin(run.id, looks, beginning(looks, run.labels, launch))
        running = asyncio.create_task(begin(self._api, run.id))
        try:
            await asyncio.wait({running}, timeout=RUNNING_SECONDS)
            if running.done():
                flight.end = flight.end or _why_not(running.result())
            story = await self._run(flight, launch)
            # States come to Prefect in their order, also when it was away for a while.
            await running
        finally:
            running.cancel()
        if story is not None:
            await self._shower.show(run.id, story, _borne(run, launch, story))

    async def _run(self, flight: Flight, launch: Launch) -> Story | None:
        """What Prefect shall show; None: the ledger did not take the report."""
        if flight.checking is not None:
            await flight.checking
        self._decided(flight)
        if flight.end is not None:
            return await self._not_started(launch, flight.end)
        run_log = self._logs.run_log(flight.run.id, launch.job_id)
        confirm = flight.claim.confirm if flight.claim is not None else None
        outcome = await self._opened.runner.run(launch, run_log, confirm)
        return outcome.answer.story if outcome.answer else None

    async def _not_started(self, launch: Launch, why: str) -> Story | None:
        report = Report(
            claim_id=launch.claim_id,
            worker=self._worker,
            # A window is owed all the same, unless somebody cancelled its run.
            ending=Ending.LOST
            if launch.task_id and why != CANCELLED_IN_PREFECT
            else Ending.CANCELLED,
            message=why,
            ended_at=self._opened.client.clock(),
        )
        try:
            return (await insist(self._opened.client.report, launch.job_id, report)).story
        except JobautoError as error:
            logger.warning("the outcome of job %s was refused: %s", launch.job_id, error)
            return None
        finally:
            self._opened.held.release(launch.job_id)

    # ending

    def ending(self, flow_run_id: UUID) -> None:
        """Prefect says that this run is or was being ended: find out, and do it."""
        flight = self._flights.get(flow_run_id)
        if flight is not None and (flight.checking is None or flight.checking.done()):
            flight.checking = asyncio.create_task(self._check(flight))

    async def _check(self, flight: Flight) -> None:
        # The stream repeats the last minute: it may be an earlier attempt that was ended.
        try:
            if await persist(was_ended, self._api, flight.run.id):
                self._end(flight)
        except JobautoError as error:
            logger.warning("whether flow run %s is to end is unknown: %s", flight.run.id, error)

    def _end(self, flight: Flight) -> None:
        flight.end = CANCELLED_IN_PREFECT
        if flight.job_id is not None:
            self._opened.runner.stop(flight.job_id, CANCELLED_IN_PREFECT)

    async def look_for_endings(self) -> None:
        """Ask which of the runs in hand are being ended, in one call."""
        started = [run for run, flight in self._flights.items() if flight.job_id is not None]
        try:
            states = await states_of(self._api, started)
        except JobautoError as error:
            logger.debug("which runs are being ended is unknown: %s", error)
            return
        for flow_run_id, state in states.items():
            flight = self._flights.get(flow_run_id)
            if flight is not None and state in ENDING:
                self._end(flight)

    async def finished(self) -> None:
        """Return when nothing is left to show in the background."""
        await self._shower.finished()


async def _answer_to(claim: LaunchClaim, run: WaitingRun) -> ClaimAnswer:
    answer = await claim.ask()
    for seconds in NOT_YET_SECONDS if run.announced else ():
        if not answer.unheard:
            break
        await asyncio.sleep(seconds)
        answer = await claim.ask()
    return answer


def _borne(run: WaitingRun, launch: Launch, story: Story) -> Bearing:
    """One that can be claimed by its announcement got what it bears when it was made."""
    if not run.announced:
        looks = Appearance(run.name, run.tags)
        return Bearing(run.labels, beginning(looks, run.labels, launch))
    labels = {name: value for name, value in story.labels.items() if name not in OF_ENDS}
    return Bearing(labels, Appearance(launch.title, tuple(story.tags)))


def _why_not(answer: Answer | None) -> str | None:
    """Why a claimed run must not start; None: it may."""
    if answer is None:
        return DELETED_IN_PREFECT
    if answer.accepted:
        return None
    if answer.state in ENDING:
        return CANCELLED_IN_PREFECT
    return f"Prefect did not let it run: {answer.reason or answer.state}"
