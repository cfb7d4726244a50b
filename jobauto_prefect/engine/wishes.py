"""Carrying out wishes towards Prefect: the one function that does, and the loop that calls it."""

import asyncio
import contextlib
import logging
from collections import deque
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from datetime import timedelta
from typing import Any
from uuid import UUID, uuid4

from jobauto_prefect.compiler.plan import DeploymentPlan
from jobauto_prefect.engine import ahead, pauses, runs
from jobauto_prefect.engine.apply import Applied, AppliedIds, apply, retire
from jobauto_prefect.engine.credentials import (
    apply_credential,
    apply_credential_type,
    retire_credential,
    retire_type,
)
from jobauto_prefect.engine.flow_records import apply_app, retire_app
from jobauto_prefect.engine.naming import reserve_name
from jobauto_prefect.engine.neighbours import Neighbours
from jobauto_prefect.engine.plans import plan_of
from jobauto_prefect.engine.rules import apply_rule, retire_rule
from jobauto_prefect.engine.run_parameters import run_parameters
from jobauto_prefect.errors import JobautoError, Locked, NotFound, PrefectRefuses
from jobauto_prefect.jobs.cancellation import block
from jobauto_prefect.jobs.launch import run_name
from jobauto_prefect.jobs.outcome import SHOWN, end_transition, labels_of, story_of
from jobauto_prefect.jobs.task_events import task_event
from jobauto_prefect.ledger import attempts, keeping, leases, queries, turns, wishes
from jobauto_prefect.ledger.attempts import is_of_window, jobs_of_flow_run, run_key, window_key
from jobauto_prefect.ledger.audit import SERVICE
from jobauto_prefect.ledger.records import Job, RunTemplate, Task, Wish
from jobauto_prefect.ledger.states import LIVE_JOBS, JobState
from jobauto_prefect.ledger.wishes import Priority, WishKind
from jobauto_prefect.logs import about
from jobauto_prefect.monitoring import tracing
from jobauto_prefect.runtime.protocol import PrefectState, Story

logger = logging.getLogger(__name__)

AT_ONCE = 8  # messages carried out side by side
OWN_AT_ONCE = 2 * AT_ONCE  # with those that somebody has just written and waits for
REGISTRATIONS_AT_ONCE = AT_ONCE // 2
"""The rest of them is for starts and ends, however long what is applied takes."""

OF_JOBS = (WishKind.CANCEL_RUN, WishKind.SHOW_JOB, WishKind.RESCHEDULE_RUN)
GONE = "Prefect could not be told how this job ended: its flow run was deleted there"

REFUSED_FOR = timedelta(minutes=5)
"""Prefect's refusal of a job's flow run counts once it has lasted so long."""

CORRECT = "correct what it names, in the run template or in Prefect, and start the job again"

LOCK = timedelta(seconds=10)
"""How long one who applies a template has it alone. Who takes longer must expect company; of who is
killed meanwhile, others wait no longer."""


async def carry_out(near: Neighbours, wish: Wish) -> bool:
    """Do what the wish says; doing it twice does no harm. True: it is removed already.

    Raises:
        PrefectUnavailable: Prefect does not answer; the wish has to come again.
        Conflict: Prefect refuses what it is told.
    """
    return bool(await CARRIERS[WishKind(wish.kind)](near, wish))


async def apply_template(near: Neighbours, template_id: int) -> Applied | None:
    """Flow, work pool and deployment as the records say; None: the template is gone.

    Raises:
        Locked: somebody else does that just now.
    """
    me = uuid4()
    await asyncio.to_thread(_lock, near, template_id, me)
    try:
        read = await asyncio.to_thread(_plan, near, template_id)
        if read is None:
            return None
        plan, known = read
        applied = await apply(near.prefect, plan, known)
        await asyncio.to_thread(_remember, near, template_id, plan, applied)
        changed = bool(applied.written) and not applied.is_new
        await ahead.settle(near, template_id, changed=changed)
    finally:
        await asyncio.shield(asyncio.to_thread(_unlock, near, template_id, me))
    return applied


async def look_ahead(near: Neighbours, outlooks: ahead.Ahead) -> None:
    """Let Prefect show what is to come: names of its own runs, and the runs it does not make.

    Raises:
        PrefectUnavailable: Prefect does not answer.
    """
    for template_id in await outlooks.look():
        me = uuid4()
        try:
            await asyncio.to_thread(_lock, near, template_id, me)
        except Locked:
            continue  # it is being applied, and its runs with it
        try:
            outlooks.shown(template_id, await ahead.settle(near, template_id, changed=False))
        finally:
            await asyncio.shield(asyncio.to_thread(_unlock, near, template_id, me))


async def _apply_template(near: Neighbours, wish: Wish) -> None:
    await apply_template(near, wish.subject_id)


def _lock(near: Neighbours, template_id: int, me: UUID) -> None:
    """Two at once would move waiting runs twice, and the older state could be the last."""
    with near.ledger.writing(SERVICE) as session:
        if not turns.take(session, _lock_name(template_id), me, LOCK):
            raise Locked(f"run template {template_id} is being applied already")


def _unlock(near: Neighbours, template_id: int, me: UUID) -> None:
    with contextlib.suppress(JobautoError), near.ledger.writing(SERVICE) as session:
        turns.end(session, _lock_name(template_id), me)


def _lock_name(template_id: int) -> str:
    return f"template {template_id}"


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
            for job in jobs_of_flow_run(session, old):
                if job.state == JobState.SCHEDULED:
                    job.flow_run_id = new


async def _create_run(near: Neighbours, wish: Wish) -> bool:
    """A flow run for a scheduled job; the job's id in its parameters ties the two.

    A refusal may pass, as somebody corrects what it names or ends an upgrade; a job whose run is
    refused for some minutes can't start, now and later.
    """
    found = await asyncio.to_thread(_read_start, near, wish.subject_id)
    if found is None:
        return False
    job, parameters, is_stale = found
    with tracing.span("create flow run", job.traceparent, {"jobauto.job_id": job.id}):
        return await _create_run_of(near, wish, job, parameters, is_stale=is_stale)


async def _create_run_of(
    near: Neighbours, wish: Wish, job: Job, parameters: dict[str, Any], *, is_stale: bool
) -> bool:
    if job.task_id is not None and await pauses.take_over(near, [job.runtemplate_id]):
        return False  # somebody paused the deployment in Prefect: its windows have ended
    try:
        run = await _run_of(near, job, parameters, is_stale=is_stale)
    except PrefectRefuses as error:
        if near.ledger.clock() - wish.created_at < REFUSED_FOR:
            raise  # it comes again, and until then the job says what it waits for
        await asyncio.to_thread(_block, near, job.id, f"{error}; {CORRECT}")
        return False
    await asyncio.to_thread(_bind, near, job.id, run, wish)
    return True


def _read_start(near: Neighbours, job_id: int) -> tuple[Job, dict[str, Any], bool] | None:
    """A job that is to have a flow run, the run's parameters, and whether its template waits to
    be applied.

    None: it is to have none.
    """
    with near.ledger.reading() as session:
        try:
            job = queries.job_with_context(session, job_id)
        except NotFound:
            return None
        if not attempts.awaits_run(job):
            return None
        parameters = run_parameters(job, near.ledger.box)
        return job, parameters, keeping.awaits_application(session, job.runtemplate_id)


async def _run_of(
    near: Neighbours, job: Job, parameters: Mapping[str, Any], *, is_stale: bool
) -> UUID:
    """The flow run of a job, of a deployment that says what the record does.

    Starts come before registrations: a template that waits to be applied is applied here, or the
    run would have the values and the work pool of yesterday. So is one whose deployment Prefect
    finds wrong: somebody may have changed it there.

    Raises:
        PrefectRefuses: it does not take the run, also of a deployment that was just applied.
    """
    deployment_id = job.runtemplate.deployment_id
    if deployment_id is not None and not is_stale:
        try:
            return await _new_run(near, job, deployment_id, parameters)
        except NotFound:
            logger.info("deployment %s is gone; it is made again", deployment_id)
        except PrefectRefuses as error:
            logger.info("deployment %s is applied again: %s", deployment_id, error)
    applied = await apply_template(near, job.runtemplate_id)
    if applied is None:
        raise NotFound(f"run template {job.runtemplate_id} is gone")
    return await _new_run(near, job, applied.deployment_id, parameters)


async def _new_run(
    near: Neighbours, job: Job, deployment_id: UUID, parameters: Mapping[str, Any]
) -> UUID:
    return await runs.create_run(
        near.prefect,
        deployment_id,
        parameters=parameters,
        scheduled=job.schedule,
        name=run_name(job),
        labels=labels_of(job),
        idempotency_key=window_key(job.runtemplate, job.schedule)
        if is_of_window(job)
        else run_key(job),
    )


def _block(near: Neighbours, job_id: int, why: str) -> None:
    with near.ledger.writing(SERVICE) as session:
        job = queries.job_with_context(session, job_id)
        attempts.lock_job(session, job)
        if attempts.awaits_run(job):
            block(session, job, why)


def _read_job(near: Neighbours, job_id: int) -> Job | None:
    with near.ledger.reading() as session:
        try:
            return queries.job_with_context(session, job_id)
        except NotFound:
            return None


def _bind(near: Neighbours, job_id: int, flow_run_id: UUID, wish: Wish) -> None:
    with near.ledger.writing(SERVICE) as session:
        wishes.remove(session, wish)
        job = session.get(Job, job_id)
        if job is not None and job.flow_run_id is None:
            job.flow_run_id = flow_run_id
            if job.state not in LIVE_JOBS:  # it ended while its run was being made
                wishes.wish(session, WishKind.CANCEL_RUN, job_id)


async def _cancel_run(near: Neighbours, wish: Wish) -> None:
    """The flow run of a job is asked to end; of one that was cancelled, it shows that."""
    job = await asyncio.to_thread(_read_job, near, wish.subject_id)
    if job is None or job.flow_run_id is None:
        return
    why = job.cancel_reason or job.message or ""
    if job.state not in LIVE_JOBS and SHOWN[job.state] is PrefectState.CANCELLED:
        # Whoever else tells this end tells the same: it counts once.
        story = Story(
            state=PrefectState.CANCELLED,
            message=job.message or why,
            transition_id=end_transition(job),
        )
        told = await runs.set_state(near.prefect, job.flow_run_id, story)
    else:
        told = await runs.cancel_run(near.prefect, job.flow_run_id, why)
    if not told:
        await asyncio.to_thread(add_line, near, job.id, GONE)


async def _show_job(near: Neighbours, wish: Wish) -> None:
    """The flow run shows how its job ended."""
    job = await asyncio.to_thread(_read_job, near, wish.subject_id)
    if job is None or job.flow_run_id is None or job.state in LIVE_JOBS:
        return
    if not await show_end(near, job.id, job.flow_run_id):
        await asyncio.to_thread(add_line, near, job.id, GONE)


async def show_end(
    near: Neighbours, job_id: int, flow_run_id: UUID, *, force: bool = False
) -> bool:
    """Let a flow run show the end of a job; what its files say is not known any more.

    False: it is gone. `force`: whatever Prefect's rules say of what may follow which state.
    """
    story = await asyncio.to_thread(_story, near, job_id)
    return await runs.tell(near.prefect, flow_run_id, story, force=force)


def add_line(near: Neighbours, job_id: int, text: str) -> None:
    """Let a job's output end with a line of ours, once."""
    with near.ledger.writing(SERVICE) as session:
        leases.add_notice(session, job_id, text)


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


CARRIERS: Mapping[WishKind, Callable[[Neighbours, Wish], Awaitable[bool | None]]] = {
    WishKind.APPLY_APP: apply_app,
    WishKind.RETIRE_FLOW: retire_app,
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
    """Takes messages that are due and carries them out, some at once; starts and ends first.

    `wake` may be called from any thread. What fails comes again, later each time.
    """

    def __init__(self, near: Neighbours, poll_seconds: float | None = None) -> None:
        """`poll_seconds`: how often to look unasked; None: only when woken."""
        self.near = near
        self._poll_seconds = poll_seconds
        self._loop: asyncio.AbstractEventLoop | None = None
        self._due = asyncio.Event()
        self._in_hand: dict[asyncio.Task[None], Priority] = {}
        self._own: deque[Wish] = deque()
        self._more_may_wait = True
        self._locked = 0

    @property
    def is_running(self) -> bool:
        """Whether messages may be left to it."""
        return self._loop is not None

    def wake(self) -> None:
        """There may be a message."""
        if self._loop is not None:
            self._loop.call_soon_threadsafe(self._look_again)

    def carry(self, messages: Iterable[Wish]) -> None:
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
        async with asyncio.TaskGroup() as group:  # which ends with all that is in hand
            while True:
                await self._begin_due(group)
                try:
                    await asyncio.wait_for(self._due.wait(), self._poll_seconds)
                except TimeoutError:
                    self._more_may_wait = True

    async def carry_all(self) -> None:
        """Carry out every message that is due now."""
        async with asyncio.TaskGroup() as group:
            await self._begin_due(group)
            while self._in_hand or self._locked:
                await self._due.wait()
                await self._begin_due(group)

    async def _begin_due(self, group: asyncio.TaskGroup) -> None:
        """Begin with what is due, as far as hands are free."""
        self._due.clear()
        self._begin_own(group)
        while self._more_may_wait and (free := AT_ONCE - len(self._in_hand)) > 0:
            self._more_may_wait = False
            try:
                taken = await self._take(free, max(0, self._free_for_registrations()))
            except JobautoError as error:
                logger.warning("the outbox can't be read: %s", error)
                return
            for message in taken:
                self._begin(group, message)
            self._more_may_wait |= len(taken) == free

    def _begin_own(self, group: asyncio.TaskGroup) -> None:
        """Somebody waits for these; what is anybody's by now is left to be taken."""
        now = self.near.ledger.clock()
        while self._own and len(self._in_hand) < OWN_AT_ONCE:
            message = self._own.popleft()
            if message.taken_until is not None and message.taken_until > now:
                self._begin(group, message)

    def _begin(self, group: asyncio.TaskGroup, message: Wish) -> None:
        task = group.create_task(self._carry(message))
        self._in_hand[task] = Priority(message.priority)
        task.add_done_callback(self._finished)

    def _finished(self, task: asyncio.Task[None]) -> None:
        if self._in_hand.pop(task) == Priority.REGISTRATION:
            self._more_may_wait = True  # others may wait for its hand
        self._due.set()

    def _free_for_registrations(self) -> int:
        return REGISTRATIONS_AT_ONCE - list(self._in_hand.values()).count(Priority.REGISTRATION)

    async def _take(self, most: int, registrations: int) -> Sequence[Wish]:
        """The next ones. A thread that takes some can't be stopped: what it takes goes back."""
        taking = asyncio.ensure_future(
            asyncio.to_thread(wishes.take, self.near.ledger, most, registrations)
        )
        try:
            return await asyncio.shield(taking)
        except asyncio.CancelledError:
            for message in await taking:
                wishes.give_back(self.near.ledger, message)
            raise

    async def _carry(self, message: Wish) -> None:
        is_of_job = message.kind in (*OF_JOBS, WishKind.CREATE_RUN)
        try:
            with about(job_id=message.subject_id if is_of_job else None):
                await self._carry_out(message)
        except JobautoError as error:  # once it has been taken for too long it is anybody's
            logger.warning("the outbox can't be written: %s", error)

    async def _carry_out(self, message: Wish) -> None:
        ledger = self.near.ledger
        try:
            is_removed = await carry_out(self.near, message)
        except Locked:
            wait = await asyncio.to_thread(wishes.let_wait, ledger, message)
            self._locked += 1
            self._call_later(wait, self._unlocked)
        except PrefectRefuses as error:
            await self._refused(message, error)
        except JobautoError as error:
            logger.warning("%s %s is put off: %s", message.kind, message.subject_id, error)
            await self._put_off(message, str(error))
        except asyncio.CancelledError:
            wishes.give_back(ledger, message)  # this process ends; another one need not wait
            raise
        except Exception:
            logger.exception("%s %s failed", message.kind, message.subject_id)
            await self._put_off(message, "an error in this program")
        else:
            if not is_removed:
                await asyncio.to_thread(wishes.done, ledger, message)

    async def _refused(self, message: Wish, error: PrefectRefuses) -> None:
        """What is registered may be changed until Prefect takes it; of a run that is all."""
        logger.warning("%s %s is refused: %s", message.kind, message.subject_id, error)
        if message.priority == Priority.REGISTRATION or message.kind == WishKind.CREATE_RUN:
            await self._put_off(message, str(error))
            return
        if message.kind in OF_JOBS:
            await asyncio.to_thread(add_line, self.near, message.subject_id, str(error))
        await asyncio.to_thread(wishes.done, self.near.ledger, message)

    async def _put_off(self, message: Wish, error: str) -> None:
        wait = await asyncio.to_thread(wishes.put_off, self.near.ledger, message, error)
        self._call_later(wait, self._look_again)

    def _unlocked(self) -> None:
        self._locked -= 1
        self._look_again()

    def _call_later(self, wait: timedelta, look: Callable[[], None]) -> None:
        asyncio.get_running_loop().call_later(wait.total_seconds(), look)
