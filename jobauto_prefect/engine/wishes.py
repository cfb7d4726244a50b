"""Carrying out wishes towards Prefect: the one function that does, and the loop that calls it."""

import asyncio
import contextlib
import logging
from collections.abc import Awaitable, Callable, Mapping
from typing import Any
from uuid import UUID

from jobauto_prefect.compiler.plan import DeploymentPlan
from jobauto_prefect.engine import pauses, runs
from jobauto_prefect.engine.apply import Applied, AppliedIds, apply, retire
from jobauto_prefect.engine.credentials import (
    apply_credential,
    apply_credential_type,
    retire_credential,
    retire_type,
)
from jobauto_prefect.engine.happenings import task_event
from jobauto_prefect.engine.naming import reserve_name
from jobauto_prefect.engine.neighbours import Neighbours
from jobauto_prefect.engine.plans import plan_of
from jobauto_prefect.engine.rules import apply_rule, retire_rule
from jobauto_prefect.engine.settling import labels_of, run_name, story_of
from jobauto_prefect.errors import JobautoError, NotFound
from jobauto_prefect.ledger import queries, wishes
from jobauto_prefect.ledger.audit import SERVICE
from jobauto_prefect.ledger.records import Job, RunTemplate, Task, Wish
from jobauto_prefect.ledger.states import LIVE_JOBS, JobState
from jobauto_prefect.ledger.wishes import WishKind
from jobauto_prefect.runtime.protocol import PrefectState, Story

logger = logging.getLogger(__name__)

AT_ONCE = 8  # wishes carried out side by side


async def carry_out(near: Neighbours, wish: Wish) -> None:
    """Do what the wish says; doing it twice does no harm.

    Raises:
        PrefectUnavailable: Prefect does not answer; the wish has to come again.
        Conflict: Prefect refuses what it is told.
    """
    await CARRIERS[WishKind(wish.kind)](near, wish)


async def apply_template(near: Neighbours, template_id: int) -> Applied | None:
    """Flow, work pool and deployment as the records say; None: the template is gone."""
    read = await asyncio.to_thread(_plan, near, template_id)
    if read is None:
        return None
    plan, known = read
    applied = await apply(near.prefect, plan, known)
    await asyncio.to_thread(_remember, near, template_id, plan, applied)
    return applied


async def _apply_template(near: Neighbours, wish: Wish) -> None:
    await apply_template(near, wish.subject_id)


def _plan(near: Neighbours, template_id: int) -> tuple[DeploymentPlan, AppliedIds] | None:
    with near.ledger.reading() as session:
        template = session.get(RunTemplate, template_id)
        if template is None or template.retired_at is not None:
            return None
        app_id = template.app_id
    reserve_name(near.ledger, app_id, near.settings.language)
    with near.ledger.reading() as session:
        template = session.get_one(RunTemplate, template_id)
        plan = plan_of(session, template, near.settings)
        return plan, AppliedIds(template.app.flow_id, template.deployment_id)


def _remember(near: Neighbours, template_id: int, plan: DeploymentPlan, applied: Applied) -> None:
    with near.ledger.writing(SERVICE) as session:
        template = session.get(RunTemplate, template_id)
        if template is None:
            return
        if template.deployment_id != applied.deployment_id:
            for rule_id in queries.rules_starting(session, template_id):
                wishes.wish(session, WishKind.APPLY_RULE, rule_id)
        template.deployment_id = applied.deployment_id
        template.applied_parameters = dict(plan.parameters)
        template.applied_paused = plan.paused
        template.app.flow_id = applied.flow_id
        for old, new in applied.moved.items():
            for job in queries.jobs_of_flow_run(session, old):
                if job.state == JobState.SCHEDULED:
                    job.flow_run_id = new


async def _create_run(near: Neighbours, wish: Wish) -> None:
    """A flow run for a scheduled job; the job's id in its parameters ties the two."""
    job = await asyncio.to_thread(_read_job, near, wish.subject_id)
    if job is None or job.state != JobState.SCHEDULED or job.flow_run_id is not None:
        return
    if job.task_id is not None and await pauses.take_over(near, [job.runtemplate_id]):
        return  # somebody paused the deployment in Prefect: its windows have ended
    flow_run_id = await _run_of(near, job)
    await asyncio.to_thread(_bind, near, job.id, flow_run_id)


async def _run_of(near: Neighbours, job: Job) -> UUID:
    deployment_id = job.runtemplate.deployment_id
    if deployment_id is not None:
        try:
            return await _new_run(near, job, deployment_id)
        except NotFound:
            logger.info("deployment %s is gone; it is made again", deployment_id)
    applied = await apply_template(near, job.runtemplate_id)
    if applied is None:
        raise NotFound(f"run template {job.runtemplate_id} is gone")
    return await _new_run(near, job, applied.deployment_id)


async def _new_run(near: Neighbours, job: Job, deployment_id: UUID) -> UUID:
    return await runs.create_run(
        near.prefect,
        deployment_id,
        parameters={"jobauto": {"job": job.id}},
        scheduled=job.schedule,
        name=run_name(job),
        labels=labels_of(job),
        # A ledger begun anew counts from 1 again: the instant tells its jobs from former ones.
        idempotency_key=f"jobauto-job-{job.id}-{job.created_at.isoformat()}",
    )


def _read_job(near: Neighbours, job_id: int) -> Job | None:
    with near.ledger.reading() as session:
        try:
            return queries.job_with_context(session, job_id)
        except NotFound:
            return None


def _bind(near: Neighbours, job_id: int, flow_run_id: UUID) -> None:
    with near.ledger.writing(SERVICE) as session:
        job = session.get(Job, job_id)
        if job is not None and job.flow_run_id is None:
            job.flow_run_id = flow_run_id
            if job.state not in LIVE_JOBS:  # it ended while its run was being made
                wishes.wish(session, WishKind.CANCEL_RUN, job_id)


async def _cancel_run(near: Neighbours, wish: Wish) -> None:
    """The flow run of a job is asked to end."""
    job = await asyncio.to_thread(_read_job, near, wish.subject_id)
    if job is not None and job.flow_run_id is not None:
        why = job.cancel_reason or job.message or ""
        await runs.cancel_run(near.prefect, job.flow_run_id, why)


async def _show_job(near: Neighbours, wish: Wish) -> None:
    """The flow run shows how its job ended."""
    job = await asyncio.to_thread(_read_job, near, wish.subject_id)
    if job is None or job.flow_run_id is None or job.state in LIVE_JOBS:
        return
    await show_end(near, job.id, job.flow_run_id)


async def show_end(near: Neighbours, job_id: int, flow_run_id: UUID) -> None:
    """Let a flow run show the end of a job; what its files say is not known any more."""
    await runs.tell(near.prefect, flow_run_id, await asyncio.to_thread(_story, near, job_id))


def _story(near: Neighbours, job_id: int) -> Story:
    with near.ledger.reading() as session:
        job = queries.job_with_context(session, job_id)
        return story_of(job, near.settings, queries.artifacts_of(session, job_id))


async def _reschedule_run(near: Neighbours, wish: Wish) -> None:
    """The flow run of a scheduled job starts when the job now says."""
    job = await asyncio.to_thread(_read_job, near, wish.subject_id)
    if job is not None and job.flow_run_id is not None and job.state == JobState.SCHEDULED:
        later = Story(state=PrefectState.SCHEDULED, message="rescheduled", at=job.schedule)
        await runs.set_state(near.prefect, job.flow_run_id, later)


async def _retire_deployment(near: Neighbours, wish: Wish) -> None:
    """A deployment and its waiting runs go."""
    await retire(near.prefect, UUID(wish.payload["id"]))


async def _delete_run(near: Neighbours, wish: Wish) -> None:
    """A flow run goes."""
    with contextlib.suppress(NotFound):
        await near.prefect.delete(f"/flow_runs/{wish.payload['id']}")


async def _tell_task(near: Neighbours, wish: Wish) -> None:
    """An event says that a window failed or was missed."""
    event = await asyncio.to_thread(_event_of, near, wish)
    if event is not None:
        await near.prefect.post("/events", [event])


def _event_of(near: Neighbours, wish: Wish) -> dict[str, Any] | None:
    with near.ledger.reading() as session:
        task = session.get(Task, wish.subject_id)
        return None if task is None else task_event(task, wish.created_at)


CARRIERS: Mapping[WishKind, Callable[[Neighbours, Wish], Awaitable[None]]] = {
    WishKind.APPLY_TEMPLATE: _apply_template,
    WishKind.CREATE_RUN: _create_run,
    WishKind.CANCEL_RUN: _cancel_run,
    WishKind.SHOW_JOB: _show_job,
    WishKind.RESCHEDULE_RUN: _reschedule_run,
    WishKind.RETIRE_DEPLOYMENT: _retire_deployment,
    WishKind.DELETE_RUN: _delete_run,
    WishKind.TELL_TASK: _tell_task,
    WishKind.APPLY_RULE: apply_rule,
    WishKind.RETIRE_AUTOMATION: retire_rule,
    WishKind.APPLY_CREDENTIAL_TYPE: apply_credential_type,
    WishKind.RETIRE_BLOCK_TYPE: retire_type,
    WishKind.APPLY_CREDENTIAL: apply_credential,
    WishKind.RETIRE_BLOCK: retire_credential,
}


class Carrier:
    """Takes wishes that are due and carries them out, some at once.

    `wake` may be called from any thread. What fails comes again, later each time.
    """

    def __init__(self, near: Neighbours, poll_seconds: float | None = None) -> None:
        """`poll_seconds`: how often to look unasked; None: only when woken."""
        self.near = near
        self._poll_seconds = poll_seconds
        self._loop: asyncio.AbstractEventLoop | None = None
        self._due = asyncio.Event()

    def wake(self) -> None:
        """There may be a wish."""
        if self._loop is not None:
            self._loop.call_soon_threadsafe(self._due.set)

    async def run(self) -> None:
        """Carry wishes out until cancelled."""
        self._loop = asyncio.get_running_loop()
        self._due.set()
        while True:
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._due.wait(), self._poll_seconds)
            self._due.clear()
            await self.carry_all()

    async def carry_all(self) -> None:
        """Carry out every wish that is due now."""
        async with asyncio.TaskGroup() as group:  # which waits for all of them where it is ended
            for _ in range(AT_ONCE):
                group.create_task(self._carry_until_none_is_left())

    async def _carry_until_none_is_left(self) -> None:
        while await self._carry_one():
            pass

    async def _carry_one(self) -> bool:
        try:
            wish = await self._take()
            if wish is None:
                return False
            await self._carry(wish)
        except JobautoError as error:
            logger.warning("the outbox can't be read: %s", error)
            return False
        return True

    async def _take(self) -> Wish | None:
        """The next wish. A thread that is taking one can't be stopped: what it takes goes back."""
        taking = asyncio.ensure_future(asyncio.to_thread(wishes.take_next, self.near.ledger))
        try:
            return await asyncio.shield(taking)
        except asyncio.CancelledError:
            wish = await taking
            if wish is not None:
                wishes.give_back(self.near.ledger, wish)
            raise

    async def _carry(self, wish: Wish) -> None:
        ledger = self.near.ledger
        try:
            await carry_out(self.near, wish)
        except JobautoError as error:
            logger.warning("%s %s is put off: %s", wish.kind, wish.subject_id, error)
            await asyncio.to_thread(wishes.put_off, ledger, wish, str(error))
        except asyncio.CancelledError:
            wishes.give_back(ledger, wish)  # this process ends; another one need not wait for it
            raise
        except Exception:
            logger.exception("%s %s failed", wish.kind, wish.subject_id)
            await asyncio.to_thread(wishes.put_off, ledger, wish, "an error in this program")
        else:
            await asyncio.to_thread(wishes.done, ledger, wish)
