"""Applies run templates: makes flow, work pool and deployment match the records."""

import asyncio
import functools
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from uuid import UUID

from jobauto_prefect.compiler.plan import DeploymentPlan
from jobauto_prefect.engine.context import EngineContext
from jobauto_prefect.engine.sync import upcoming_runs
from jobauto_prefect.engine.sync.application_flows import has_name, is_in_use, reserve_name
from jobauto_prefect.engine.sync.deployment_plans import desired_deployment
from jobauto_prefect.engine.sync.deployments import Applied, AppliedIds, apply
from jobauto_prefect.engine.sync.record_locks import LOCK, TemplateLock
from jobauto_prefect.errors import InvalidInput, JobautoError, Locked, PrefectUnavailable
from jobauto_prefect.jobs.isolation import apart
from jobauto_prefect.ledger import outbox
from jobauto_prefect.ledger.audit.trail import SERVICE, WritingSession
from jobauto_prefect.ledger.jobs.flow_runs import jobs_of_flow_run
from jobauto_prefect.ledger.outbox import OutboxKind
from jobauto_prefect.ledger.prefect_objects import enqueue_deletion
from jobauto_prefect.ledger.queries.events import GivenByRules, given_by_rules, rules_starting
from jobauto_prefect.ledger.queries.run_templates import (
    lock_templates,
    templates_alone,
    templates_with_context,
)
from jobauto_prefect.ledger.records import OutboxMessage, RunTemplate
from jobauto_prefect.ledger.states import JobState
from jobauto_prefect.ledger.store import ReadingSession
from jobauto_prefect.settings import Settings

Outcome = Applied | JobautoError | None
"""The result for a run template: what Prefect holds, or an error; None: the template is gone."""

_Planned = tuple[DeploymentPlan, AppliedIds] | JobautoError | None
"""The plan for Prefect and the ids it has there; None: the template is gone."""


async def apply_template(
    context: EngineContext, template_id: int, *messages: OutboxMessage
) -> Applied | None:
    """Apply flow, work pool and deployment of a run template; None: the template is gone.

    `messages` are those that request it, as for `apply_templates`.

    Raises:
        Locked: another process is doing it.
    """
    outcome = (await apply_templates(context, {template_id: messages}))[template_id]
    if isinstance(outcome, JobautoError):
        raise outcome
    return outcome


async def apply_templates(
    context: EngineContext, wanted: Mapping[int, Sequence[OutboxMessage]]
) -> dict[int, Outcome]:
    """Apply flow, work pool and deployment of run templates, one after the other.

    The ledger is read and written once for all of them. `wanted` has the messages that request
    each: they are removed in the last write for that template.

    Raises:
        JobautoError: the results of all are unknown.
    """
    lock = TemplateLock()
    try:
        await asyncio.to_thread(lock.acquire, context, wanted)
        outcomes: dict[int, Outcome] = {
            template_id: Locked(f"run template {template_id} is already being applied")
            for template_id in wanted.keys() - lock.held
        }
        plans = await asyncio.to_thread(_read_plans, context, lock.held)
        outcomes |= await _apply_plans(context, plans)
        registrations = [
            _Registration(*plan, outcome, wanted[template_id])
            for template_id, plan in plans.items()
            if isinstance(plan, tuple)
            if isinstance(outcome := outcomes[template_id], Applied)
        ]
        by_id = {registration.plan.template_id: registration for registration in registrations}
        outlooks = await asyncio.to_thread(_remember, context, lock, by_id)
        waiting = await upcoming_runs.read_waiting(context, outlooks) if outlooks else {}
        for outlook in outlooks:
            registration = by_id[outlook.template_id]
            try:
                await upcoming_runs.sync_upcoming_runs(
                    context, outlook, waiting[outlook.deployment_id], changed=registration.changed
                )
                await asyncio.to_thread(_finish, context, lock, [registration])
            except JobautoError as error:
                outcomes[outlook.template_id] = error
    finally:
        if lock.held:
            await asyncio.shield(asyncio.to_thread(lock.release, context))
    return outcomes


async def _apply_plans(context: EngineContext, plans: Mapping[int, _Planned]) -> dict[int, Outcome]:
    """Apply the plans; stop if Prefect does not answer, or once half of the lock's time is used."""
    outcomes = dict[int, Outcome]()
    loop = asyncio.get_running_loop()
    until = loop.time() + LOCK.total_seconds() / 2
    stop: JobautoError | None = None
    for template_id, plan in plans.items():
        if outcomes and loop.time() > until:
            stop = stop or Locked(f"run template {template_id} will be applied later")
        outcomes[template_id] = stop or await _told(context, plan)
        if isinstance(outcome := outcomes[template_id], PrefectUnavailable):
            stop = outcome
    return outcomes


async def _told(context: EngineContext, plan: _Planned) -> Outcome:
    if not isinstance(plan, tuple):
        return plan
    wanted, remembered = plan
    try:
        return await apply(
            context.prefect,
            wanted,
            remembered,
            functools.partial(_check_stays, context),
            functools.partial(is_in_use, context),
        )
    except JobautoError as error:
        return error


async def _check_stays(context: EngineContext, deployment_id: UUID) -> None:
    """Make sure that a deployment that existed before its run template is not being deleted.

    If a run template is deleted and created again at once, the new one finds the old deployment by
    its name, while a message is about to delete that by its id.

    Raises:
        Locked: it is, or is already gone; applying again creates a new one.
    """
    path = f"/deployments/{deployment_id}"
    leaves = await context.read(
        outbox.is_deletion_pending, OutboxKind.RETIRE_DEPLOYMENT, deployment_id
    )
    if leaves or await context.prefect.get_or_none(path) is None:
        raise Locked(f"deployment {deployment_id} is being deleted with its former run template")


LOOK_TOGETHER = 50
"""Run templates that are locked together while their upcoming runs are created."""

LOOK_SECONDS = 60.0
"""How long one round takes; the next one goes on."""


async def look_ahead(context: EngineContext, outlooks: upcoming_runs.UpcomingRuns) -> None:
    """Show upcoming windows in Prefect: name its own runs, and create those it does not create.

    Raises:
        PrefectUnavailable: Prefect does not answer.
    """
    until = asyncio.get_running_loop().time() + LOOK_SECONDS
    new = await outlooks.look()
    for start in range(0, len(new), LOOK_TOGETHER):
        await _look_at(context, outlooks, new[start : start + LOOK_TOGETHER])
        if asyncio.get_running_loop().time() > until:
            return


async def _look_at(
    context: EngineContext, seen: upcoming_runs.UpcomingRuns, template_ids: Sequence[int]
) -> None:
    lock = TemplateLock()

    async def show(outlook: upcoming_runs.Outlook, waiting: upcoming_runs.Waiting) -> None:
        with apart(f"run template {outlook.template_id}"):
            await upcoming_runs.sync_upcoming_runs(context, outlook, waiting, changed=False)
            seen.shown(outlook)

    try:
        # One that is not free is being applied, together with its runs.
        await asyncio.to_thread(lock.acquire, context, template_ids)
        outlooks = await asyncio.to_thread(_outlooks, context, lock.held)
        waiting = await upcoming_runs.read_waiting(context, outlooks)
        shows = (show(each, waiting[each.deployment_id]) for each in outlooks)
        for result in await asyncio.gather(*shows, return_exceptions=True):
            if result is not None:
                raise result
    finally:
        await asyncio.shield(asyncio.to_thread(lock.release, context))


def _outlooks(context: EngineContext, ids: Collection[int]) -> list[upcoming_runs.Outlook]:
    with context.ledger.reading() as session:
        return upcoming_runs.read_outlooks(session, templates_alone(session, ids), context)


def _read_plans(context: EngineContext, ids: Collection[int]) -> dict[int, _Planned]:
    settings = context.settings
    with context.ledger.reading() as session:
        templates = templates_with_context(session, None, ids)
        nameless = {each.app_id for each in templates if not has_name(each.app, settings.language)}
        if not nameless:
            given = given_by_rules(session, ids)
            return dict.fromkeys(ids) | {
                template.id: _plan(session, template, settings, given) for template in templates
            }
    for app_id in nameless:
        reserve_name(context.ledger, app_id, settings.language)
    return _read_plans(context, ids)


def _plan(
    session: ReadingSession,
    template: RunTemplate,
    settings: Settings,
    given: Mapping[int, GivenByRules],
) -> _Planned:
    try:
        plan = desired_deployment(session, template, settings, given)
    except InvalidInput as error:
        return error
    return plan, AppliedIds(template.app.flow_id, template.deployment_id)


@dataclass(frozen=True, slots=True)
class _Registration:
    """What was applied for a run template, and from which plan."""

    plan: DeploymentPlan
    remembered: AppliedIds
    applied: Applied
    messages: Sequence[OutboxMessage]

    @property
    def changed(self) -> bool:
        """Whether an existing deployment was changed."""
        return bool(self.applied.written) and not self.applied.is_new


def _remember(
    context: EngineContext, lock: TemplateLock, registrations: Mapping[int, _Registration]
) -> list[upcoming_runs.Outlook]:
    """Store what Prefect has; return the outlooks whose runs must still be created or deleted.

    The other templates are finished and released.
    """
    if not registrations:
        return []
    with context.ledger.writing(SERVICE) as session:
        templates = lock_templates(session, registrations.keys())
        # The automations of rules that start these templates name the former deployment.
        moved = [
            template.id
            for template in templates
            if template.deployment_id != registrations[template.id].applied.deployment_id
        ]
        for rule_id in rules_starting(session, moved) if moved else ():
            outbox.enqueue(session, OutboxKind.APPLY_RULE, rule_id)
        for template in templates:
            _note(session, template, registrations[template.id])
        outlooks = [
            outlook
            for outlook in upcoming_runs.read_outlooks(session, templates, context)
            if outlook.wants_runs(changed=registrations[outlook.template_id].changed)
        ]
        unfinished = {outlook.template_id for outlook in outlooks}
        _end(session, lock, [registrations[each] for each in registrations.keys() - unfinished])
    lock.ended(registrations.keys() - unfinished)
    return outlooks


def _note(session: WritingSession, template: RunTemplate, registration: _Registration) -> None:
    applied = registration.applied
    template.deployment_id = applied.deployment_id
    if template.retired_at is not None:  # deleted meanwhile
        enqueue_deletion(session, template)
    template.applied_parameters = dict(registration.plan.parameters)
    template.applied_paused = registration.plan.paused
    template.applied_schedule = registration.plan.schedule is not None
    if template.app.flow_id is None:
        template.app.flow_id = applied.flow_id
    elif applied.flow_id != template.app.flow_id:  # applying it releases the former flow
        outbox.enqueue(session, OutboxKind.APPLY_APP, template.app_id)
    for old, new in applied.moved.items():
        for job in jobs_of_flow_run(session, old):
            if job.state == JobState.SCHEDULED:
                job.flow_run_id = new


def _finish(context: EngineContext, lock: TemplateLock, finished: Sequence[_Registration]) -> None:
    with context.ledger.writing(SERVICE) as session:
        _end(session, lock, finished)
    lock.ended([each.plan.template_id for each in finished])


def _end(session: WritingSession, lock: TemplateLock, ended: Sequence[_Registration]) -> None:
    lock.end(session, [registration.plan.template_id for registration in ended])
    outbox.remove(session, *(message for each in ended for message in each.messages))
