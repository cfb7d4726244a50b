"""Applies a run template: flow, work pool and deployment become what the records say."""

import asyncio
import contextlib
from dataclasses import dataclass, field
from datetime import timedelta
from uuid import UUID, uuid4

from jobauto_prefect.compiler.plan import DeploymentPlan
from jobauto_prefect.engine.context import EngineContext
from jobauto_prefect.engine.flow_runs import upcoming_runs
from jobauto_prefect.engine.sync.deployment_plans import desired_deployment
from jobauto_prefect.engine.sync.deployments import Applied, AppliedIds, apply
from jobauto_prefect.engine.sync.flow_names import has_name, reserve_name
from jobauto_prefect.errors import JobautoError, Locked
from jobauto_prefect.ledger import locks, outbox
from jobauto_prefect.ledger.audit.trail import SERVICE, WritingSession
from jobauto_prefect.ledger.jobs.flow_runs import jobs_of_flow_run
from jobauto_prefect.ledger.outbox import OutboxKind
from jobauto_prefect.ledger.queries.events import rules_starting
from jobauto_prefect.ledger.queries.run_templates import template_alone, templates_with_context
from jobauto_prefect.ledger.records import OutboxMessage, RunTemplate
from jobauto_prefect.ledger.states import JobState

LOCK = timedelta(seconds=10)
"""How long a process that applies a template has it alone; others wait no longer for a dead one."""


@dataclass(frozen=True, slots=True)
class _Lock:
    """Holds a run template: two who apply it at once would move waiting runs twice, and the older
    state could be the last.
    """

    template_id: int
    holder: UUID = field(default_factory=uuid4)

    def acquire(self, context: EngineContext) -> None:
        """Raise Locked where somebody else has it."""
        with context.ledger.writing(SERVICE) as session:
            if not locks.acquire(session, self._name, self.holder, LOCK):
                raise Locked(f"run template {self.template_id} is being applied already")

    def end(self, session: WritingSession) -> None:
        """Release it with the transaction."""
        locks.discard(session, self._name, self.holder)

    def release(self, context: EngineContext) -> None:
        """Release it now or, where the ledger does not answer, let its time run out."""
        with contextlib.suppress(JobautoError), context.ledger.writing(SERVICE) as session:
            self.end(session)

    @property
    def _name(self) -> str:
        return f"template {self.template_id}"


async def apply_template(
    context: EngineContext, template_id: int, message: OutboxMessage | None = None
) -> Applied | None:
    """Apply flow, work pool and deployment of a run template; None: the template is gone.

    `message` is what asks for it: it is removed with the last thing that is written.

    Raises:
        Locked: somebody else does that just now.
    """
    lock = _Lock(template_id)
    await asyncio.to_thread(lock.acquire, context)
    is_over = False
    try:
        read = await asyncio.to_thread(_plan, context, template_id)
        if read is None:
            return None
        applied = await apply(context.prefect, *read)
        registration = _Registration(*read, applied, message)
        outlook = await asyncio.to_thread(_remember, context, lock, registration)
        if outlook is not None:
            await upcoming_runs.sync_upcoming_runs(context, outlook, changed=registration.changed)
            await asyncio.to_thread(_finish, context, lock, message)
        is_over = True
    finally:
        if not is_over:
            await asyncio.shield(asyncio.to_thread(lock.release, context))
    return applied


async def look_ahead(context: EngineContext, outlooks: upcoming_runs.UpcomingRuns) -> None:
    """Show in Prefect what is to come: names of its own runs, and the runs it does not make.

    Raises:
        PrefectUnavailable: Prefect does not answer.
    """
    for template_id in await outlooks.look():
        lock = _Lock(template_id)
        try:
            await asyncio.to_thread(lock.acquire, context)
        except Locked:
            continue  # it is being applied, and its runs with it
        try:
            outlook = await asyncio.to_thread(_outlook, context, template_id)
            if outlook is not None:
                await upcoming_runs.sync_upcoming_runs(context, outlook, changed=False)
            outlooks.shown(template_id, outlook)
        finally:
            await asyncio.shield(asyncio.to_thread(lock.release, context))


def _outlook(context: EngineContext, template_id: int) -> upcoming_runs.Outlook | None:
    with context.ledger.reading() as session:
        template = session.get(RunTemplate, template_id)
        return None if template is None else upcoming_runs.read_outlook(session, template, context)


def _plan(context: EngineContext, template_id: int) -> tuple[DeploymentPlan, AppliedIds] | None:
    """Return what Prefect is to be told, and under which ids it knows it; None: template gone."""
    with context.ledger.reading() as session:
        templates = templates_with_context(session, None, [template_id])
        if not templates:
            return None
        (template,) = templates
        if has_name(template.app, context.settings.language):
            plan = desired_deployment(session, template, context.settings)
            return plan, AppliedIds(template.app.flow_id, template.deployment_id)
    reserve_name(context.ledger, template.app_id, context.settings.language)
    return _plan(context, template_id)


@dataclass(frozen=True, slots=True)
class _Registration:
    """What Prefect was told of a run template, and what asked for it."""

    plan: DeploymentPlan
    remembered: AppliedIds
    applied: Applied
    message: OutboxMessage | None

    @property
    def changed(self) -> bool:
        """Whether a deployment that had been there was written."""
        return bool(self.applied.written) and not self.applied.is_new


def _remember(
    context: EngineContext, lock: _Lock, registration: _Registration
) -> upcoming_runs.Outlook | None:
    """Note what Prefect has; return the outlook whose runs are still to be made or withdrawn.

    None: all is done, and nobody holds the template any more.
    """
    with context.ledger.writing(SERVICE) as session:
        template = template_alone(session, lock.template_id)
        outlook = None
        if template is not None:
            _note(session, template, registration)
            outlook = upcoming_runs.read_outlook(session, template, context)
        if outlook is not None and outlook.wants_runs(changed=registration.changed):
            return outlook
        _end(session, lock, registration.message)
        return None


def _note(session: WritingSession, template: RunTemplate, registration: _Registration) -> None:
    applied = registration.applied
    if template.deployment_id != applied.deployment_id:
        for rule_id in rules_starting(session, template.id):
            outbox.enqueue(session, OutboxKind.APPLY_RULE, rule_id)
    template.deployment_id = applied.deployment_id
    template.applied_parameters = dict(registration.plan.parameters)
    template.applied_paused = registration.plan.paused
    if applied.flow_id != registration.remembered.flow_id:
        template.app.flow_id = applied.flow_id
    for old, new in applied.moved.items():
        for job in jobs_of_flow_run(session, old):
            if job.state == JobState.SCHEDULED:
                job.flow_run_id = new


def _finish(context: EngineContext, lock: _Lock, message: OutboxMessage | None) -> None:
    with context.ledger.writing(SERVICE) as session:
        _end(session, lock, message)


def _end(session: WritingSession, lock: _Lock, message: OutboxMessage | None) -> None:
    lock.end(session)
    if message is not None:
        outbox.remove(session, message)
