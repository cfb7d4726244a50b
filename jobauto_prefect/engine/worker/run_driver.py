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
    ENDED,
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

TAKEN_SECONDS = 5.0  # until a run that another job holds is retried
FOREIGN_SECONDS = 60.0  # until a run of another ledger is retried
UNAUTHORIZED_SECONDS = 30.0
STRAYS_AT_ONCE = 4  # runs of other ledgers, in addition to its own

NOT_YET_SECONDS = (0.02, 0.06)
"""Delays before repeating a claim whose run was announced before its creator stored its id."""

OF_ENDS = frozenset({"jobauto.exit_code", "jobauto.severity"})
"""Labels that a run can't have from the start."""

RUNNING_SECONDS = 5.0
"""How long a claimed job waits for Prefect to set Running; then it starts anyway, and Prefect is
told when it is back."""

CANCELLED_SECONDS = 10.0
"""How long the question which runs are being cancelled may be unanswered. It is asked again soon,
by another connection: that of a stopped server hangs."""

DELETED_IN_PREFECT = "its flow run was deleted in Prefect"
NO_DEPLOYMENT = "this work pool runs deployments of jobauto's run templates, and this run has none"


@dataclass(slots=True, eq=False)
class ActiveRun:
    """A flow run in progress. `end` says why it must not start or continue."""

    run: WaitingRun
    claim: LaunchClaim | None = None
    claiming: "asyncio.Task[ClaimAnswer] | None" = None
    job_id: int | None = None
    checking: "asyncio.Task[None] | None" = None
    end: str | None = None


class RunDriver:
    """Drives flow runs, each on its own; calls `pause` if none can be claimed for now."""

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
        """Drive a run from its claim to its end; return for how many seconds not to retry it."""
        async with self._stray_turns if self.is_stray(run) else contextlib.nullcontext():
            try:
                if run.deployment_id is None:
                    run_status = RunStatus(state=PrefectState.FAILED, message=NO_DEPLOYMENT)
                    await retry_until_available(set_state, self._api, run.id, run_status)
                    return FOREIGN_SECONDS
                with log_context():
                    return await self._drive(run, run.deployment_id)
            except PrefectFailed as error:  # if it has a job, the reconciler shows its end
                logger.warning("skipping flow run %s for now: %s", run.id, error)
                return FOREIGN_SECONDS

    def is_stray(self, run: WaitingRun) -> bool:
        """Whether a run belongs to no run template, by a recent answer of the facade."""
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
                return TAKEN_SECONDS  # until then the gateway lets no worker change the run
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
        """Return the facade's answer, or for how many seconds not to retry the run."""
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
        # Repeat the same claim until it is answered; a lost answer does no harm.
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
            logger.debug("skipping flow run %s: %s", run.id, error)
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
        """Stop waiting for the facade's answers."""
        for active in self._active_runs.values():
            if active.claiming is not None:
                active.claiming.cancel()

    async def wait_until_decided(self) -> None:
        """Return when each active run has started its process or will not start one."""
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
                answer = running.result()
                active.end = active.end or _reason_not_to_start(answer)
                if active.claim is not None and answer is not None and not answer.accepted:
                    active.claim.expire()
            run_status = await self._run(active, launch)
            # Prefect gets the states in order, even after an outage.
            with contextlib.suppress(PrefectFailed):  # the final state tells more
                await running
        finally:
            running.cancel()
        if run_status is not None:
            await self._reporter.report(run.id, run_status, _metadata_of(run, launch, run_status))

    async def _run(self, active: ActiveRun, launch: Launch) -> RunStatus | None:
        """Return the status to show in Prefect; None if the ledger rejected the report."""
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
            # A window still needs a run, unless its run was cancelled.
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

    # cancellation

    def on_cancelling(self, flow_run_id: UUID) -> None:
        """Check whether Prefect shows that the run was cancelled, and end it."""
        active = self._active_runs.get(flow_run_id)
        if active is not None and (active.checking is None or active.checking.done()):
            active.checking = asyncio.create_task(self._check(active))

    async def _check(self, active: ActiveRun) -> None:
        # The stream replays the last minute: the event may be about an earlier attempt.
        try:
            if await retry_until_available(was_cancelled, self._api, active.run.id):
                self._end(active)
        except JobautoError as error:
            logger.warning("can't tell whether flow run %s is cancelled: %s", active.run.id, error)

    def _end(self, active: ActiveRun) -> None:
        active.end = CANCELLED_IN_PREFECT
        if active.job_id is not None:
            self._opened.runner.stop(active.job_id, CANCELLED_IN_PREFECT)

    async def poll_cancellations(self) -> None:
        """Query which of the active runs are being cancelled, in one call."""
        started = [run for run, active in self._active_runs.items() if active.job_id is not None]
        try:
            async with asyncio.timeout(CANCELLED_SECONDS):
                states = await read_states(self._api, started)
        except (JobautoError, TimeoutError) as error:
            logger.debug("can't tell which runs are cancelled: %r", error)
            return
        for flow_run_id, state in states.items():
            active = self._active_runs.get(flow_run_id)
            if active is not None and state in ENDING:
                self._end(active)

    async def wait_until_idle(self) -> None:
        """Return when no background updates are left."""
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
    """Return a run's present metadata; a run claimed when announced got its own at creation."""
    if not run.announced:
        looks = RunAppearance(run.name, run.tags)
        return RunMetadata(run.labels, appearance_at_start(looks, run.labels, launch))
    labels = {name: value for name, value in run_status.labels.items() if name not in OF_ENDS}
    return RunMetadata(labels, RunAppearance(launch.title, tuple(run_status.tags)))


def _reason_not_to_start(answer: Proposal | None) -> str | None:
    """Return why a claimed run must not start; None if it may."""
    if answer is None:
        return DELETED_IN_PREFECT
    if answer.accepted:
        return None
    if answer.state in ENDING:
        return CANCELLED_IN_PREFECT
    if answer.state in ENDED:
        return None  # this worker may have been taken for lost: the facade decides
    return f"Prefect did not let it run: {answer.reason or answer.state}"
