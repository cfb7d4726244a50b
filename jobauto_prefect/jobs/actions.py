"""Actions of run templates that concern jobs: each runs once, in one transaction.

What is sent to recipients is in `sources/webhooks.py`.
"""

import asyncio
from collections.abc import Callable, Mapping
from datetime import timedelta
from functools import partial

from jobauto_prefect.definitions.records.actions import UNSCHEDULED, Action
from jobauto_prefect.errors import JobautoError
from jobauto_prefect.jobs.isolation import apart
from jobauto_prefect.jobs.windows.due_windows import keep_windows
from jobauto_prefect.ledger.access import vouchers
from jobauto_prefect.ledger.audit.trail import SERVICE, WritingSession
from jobauto_prefect.ledger.events import pending_actions
from jobauto_prefect.ledger.events.deliveries import event_variables
from jobauto_prefect.ledger.events.event_store import MODES
from jobauto_prefect.ledger.jobs.attempts import is_active, new_job
from jobauto_prefect.ledger.outbox import OutboxKind, enqueue
from jobauto_prefect.ledger.queries.jobs import job_with_context
from jobauto_prefect.ledger.records import Event, Job, PendingAction, RunTemplate
from jobauto_prefect.ledger.store import Ledger
from jobauto_prefect.settings import Settings


class ActionImpossible(JobautoError):
    """An action can't be carried out; the message says why."""


async def run_due_actions(ledger: Ledger, settings: Settings, wake: Callable[[], None]) -> None:
    """Carry out all due actions; `wake` is called when there is a message for Prefect.

    Raises:
        JobautoError: the ledger can't be written at the moment; the remaining actions stay due.
    """
    while due := await asyncio.to_thread(_due, ledger):
        for action_id in due:
            with apart(f"action {action_id}", partial(_bury, ledger, action_id)):
                await asyncio.to_thread(_act, ledger, settings, action_id)
        wake()


def _due(ledger: Ledger) -> list[int]:
    with ledger.reading() as session:
        return list(pending_actions.due_actions(session, ledger.clock()))


def _act(ledger: Ledger, settings: Settings, action_id: int) -> None:
    with ledger.writing(SERVICE) as session:
        action = pending_actions.lock_pending(session, action_id)
        if action is None:
            return
        started = CARRIERS[Action(action.kind)](session, action, settings)
        pending_actions.complete(session, action, started)


def _bury(ledger: Ledger, action_id: int, error: str) -> None:
    with ledger.writing(SERVICE) as session:
        action = pending_actions.lock_pending(session, action_id)
        if action is not None:
            pending_actions.mark_dead(action, error)


def _chain(session: WritingSession, action: PendingAction, _settings: Settings) -> Job | None:
    """Start another run template, with its own values."""
    template = session.get(RunTemplate, action.config["runtemplate_id"])
    if template is None or template.retired_at is not None:
        raise ActionImpossible(f"run template {action.config['runtemplate_id']} no longer exists")
    _require_voucher(session, action.event, template)
    return _started(session, action, template)


def _require_voucher(session: WritingSession, event: Event, target: RunTemplate) -> None:
    """Require that the author of a chain to another company's run template may still start it.

    Raises:
        ActionImpossible: they may not, or may not read the jobs that trigger it.
    """
    if event.company_id == target.company_id:
        return
    ended = session.get_one(RunTemplate, event.runtemplate_id)
    writer = ended.action_writers.get(MODES[event.operation])
    told = vouchers.may_read(session, writer, event.company_id)
    if not (told and vouchers.may_start(session, writer, target.company_id)):
        raise ActionImpossible(
            f"the user who last saved this chain may no longer start run template {target.id} "
            f"after run template {ended.id}; ask somebody who belongs to both companies to save "
            "the actions"
        )


def _launch(session: WritingSession, action: PendingAction, _settings: Settings) -> Job | None:
    """Start an application, by its only run template in the company."""
    app_id = action.config["app_id"]
    templates = pending_actions.launch_candidates(
        session, _ended(session, action).company_id, app_id
    )
    if len(templates) != 1:
        raise ActionImpossible(pending_actions.launch_refusal(app_id, templates))
    return _started(session, action, templates[0])


def _started(session: WritingSession, action: PendingAction, template: RunTemplate) -> Job:
    _require_on(template)
    job = new_job(template, schedule=session.clock(), schedule_type="chained")
    job.event_id, job.overrides = action.event_id, event_variables(action.event)
    job.traceparent = action.event.traceparent
    return _waiting(session, job)


def _waiting(session: WritingSession, job: Job) -> Job:
    session.add(job)
    session.flush()
    enqueue(session, OutboxKind.CREATE_RUN, job.id)
    return job


def _reschedule(session: WritingSession, action: PendingAction, _settings: Settings) -> Job | None:
    """Schedule the same job again with the same values, after the configured number of seconds."""
    job = _ended(session, action)
    _require_on(job.runtemplate)
    at = session.clock() + timedelta(seconds=action.config["delay"])
    again = new_job(job.runtemplate, schedule=at, schedule_type="reschedule")
    again.overrides, again.override_secrets = dict(job.overrides), dict(job.override_secrets)
    again.traceparent = job.traceparent
    return _waiting(session, again)


def _stop(session: WritingSession, action: PendingAction, settings: Settings) -> None:
    """Stop the schedule of a run template; manual and event starts still work."""
    template = _ended(session, action).runtemplate
    if template.retired_at is not None or template.interv == UNSCHEDULED:
        return
    template.interv = UNSCHEDULED
    keep_windows(session, template, settings)
    enqueue(session, OutboxKind.APPLY_TEMPLATE, template.id)


def _ended(session: WritingSession, action: PendingAction) -> Job:
    """Return the job whose end this action follows."""
    return job_with_context(session, action.event.job_id or 0)


def _require_on(template: RunTemplate) -> None:
    if not is_active(template):
        raise ActionImpossible(f"run template {template.id} ({template.name}) is not active")


Carrier = Callable[[WritingSession, PendingAction, Settings], Job | None]

CARRIERS: Mapping[Action, Carrier] = {
    Action.CHAIN: _chain,
    Action.LAUNCH: _launch,
    Action.RESCHEDULE: _reschedule,
    Action.STOP: _stop,
}
