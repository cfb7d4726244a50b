"""Handlers for each kind of outbox message."""

import logging
from collections.abc import Awaitable, Callable, Mapping, Sequence
from datetime import timedelta
from functools import partial
from typing import Any
from uuid import UUID

from jobauto_prefect.engine import flow_runs
from jobauto_prefect.engine.batches import together_or_apart
from jobauto_prefect.engine.context import EngineContext
from jobauto_prefect.engine.hand_overs import Start
from jobauto_prefect.engine.sync.application_flows import apply_app, retire_app
from jobauto_prefect.engine.sync.credentials import (
    apply_credential,
    apply_credential_type,
    retire_credential,
    retire_type,
)
from jobauto_prefect.engine.sync.deployment_drift import adopt_pauses
from jobauto_prefect.engine.sync.deployment_plans import run_parameters
from jobauto_prefect.engine.sync.deployments import retire
from jobauto_prefect.engine.sync.event_rules import apply_rule, retire_rule
from jobauto_prefect.engine.sync.template_deployments import apply_template, apply_templates
from jobauto_prefect.errors import JobautoError, NotFound, PrefectRefuses
from jobauto_prefect.jobs.appearance import run_name
from jobauto_prefect.jobs.outcome.cancellation import block
from jobauto_prefect.jobs.outcome.results import (
    PREFECT_STATES,
    end_transition,
    labels_of,
    run_status_of,
)
from jobauto_prefect.jobs.windows.tasks import task_event
from jobauto_prefect.ledger import outbox
from jobauto_prefect.ledger.audit.trail import WritingSession
from jobauto_prefect.ledger.jobs import attempts, leases
from jobauto_prefect.ledger.jobs.flow_runs import (
    awaits_run,
    bind_runs,
    is_of_window,
    run_key,
    window_key,
)
from jobauto_prefect.ledger.outbox import OutboxKind
from jobauto_prefect.ledger.queries.jobs import artifacts_of, job_with_context, jobs_with_context
from jobauto_prefect.ledger.records import Job, OutboxMessage, Task
from jobauto_prefect.ledger.secrets import SecretBox
from jobauto_prefect.ledger.states import LIVE_JOBS, JobState
from jobauto_prefect.ledger.store import ReadingSession
from jobauto_prefect.monitoring import tracing
from jobauto_prefect.runtime.protocol import PrefectState, RunStatus

logger = logging.getLogger(__name__)

OF_JOBS = (OutboxKind.CANCEL_RUN, OutboxKind.SHOW_JOB, OutboxKind.RESCHEDULE_RUN)
GONE = "Prefect could not be told how this job ended: its flow run was deleted there"

REFUSED_FOR = timedelta(minutes=5)
"""How long Prefect must refuse a job's flow run before the job is blocked."""

FRESH = timedelta(seconds=1)
"""How long a start is used as its writer prepared it: its run template may change meanwhile."""

CORRECT = "correct what it names, in the run template or in Prefect, and start the job again"


async def handle(context: EngineContext, message: OutboxMessage) -> bool:
    """Handle a message; idempotent. Return True if the message is already removed.

    Raises:
        PrefectUnavailable: Prefect does not answer; retry the message.
        Conflict: Prefect refuses the change.
    """
    return bool(await HANDLERS[OutboxKind(message.kind)](context, message))


async def _apply_template(context: EngineContext, message: OutboxMessage) -> bool:
    return await apply_template(context, message.subject_id, message) is not None


async def handle_together(
    context: EngineContext, messages: Sequence[OutboxMessage]
) -> list[bool | JobautoError]:
    """Handle messages that apply run templates; return the result of each, as `handle` does.

    Raises:
        JobautoError: the results of all are unknown.
    """
    wanted = dict[int, list[OutboxMessage]]()
    for message in messages:
        wanted.setdefault(message.subject_id, []).append(message)
    applied = await apply_templates(context, wanted)
    outcomes = (applied[message.subject_id] for message in messages)
    return [
        outcome if isinstance(outcome, JobautoError) else outcome is not None
        for outcome in outcomes
    ]


async def _create_run(context: EngineContext, message: OutboxMessage) -> bool:
    """Create the flow run of a scheduled job; the job's id in its parameters links the two.

    A refusal may be temporary, until somebody fixes its cause or finishes an upgrade. If Prefect
    refuses the run for some minutes, the job is blocked for good.
    """
    start = context.hand_overs.prepared.pop(message, None)
    if start is None or context.ledger.clock() - message.created_at > FRESH:
        start = await context.transactions.join(
            "read", message.subject_id, partial(_read_all, context)
        )
    if start is None:
        return False
    with tracing.span("create flow run", start.traceparent, {"jobauto.job_id": start.job_id}):
        if start.is_of_task and await adopt_pauses(context, [start.template_id]):
            return False  # the deployment was paused in Prefect: its windows have ended
        try:
            await _hand_over(context, start, message)
        except PrefectRefuses as error:
            if context.ledger.clock() - message.created_at < REFUSED_FOR:
                raise  # it is retried, and until then the job says what it waits for
            await context.write(_block, start.job_id, f"{error}; {CORRECT}")
            return False
        return True


def prepare_starts(
    session: ReadingSession | WritingSession, jobs: Sequence[Job], box: SecretBox
) -> list[Start]:
    """Return what the flow runs of jobs are created from; their run templates are loaded."""
    templates = {job.runtemplate_id for job in jobs}
    unapplied = outbox.pending_among(session, OutboxKind.APPLY_TEMPLATE, templates)
    return [
        Start(
            job.id,
            job.runtemplate_id,
            None if job.runtemplate_id in unapplied else job.runtemplate.deployment_id,
            flow_runs.NewRun(
                run_name(job),
                job.schedule,
                run_parameters(job, box),
                labels_of(job),
                window_key(job.runtemplate, job.schedule) if is_of_window(job) else run_key(job),
            ),
            job.traceparent,
            job.task_id is not None,
        )
        for job in jobs
    ]


async def _read_all(
    context: EngineContext, job_ids: Sequence[int]
) -> Sequence[Start | BaseException | None]:
    """Return what the flow runs of jobs are created from; None: the job needs none."""
    box = context.ledger.box
    return await together_or_apart(lambda ids: context.read(_read_starts, ids, box), job_ids)


def _read_starts(
    session: ReadingSession, job_ids: Sequence[int], box: SecretBox
) -> list[Start | None]:
    jobs = [job for job in jobs_with_context(session, job_ids) if awaits_run(job)]
    starts = {start.job_id: start for start in prepare_starts(session, jobs, box)}
    return [starts.get(job_id) for job_id in job_ids]


async def _hand_over(context: EngineContext, start: Start, message: OutboxMessage) -> None:
    """Bind a job to a new flow run, from a deployment that matches the run template.

    Starts come before registrations, so a template that waits to be applied is applied here;
    otherwise the run would use stale values or a stale work pool. The same if Prefect rejects its
    deployment: somebody may have changed it there.

    Raises:
        PrefectRefuses: it refuses the run even of a deployment that was just applied.
    """
    if start.deployment_id is not None:
        try:
            await _create_and_bind(context, start, start.deployment_id, message)
        except NotFound:
            logger.info("deployment %s is gone; creating it again", start.deployment_id)
        except PrefectRefuses as error:
            logger.info("applying deployment %s again: %s", start.deployment_id, error)
        else:
            return
    applied = await apply_template(context, start.template_id)
    if applied is None:
        raise NotFound(f"run template {start.template_id} is gone")
    await _create_and_bind(context, start, applied.deployment_id, message)


async def _create_and_bind(
    context: EngineContext, start: Start, deployment_id: UUID, message: OutboxMessage
) -> None:
    """Create the flow run of a job and bind it, each batched with others.

    A run that failed before is created alone, so that it can't make a batch fail.
    """
    with context.hand_overs.under_way(deployment_id):
        flow_run_id = await context.creations.join(
            (deployment_id, message.id if message.attempts else None),
            start.run,
            partial(flow_runs.create_runs, context.prefect, deployment_id),
        )
        binding = start.job_id, flow_run_id, message
        await context.transactions.join("bind", binding, partial(_bind_all, context))
        context.hand_overs.note_bound(flow_run_id)


def _block(session: WritingSession, job_id: int, why: str) -> None:
    job = job_with_context(session, job_id)
    attempts.lock_job(session, job)
    if awaits_run(job):
        block(session, job, why)


def _read_job(session: ReadingSession, job_id: int) -> Job | None:
    try:
        return job_with_context(session, job_id)
    except NotFound:
        return None


Binding = tuple[int, UUID, OutboxMessage]
"""A job's id, its flow run, and the message that requested it."""


async def _bind_all(
    context: EngineContext, bindings: Sequence[Binding]
) -> Sequence[BaseException | None]:
    """Bind jobs to their flow runs; return the error of each, or None."""
    return await together_or_apart(lambda some: context.write(_bind, some), bindings)


def _bind(session: WritingSession, bindings: Sequence[Binding]) -> list[None]:
    outbox.remove(session, *(message for _, _, message in bindings))
    bind_runs(session, {job_id: flow_run_id for job_id, flow_run_id, _ in bindings})
    return [None] * len(bindings)


async def _cancel_run(context: EngineContext, message: OutboxMessage) -> None:
    """Cancel the flow run of a job, or show that a cancelled job has ended."""
    job = await context.read(_read_job, message.subject_id)
    if job is None or job.flow_run_id is None:
        return
    why = job.cancel_reason or job.message or ""
    if job.state not in LIVE_JOBS and PREFECT_STATES[job.state] is PrefectState.CANCELLED:
        # Others who report this end use the same transition id: it counts once.
        run_status = RunStatus(
            state=PrefectState.CANCELLED,
            message=job.message or why,
            transition_id=end_transition(job),
        )
        is_present = await flow_runs.set_state(context.prefect, job.flow_run_id, run_status)
    else:
        is_present = await flow_runs.cancel_run(context.prefect, job.flow_run_id, why)
    if not is_present:
        await context.write(leases.add_notice, job.id, GONE)


async def _show_job(context: EngineContext, message: OutboxMessage) -> None:
    """Show in its flow run how a job ended."""
    job = await context.read(_read_job, message.subject_id)
    if job is None or job.flow_run_id is None or job.state in LIVE_JOBS:
        return
    if not await show_end(context, job.id, job.flow_run_id):
        await context.write(leases.add_notice, job.id, GONE)


async def show_end(
    context: EngineContext, job_id: int, flow_run_id: UUID, *, force: bool = False
) -> bool:
    """Show the end of a job in its flow run; the contents of its result files are no longer known.

    Return False if the run is gone. `force` skips Prefect's rules about which state may follow
    which.
    """

    def read(session: ReadingSession) -> RunStatus:
        job = job_with_context(session, job_id)
        return run_status_of(job, context.settings, artifacts_of(session, job_id))

    status = await context.read(read)
    return await flow_runs.show_status(context.prefect, flow_run_id, status, force=force)


async def _reschedule_run(context: EngineContext, message: OutboxMessage) -> None:
    """Reschedule the flow run of a scheduled job to the job's current start time."""
    job = await context.read(_read_job, message.subject_id)
    if job is not None and job.flow_run_id is not None and job.state == JobState.SCHEDULED:
        later = RunStatus(state=PrefectState.SCHEDULED, message="rescheduled", at=job.schedule)
        await flow_runs.set_state(context.prefect, job.flow_run_id, later)


async def _tell_task(context: EngineContext, message: OutboxMessage) -> None:
    """Emit the event that a window failed or was missed."""

    def read(session: ReadingSession) -> dict[str, Any] | None:
        task = session.get(Task, message.subject_id)
        return None if task is None else task_event(task, message.created_at)

    event = await context.read(read)
    if event is not None:
        await context.prefect.post("/events", [event])


HANDLERS: Mapping[OutboxKind, Callable[[EngineContext, OutboxMessage], Awaitable[bool | None]]] = {
    OutboxKind.APPLY_APP: apply_app,
    OutboxKind.RETIRE_FLOW: retire_app,
    OutboxKind.APPLY_TEMPLATE: _apply_template,
    OutboxKind.CREATE_RUN: _create_run,
    OutboxKind.CANCEL_RUN: _cancel_run,
    OutboxKind.SHOW_JOB: _show_job,
    OutboxKind.RESCHEDULE_RUN: _reschedule_run,
    OutboxKind.RETIRE_DEPLOYMENT: lambda context, message: retire(
        context.prefect, UUID(message.payload["id"])
    ),
    OutboxKind.DELETE_RUN: lambda context, message: context.prefect.delete(
        f"/flow_runs/{message.payload['id']}"
    ),
    OutboxKind.TELL_TASK: _tell_task,
    OutboxKind.APPLY_RULE: apply_rule,
    OutboxKind.RETIRE_AUTOMATION: retire_rule,
    OutboxKind.APPLY_CREDENTIAL_TYPE: apply_credential_type,
    OutboxKind.RETIRE_BLOCK_TYPE: retire_type,
    OutboxKind.APPLY_CREDENTIAL: apply_credential,
    OutboxKind.RETIRE_BLOCK: retire_credential,
}
