"""The outbox worker: handles the messages of the outbox, which are for Prefect."""

import asyncio
import contextlib
import logging
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping, Sequence
from datetime import timedelta
from typing import Any
from uuid import UUID

from jobauto_prefect.engine.context import EngineContext
from jobauto_prefect.engine.flow_runs import operations
from jobauto_prefect.engine.flow_runs.run_parameters import run_parameters
from jobauto_prefect.engine.sync import pauses
from jobauto_prefect.engine.sync.application_flows import apply_app, retire_app
from jobauto_prefect.engine.sync.credentials import (
    apply_credential,
    apply_credential_type,
    retire_credential,
    retire_type,
)
from jobauto_prefect.engine.sync.deployments import retire
from jobauto_prefect.engine.sync.event_rules import apply_rule, retire_rule
from jobauto_prefect.engine.sync.template_deployments import apply_template
from jobauto_prefect.errors import (
    JobautoError,
    Locked,
    NotFound,
    PrefectRefuses,
    PrefectUnavailable,
)
from jobauto_prefect.jobs.claims.launch import run_name
from jobauto_prefect.jobs.outcome.cancellation import block
from jobauto_prefect.jobs.outcome.results import (
    PREFECT_STATES,
    end_transition,
    labels_of,
    run_status_of,
)
from jobauto_prefect.jobs.windows.task_events import task_event
from jobauto_prefect.ledger import outbox
from jobauto_prefect.ledger.audit.trail import SERVICE
from jobauto_prefect.ledger.jobs import attempts, leases, windows
from jobauto_prefect.ledger.jobs.flow_runs import awaits_run, is_of_window, run_key, window_key
from jobauto_prefect.ledger.outbox import OutboxKind, Priority
from jobauto_prefect.ledger.queries.jobs import artifacts_of, job_with_context
from jobauto_prefect.ledger.records import Job, OutboxMessage, Task
from jobauto_prefect.ledger.states import LIVE_JOBS, JobState
from jobauto_prefect.logs import log_context
from jobauto_prefect.monitoring import tracing
from jobauto_prefect.runtime.protocol import PrefectState, RunStatus

logger = logging.getLogger(__name__)

AT_ONCE = 8  # messages handled side by side
OWN_AT_ONCE = 2 * AT_ONCE  # with those that somebody has just written and waits for
REGISTRATIONS_AT_ONCE = AT_ONCE // 2
"""The rest of them is for starts and ends, however long what is applied takes."""

REGISTRATIONS_TAKEN = 2 * AT_ONCE
"""So many are taken at once: looking for each one would cost as much as what it is about."""

OF_JOBS = (OutboxKind.CANCEL_RUN, OutboxKind.SHOW_JOB, OutboxKind.RESCHEDULE_RUN)
GONE = "Prefect could not be told how this job ended: its flow run was deleted there"

REFUSED_FOR = timedelta(minutes=5)
"""Prefect's refusal of a job's flow run counts once it has lasted so long."""

CORRECT = "correct what it names, in the run template or in Prefect, and start the job again"


async def handle(context: EngineContext, message: OutboxMessage) -> bool:
    """Handle a message; twice does no harm. True: it is removed already.

    Raises:
        PrefectUnavailable: Prefect does not answer; the message has to come again.
        Conflict: Prefect refuses what it is told.
    """
    return bool(await HANDLERS[OutboxKind(message.kind)](context, message))


async def _apply_template(context: EngineContext, message: OutboxMessage) -> bool:
    return await apply_template(context, message.subject_id, message) is not None


async def _create_run(context: EngineContext, message: OutboxMessage) -> bool:
    """Create the flow run of a scheduled job; the job's id in its parameters ties the two.

    A refusal may pass, as somebody corrects what it names or ends an upgrade; a job whose run is
    refused for some minutes can't start, now and later.
    """
    start = await asyncio.to_thread(_read_start, context, message.subject_id)
    if start is None:
        return False
    job, parameters, is_stale = start
    with tracing.span("create flow run", job.traceparent, {"jobauto.job_id": job.id}):
        return await _create_run_of(context, message, job, parameters, is_stale=is_stale)


async def _create_run_of(
    context: EngineContext,
    message: OutboxMessage,
    job: Job,
    parameters: dict[str, Any],
    *,
    is_stale: bool,
) -> bool:
    if job.task_id is not None and await pauses.adopt_pauses(context, [job.runtemplate_id]):
        return False  # somebody paused the deployment in Prefect: its windows have ended
    try:
        run = await _run_of(context, job, parameters, is_stale=is_stale)
    except PrefectRefuses as error:
        if context.ledger.clock() - message.created_at < REFUSED_FOR:
            raise  # it comes again, and until then the job says what it waits for
        await asyncio.to_thread(_block, context, job.id, f"{error}; {CORRECT}")
        return False
    await asyncio.to_thread(_bind, context, job.id, run, message)
    return True


def _read_start(context: EngineContext, job_id: int) -> tuple[Job, dict[str, Any], bool] | None:
    """Return a job that is to have a flow run, and the run's parameters.

    The last item says whether its template waits to be applied. None: it is to have no run.
    """
    with context.ledger.reading() as session:
        try:
            job = job_with_context(session, job_id)
        except NotFound:
            return None
        if not awaits_run(job):
            return None
        parameters = run_parameters(job, context.ledger.box)
        return job, parameters, windows.is_apply_pending(session, job.runtemplate_id)


async def _run_of(
    context: EngineContext, job: Job, parameters: Mapping[str, Any], *, is_stale: bool
) -> UUID:
    """Return the flow run of a job, of a deployment that says what the record does.

    Starts come before registrations: a template that waits to be applied is applied here, or the
    run would have the values and the work pool of yesterday. So is one whose deployment Prefect
    finds wrong: somebody may have changed it there.

    Raises:
        PrefectRefuses: it does not take the run, also of a deployment that was just applied.
    """
    deployment_id = job.runtemplate.deployment_id
    if deployment_id is not None and not is_stale:
        try:
            return await _new_run(context, job, deployment_id, parameters)
        except NotFound:
            logger.info("deployment %s is gone; it is made again", deployment_id)
        except PrefectRefuses as error:
            logger.info("deployment %s is applied again: %s", deployment_id, error)
    applied = await apply_template(context, job.runtemplate_id)
    if applied is None:
        raise NotFound(f"run template {job.runtemplate_id} is gone")
    return await _new_run(context, job, applied.deployment_id, parameters)


async def _new_run(
    context: EngineContext, job: Job, deployment_id: UUID, parameters: Mapping[str, Any]
) -> UUID:
    return await operations.create_run(
        context.prefect,
        deployment_id,
        parameters=parameters,
        scheduled=job.schedule,
        name=run_name(job),
        labels=labels_of(job),
        idempotency_key=window_key(job.runtemplate, job.schedule)
        if is_of_window(job)
        else run_key(job),
    )


def _block(context: EngineContext, job_id: int, why: str) -> None:
    with context.ledger.writing(SERVICE) as session:
        job = job_with_context(session, job_id)
        attempts.lock_job(session, job)
        if awaits_run(job):
            block(session, job, why)


def _read_job(context: EngineContext, job_id: int) -> Job | None:
    with context.ledger.reading() as session:
        try:
            return job_with_context(session, job_id)
        except NotFound:
            return None


def _bind(context: EngineContext, job_id: int, flow_run_id: UUID, message: OutboxMessage) -> None:
    with context.ledger.writing(SERVICE) as session:
        outbox.remove(session, message)
        job = session.get(Job, job_id)
        if job is not None and job.flow_run_id is None:
            job.flow_run_id = flow_run_id
            if job.state not in LIVE_JOBS:  # it ended while its run was being made
                outbox.enqueue(session, OutboxKind.CANCEL_RUN, job_id)


async def _cancel_run(context: EngineContext, message: OutboxMessage) -> None:
    """Ask the flow run of a job to end; show that a cancelled job is."""
    job = await asyncio.to_thread(_read_job, context, message.subject_id)
    if job is None or job.flow_run_id is None:
        return
    why = job.cancel_reason or job.message or ""
    if job.state not in LIVE_JOBS and PREFECT_STATES[job.state] is PrefectState.CANCELLED:
        # Whoever else tells this end tells the same: it counts once.
        story = RunStatus(
            state=PrefectState.CANCELLED,
            message=job.message or why,
            transition_id=end_transition(job),
        )
        is_present = await operations.set_state(context.prefect, job.flow_run_id, story)
    else:
        is_present = await operations.cancel_run(context.prefect, job.flow_run_id, why)
    if not is_present:
        await asyncio.to_thread(add_line, context, job.id, GONE)


async def _show_job(context: EngineContext, message: OutboxMessage) -> None:
    """Show in its flow run how a job ended."""
    job = await asyncio.to_thread(_read_job, context, message.subject_id)
    if job is None or job.flow_run_id is None or job.state in LIVE_JOBS:
        return
    if not await show_end(context, job.id, job.flow_run_id):
        await asyncio.to_thread(add_line, context, job.id, GONE)


async def show_end(
    context: EngineContext, job_id: int, flow_run_id: UUID, *, force: bool = False
) -> bool:
    """Show the end of a job in its flow run; what its files say is not known any more.

    False: it is gone. `force`: whatever Prefect's rules say of what may follow which state.
    """
    story = await asyncio.to_thread(_story, context, job_id)
    return await operations.show_status(context.prefect, flow_run_id, story, force=force)


def add_line(context: EngineContext, job_id: int, text: str) -> None:
    """Append a notice to a job's output, once."""
    with context.ledger.writing(SERVICE) as session:
        leases.add_notice(session, job_id, text)


def _story(context: EngineContext, job_id: int) -> RunStatus:
    with context.ledger.reading() as session:
        job = job_with_context(session, job_id)
        return run_status_of(job, context.settings, artifacts_of(session, job_id))


async def _reschedule_run(context: EngineContext, message: OutboxMessage) -> None:
    """Reschedule the flow run of a scheduled job to when the job now says."""
    job = await asyncio.to_thread(_read_job, context, message.subject_id)
    if job is not None and job.flow_run_id is not None and job.state == JobState.SCHEDULED:
        later = RunStatus(state=PrefectState.SCHEDULED, message="rescheduled", at=job.schedule)
        await operations.set_state(context.prefect, job.flow_run_id, later)


async def _retire_deployment(context: EngineContext, message: OutboxMessage) -> None:
    """Delete a deployment and its waiting runs."""
    await retire(context.prefect, UUID(message.payload["id"]))


async def _delete_run(context: EngineContext, message: OutboxMessage) -> None:
    """Delete a flow run; one that is gone does no harm."""
    await context.prefect.delete(f"/flow_runs/{message.payload['id']}")


async def _tell_task(context: EngineContext, message: OutboxMessage) -> None:
    """Emit the event that a window failed or was missed."""
    event = await asyncio.to_thread(_event_of, context, message)
    if event is not None:
        await context.prefect.post("/events", [event])


def _event_of(context: EngineContext, message: OutboxMessage) -> dict[str, Any] | None:
    with context.ledger.reading() as session:
        task = session.get(Task, message.subject_id)
        return None if task is None else task_event(task, message.created_at)


HANDLERS: Mapping[OutboxKind, Callable[[EngineContext, OutboxMessage], Awaitable[bool | None]]] = {
    OutboxKind.APPLY_APP: apply_app,
    OutboxKind.RETIRE_FLOW: retire_app,
    OutboxKind.APPLY_TEMPLATE: _apply_template,
    OutboxKind.CREATE_RUN: _create_run,
    OutboxKind.CANCEL_RUN: _cancel_run,
    OutboxKind.SHOW_JOB: _show_job,
    OutboxKind.RESCHEDULE_RUN: _reschedule_run,
    OutboxKind.RETIRE_DEPLOYMENT: _retire_deployment,
    OutboxKind.DELETE_RUN: _delete_run,
    OutboxKind.TELL_TASK: _tell_task,
    OutboxKind.APPLY_RULE: apply_rule,
    OutboxKind.RETIRE_AUTOMATION: retire_rule,
    OutboxKind.APPLY_CREDENTIAL_TYPE: apply_credential_type,
    OutboxKind.RETIRE_BLOCK_TYPE: retire_type,
    OutboxKind.APPLY_CREDENTIAL: apply_credential,
    OutboxKind.RETIRE_BLOCK: retire_credential,
}


class OutboxWorker:
    """Handles messages that are due, some at once; starts and ends first.

    `wake` may be called from any thread. What fails comes again, later each time.
    """

    def __init__(self, context: EngineContext, poll_seconds: float | None = None) -> None:
        """Prepare to deliver messages.

        `poll_seconds`: how often to look unasked; None: only when woken.
        """
        self.context = context
        self.prefect_away: str | None = None
        """Why Prefect did not take the last message; None: it did, or none was tried."""

        self._poll_seconds = poll_seconds
        self._loop: asyncio.AbstractEventLoop | None = None
        self._due = asyncio.Event()
        self._in_hand: dict[asyncio.Task[None], Priority] = {}
        self._own: deque[OutboxMessage] = deque()
        self._registrations: deque[OutboxMessage] = deque()
        """Taken already; they wait for a hand."""

        self._more_may_wait = True
        self._locked = 0

    @property
    def is_running(self) -> bool:
        """Whether messages may be left to it."""
        return self._loop is not None

    def wake(self) -> None:
        """Wake the worker: there may be a message."""
        if self._loop is not None:
            self._loop.call_soon_threadsafe(self._look_again)

    def accept(self, messages: Iterable[OutboxMessage]) -> None:
        """Carry out messages that were written as this process's own, and are committed."""
        if self._loop is not None:
            self._own.extend(messages)
            self._loop.call_soon_threadsafe(self._due.set)

    def _look_again(self) -> None:
        self._more_may_wait = True
        self._due.set()

    async def run(self) -> None:
        """Carry messages out until cancelled."""
        self._loop = asyncio.get_running_loop()
        async with self._hands() as group:
            while True:
                await self._begin_due(group)
                try:
                    await asyncio.wait_for(self._due.wait(), self._poll_seconds)
                except TimeoutError:
                    self._more_may_wait = True

    async def handle_all(self) -> None:
        """Carry out every message that is due now."""
        async with self._hands() as group:
            await self._begin_due(group)
            while self._in_hand or self._locked:
                await self._due.wait()
                await self._begin_due(group)

    @contextlib.asynccontextmanager
    async def _hands(self) -> AsyncIterator[asyncio.TaskGroup]:
        """Open the group that delivers; it ends with all in hand, and the rest goes back."""
        try:
            async with asyncio.TaskGroup() as group:
                yield group
        finally:
            for message in self._registrations:
                with contextlib.suppress(JobautoError):
                    outbox.release(self.context.ledger, message)
            self._registrations.clear()

    async def _begin_due(self, group: asyncio.TaskGroup) -> None:
        """Begin with what is due, as far as hands are free."""
        self._due.clear()
        self._begin_own(group)
        self._begin_registrations(group)
        while self._more_may_wait and (free := AT_ONCE - len(self._in_hand)) > 0:
            self._more_may_wait = False
            wants_registrations = not self._registrations and self._has_hand_for_registration()
            try:
                taken = await self._claim(free, REGISTRATIONS_TAKEN if wants_registrations else 0)
            except JobautoError as error:
                logger.warning("the outbox can't be read: %s", error)
                return
            runs = [message for message in taken if message.priority < Priority.REGISTRATION]
            for message in runs:
                self._begin(group, message)
            self._registrations.extend(taken[len(runs) :])
            self._begin_registrations(group)
            self._more_may_wait |= len(runs) == free

    def _begin_own(self, group: asyncio.TaskGroup) -> None:
        """Begin with the messages that somebody waits for."""
        while self._own and len(self._in_hand) < OWN_AT_ONCE:
            self._begin_taken(group, self._own.popleft())

    def _begin_registrations(self, group: asyncio.TaskGroup) -> None:
        while self._registrations and self._has_hand_for_registration():
            self._begin_taken(group, self._registrations.popleft())

    def _begin_taken(self, group: asyncio.TaskGroup, message: OutboxMessage) -> None:
        """Begin with a message that was taken; what is anybody's by now is left to be taken."""
        if message.taken_until is not None and message.taken_until > self.context.ledger.clock():
            self._begin(group, message)
        else:
            self._more_may_wait = True

    def _begin(self, group: asyncio.TaskGroup, message: OutboxMessage) -> None:
        task = group.create_task(self._handle(message))
        self._in_hand[task] = Priority(message.priority)
        task.add_done_callback(self._finished)

    def _finished(self, task: asyncio.Task[None]) -> None:
        if self._in_hand.pop(task) == Priority.REGISTRATION and not self._registrations:
            self._more_may_wait = True  # others may wait for its hand
        self._due.set()

    def _has_hand_for_registration(self) -> bool:
        registrations = list(self._in_hand.values()).count(Priority.REGISTRATION)
        return len(self._in_hand) < AT_ONCE and registrations < REGISTRATIONS_AT_ONCE

    async def _claim(self, most: int, registrations: int) -> Sequence[OutboxMessage]:
        """Claim the next messages; what a thread takes that can't be stopped goes back."""
        taking = asyncio.ensure_future(
            asyncio.to_thread(outbox.claim_due, self.context.ledger, most, registrations)
        )
        try:
            return await asyncio.shield(taking)
        except asyncio.CancelledError:
            for message in await taking:
                outbox.release(self.context.ledger, message)
            raise

    async def _handle(self, message: OutboxMessage) -> None:
        is_of_job = message.kind in (*OF_JOBS, OutboxKind.CREATE_RUN)
        try:
            with log_context(job_id=message.subject_id if is_of_job else None):
                await self._handle_or_retry(message)
        except JobautoError as error:  # once it has been taken for too long it is anybody's
            logger.warning("the outbox can't be written: %s", error)

    async def _handle_or_retry(self, message: OutboxMessage) -> None:
        ledger = self.context.ledger
        try:
            is_removed = await handle(self.context, message)
        except Locked:
            wait = await asyncio.to_thread(outbox.retry_soon, ledger, message)
            self._locked += 1
            self._call_later(wait, self._unlocked)
        except PrefectRefuses as error:
            await self._refused(message, error)
        except JobautoError as error:
            logger.warning("%s %s is put off: %s", message.kind, message.subject_id, error)
            self.prefect_away = str(error) if isinstance(error, PrefectUnavailable) else None
            await self._retry_later(message, str(error))
        except asyncio.CancelledError:
            outbox.release(ledger, message)  # this process ends; another one need not wait
            raise
        except Exception:
            logger.exception("%s %s failed", message.kind, message.subject_id)
            await self._retry_later(message, "an error in this program")
        else:
            self.prefect_away = None
            if not is_removed:
                await asyncio.to_thread(outbox.complete, ledger, message)

    async def _refused(self, message: OutboxMessage, error: PrefectRefuses) -> None:
        """Retry what registers or makes something until Prefect takes it; give up the rest."""
        logger.warning("%s %s is refused: %s", message.kind, message.subject_id, error)
        if message.priority == Priority.REGISTRATION or message.kind == OutboxKind.CREATE_RUN:
            await self._retry_later(message, str(error))
            return
        if message.kind in OF_JOBS:
            await asyncio.to_thread(add_line, self.context, message.subject_id, str(error))
        await asyncio.to_thread(outbox.complete, self.context.ledger, message)

    async def _retry_later(self, message: OutboxMessage, error: str) -> None:
        wait = await asyncio.to_thread(outbox.retry_later, self.context.ledger, message, error)
        self._call_later(wait, self._look_again)

    def _unlocked(self) -> None:
        self._locked -= 1
        self._look_again()

    def _call_later(self, wait: timedelta, look: Callable[[], None]) -> None:
        asyncio.get_running_loop().call_later(wait.total_seconds(), look)
