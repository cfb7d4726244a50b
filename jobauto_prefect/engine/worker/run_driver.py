"""The run driver: takes a flow run through claim, Running, job and final state."""

import asyncio
import contextlib
import logging
from collections.abc import Callable
from dataclasses import dataclass
from uuid import UUID, uuid4

from jobauto_prefect.compiler.plan import template_in
from jobauto_prefect.engine.api import PrefectApi
from jobauto_prefect.engine.flow_runs import (
    CANCELLED_IN_PREFECT,
    ENDING,
    Proposal,
    read_states,
    set_state,
    was_cancelled,
)
from jobauto_prefect.engine.worker.dispatcher import UNKNOWN, WaitingRun
from jobauto_prefect.engine.worker.log_shipper import LogShipper
from jobauto_prefect.engine.worker.state_reporter import (
    RunMetadata,
    StateReporter,
    appearance_at_start,
)
from jobauto_prefect.errors import (
    Conflict,
    Forbidden,
    JobautoError,
    PrefectFailed,
    Unauthorized,
)
from jobauto_prefect.jobs.appearance import RunAppearance
from jobauto_prefect.logs import current_log_context, log_context
from jobauto_prefect.retries import retry_until_available
from jobauto_prefect.runtime.launch.claim import LaunchClaim
from jobauto_prefect.runtime.protocol import (
    BEING_REGISTERED,
    UNKNOWN_DEPLOYMENT,
    Claim,
    ClaimAnswer,
    Ending,
    Launch,
    PrefectState,
    Report,
    RunStatus,
)
from jobauto_prefect.runtime.worker_context import WorkerContext

logger = logging.getLogger(__name__)

TAKEN_SECONDS = 5.0  # until a run that another job holds is asked for again
FOREIGN_SECONDS = 60.0  # until a run of another ledger is asked for again
UNAUTHORIZED_SECONDS = 30.0
STRAYS_AT_ONCE = 4  # runs of other ledgers, beside its own

NOT_YET_SECONDS = (0.02, 0.06)
"""An announcement may come before whoever made the run has noted whose it is; then the facade is
asked again so soon."""

OF_ENDS = frozenset({"jobauto.exit_code", "jobauto.severity"})
"""Labels that a run can't have from its beginning."""

RUNNING_SECONDS = 5.0
"""How long a claimed job waits for Prefect to say Running; then it starts all the same, and
Prefect hears of it when it is back."""

DELETED_IN_PREFECT = "its flow run was deleted in Prefect"
NO_DEPLOYMENT = "this work pool runs deployments of jobauto's run templates, and this run has none"


@dataclass(slots=True, eq=False)
class ActiveRun:
    """A flow run in hand. `end` says why it must not start, or not go on."""

    run: WaitingRun
    claim: LaunchClaim | None = None
    claiming: "asyncio.Task[ClaimAnswer] | None" = None
    job_id: int | None = None
    checking: "asyncio.Task[None] | None" = None
    end: str | None = None


class RunDriver:
    """Drives flow runs, each on its own; `pause` is called where none can be claimed for now."""

    def __init__(
        self,
        api: PrefectApi,
        opened: WorkerContext,
        worker: str,
        logs: LogShipper,
        pause: Callable[[float], None],
    ) -> None:
        self._api = api
        self._opened = opened
        self._worker = worker
        self._logs = logs
        self._pause = pause
        self._reporter = StateReporter(api, calm=self.wait_until_decided)
        self._active_runs: dict[UUID, ActiveRun] = {}
        self._undecided: set[ActiveRun] = set()
        self._none_undecided = asyncio.Event()
        self._strays: dict[UUID | None, float] = {}
        self._stray_turns = asyncio.Semaphore(STRAYS_AT_ONCE)

    async def drive(self, run: WaitingRun) -> float:
        """Take a run from its claim to its end; returns the seconds to leave it alone."""
        async with self._stray_turns if self.is_stray(run) else contextlib.nullcontext():
            try:
                if run.deployment_id is None:
                    run_status = RunStatus(state=PrefectState.FAILED, message=NO_DEPLOYMENT)
                    await retry_until_available(set_state, self._api, run.id, run_status)
                    return FOREIGN_SECONDS
                with log_context():
                    return await self._drive(run, run.deployment_id)
            except PrefectFailed as error:  # of a job the reconciler shows the end
                logger.warning("flow run %s is left for now: %s", run.id, error)
                return FOREIGN_SECONDS

    def is_stray(self, run: WaitingRun) -> bool:
        """Whether a run is of no run template, as far as the facade said lately."""
        until = self._strays.get(run.deployment_id, float("-inf"))
        return run.deployment_id is None or asyncio.get_running_loop().time() < until

    async def _drive(self, run: WaitingRun, deployment_id: UUID) -> float:
        active = self._active_runs[run.id] = ActiveRun(run)
        self._undecided.add(active)
        try:
            answer = await self._claim(active, deployment_id)
            if isinstance(answer, float):
                return answer
            if answer.refusal is not None and answer.refusal.reason == BEING_REGISTERED:
                return TAKEN_SECONDS  # the gateway lets no worker change it before
            if answer.refusal is not None:
                await self._reporter.report(
                    run.id, answer.refusal.run_status, RunMetadata(run.labels)
                )
                if answer.refusal.reason == UNKNOWN_DEPLOYMENT:
                    now = asyncio.get_running_loop().time()
                    self._strays[deployment_id] = now + FOREIGN_SECONDS
                    return FOREIGN_SECONDS
            elif answer.launch is not None:
                await self._execute(active, answer.launch)
            else:
                return UNKNOWN
        finally:
            if active.job_id is not None:
                self._opened.held.release(active.job_id)
            self._note_decided(active)
            del self._active_runs[run.id]
        return 0

    # claiming

    async def _claim(self, active: ActiveRun, deployment_id: UUID) -> ClaimAnswer | float:
        """Return the facade's answer, or for how long to leave the run."""
        run = active.run
        claim = Claim(
            claim_id=uuid4(),
            flow_run_id=run.id,
            run_number=run.run_count + 1,
            deployment_id=deployment_id,
            template_id=template_in(run.labels),
            parameters=dict(run.parameters),
            auto_scheduled=run.auto_scheduled,
            scheduled_for=run.scheduled_for,
            idempotency_key=run.idempotency_key,
            announced=run.announced,
            due=None if run.announced else run.due,
            changed_at=run.changed_at,
            worker=self._worker,
            instance=self._opened.held.instance,
            work_directory=self._opened.work_directory,
            without=self._opened.fitness.missing_executors,
        )
        # The same claim as long as there is no answer: one that got lost does no harm.
        active.claim = LaunchClaim(self._opened.client, claim)
        with self._opened.held.claiming(claim.claim_id):
            active.claiming = asyncio.create_task(_ask_claim(active.claim, run))
            await asyncio.wait({active.claiming})
            if active.claiming.cancelled():
                return TAKEN_SECONDS
            error = active.claiming.exception()
            if error is not None:
                return self._refused(run, error)
            answer = active.claiming.result()
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
        for active in self._active_runs.values():
            if active.claiming is not None:
                active.claiming.cancel()

    async def wait_until_decided(self) -> None:
        """Return when it is known of each run in hand whether a process starts for it."""
        while self._undecided:
            self._none_undecided.clear()
            await self._none_undecided.wait()

    def _note_decided(self, active: ActiveRun) -> None:
        self._undecided.discard(active)
        if not self._undecided:
            self._none_undecided.set()

    # the job

    async def _execute(self, active: ActiveRun, launch: Launch) -> None:
        run, active.job_id = active.run, launch.job_id
        current_log_context().job_id = launch.job_id
        if not run.announced:
            looks = RunAppearance(run.name, run.tags)
            self._reporter.show_start(run.id, looks, appearance_at_start(looks, run.labels, launch))
        running = asyncio.create_task(self._reporter.propose_running(run.id))
        try:
            await asyncio.wait({running}, timeout=RUNNING_SECONDS)
            if running.done() and running.exception() is None:
                active.end = active.end or _reason_not_to_start(running.result())
            run_status = await self._run(active, launch)
            # States come to Prefect in their order, also when it was away for a while.
            with contextlib.suppress(PrefectFailed):  # which says more of its end
                await running
        finally:
            running.cancel()
        if run_status is not None:
            await self._reporter.report(run.id, run_status, _metadata_of(run, launch, run_status))

    async def _run(self, active: ActiveRun, launch: Launch) -> RunStatus | None:
        """Return what Prefect shall show; None: the ledger did not take the report."""
        if active.claim is not None:
            await active.claim.wait_until_due()
        if active.checking is not None:
            await active.checking
        self._note_decided(active)
        if active.end is not None:
            return await self._not_started(launch, active.end)
        run_log = self._logs.run_log(active.run.id, launch.job_id)
        confirm = active.claim.confirm if active.claim is not None else None
        outcome = await self._opened.runner.run(launch, run_log, confirm)
        return outcome.answer.run_status if outcome.answer else None

    async def _not_started(self, launch: Launch, why: str) -> RunStatus | None:
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
            return (
                await retry_until_available(self._opened.client.report, launch.job_id, report)
            ).run_status
        except JobautoError as error:
            logger.warning("the outcome of job %s was refused: %s", launch.job_id, error)
            return None
        finally:
            self._opened.held.release(launch.job_id)

    # ending

    def on_cancelling(self, flow_run_id: UUID) -> None:
        """Check whether a run is or was being ended, as Prefect says, and end it."""
        active = self._active_runs.get(flow_run_id)
        if active is not None and (active.checking is None or active.checking.done()):
            active.checking = asyncio.create_task(self._check(active))

    async def _check(self, active: ActiveRun) -> None:
        # The stream repeats the last minute: it may be an earlier attempt that was ended.
        try:
            if await retry_until_available(was_cancelled, self._api, active.run.id):
                self._end(active)
        except JobautoError as error:
            logger.warning("whether flow run %s is to end is unknown: %s", active.run.id, error)

    def _end(self, active: ActiveRun) -> None:
        active.end = CANCELLED_IN_PREFECT
        if active.job_id is not None:
            self._opened.runner.stop(active.job_id, CANCELLED_IN_PREFECT)

    async def poll_cancellations(self) -> None:
        """Ask which of the runs in hand are being ended, in one call."""
        started = [run for run, active in self._active_runs.items() if active.job_id is not None]
        try:
            states = await read_states(self._api, started)
        except JobautoError as error:
            logger.debug("which runs are being ended is unknown: %s", error)
            return
        for flow_run_id, state in states.items():
            active = self._active_runs.get(flow_run_id)
            if active is not None and state in ENDING:
                self._end(active)

    async def wait_until_idle(self) -> None:
        """Return when nothing is left to show in the background."""
        await self._reporter.wait_until_idle()


async def _ask_claim(claim: LaunchClaim, run: WaitingRun) -> ClaimAnswer:
    answer = await claim.ask()
    for seconds in NOT_YET_SECONDS if run.announced else ():
        if not answer.unheard:
            break
        await asyncio.sleep(seconds)
        answer = await claim.ask()
    return answer


def _metadata_of(run: WaitingRun, launch: Launch, run_status: RunStatus) -> RunMetadata:
    """Return what a run bears; a run claimed by its announcement got that when it was made."""
    if not run.announced:
        looks = RunAppearance(run.name, run.tags)
        return RunMetadata(run.labels, appearance_at_start(looks, run.labels, launch))
    labels = {name: value for name, value in run_status.labels.items() if name not in OF_ENDS}
    return RunMetadata(labels, RunAppearance(launch.title, tuple(run_status.tags)))


def _reason_not_to_start(answer: Proposal | None) -> str | None:
    """Return why a claimed run must not start; None: it may."""
    if answer is None:
        return DELETED_IN_PREFECT
    if answer.accepted:
        return None
    if answer.state in ENDING:
        return CANCELLED_IN_PREFECT
    return f"Prefect did not let it run: {answer.reason or answer.state}"
