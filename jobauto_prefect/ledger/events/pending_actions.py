"""Actions after events, besides starting rules: each is done once, or says why not.

The rows are committed with the event. `jobs/actions.py` carries out those that concern jobs,
`sources/webhooks.py` sends the others.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any

from sqlalchemy import ColumnElement, func, select, update
from sqlalchemy.orm import Session, joinedload

from jobauto_prefect.definitions.records.actions import Action, ActionMode
from jobauto_prefect.ledger import queues
from jobauto_prefect.ledger.audit.trail import WritingSession
from jobauto_prefect.ledger.records import Event, Job, PendingAction, RunTemplate
from jobauto_prefect.ledger.states import ActionState
from jobauto_prefect.wording import pluralize

STARTING = frozenset({Action.CHAIN, Action.LAUNCH})
BATCH = 100

FIRST_WAIT = timedelta(seconds=1)
LONGEST_WAIT = timedelta(hours=1)
GIVEN_UP_AFTER = timedelta(hours=24)
"""How long a webhook is retried before it is dead."""


def enqueue_webhooks(session: WritingSession, events: Iterable[Event]) -> None:
    """Enqueue a webhook call for each receiver the settings name."""
    session.add_all(
        _owed(session, event, Action.WEBHOOK, {"uri": uri})
        for event in events
        for uri in session.receivers
    )


def enqueue_actions(session: WritingSession, event: Event, job: Job, mode: ActionMode) -> None:
    """Enqueue the actions a run template declares for this end of its job."""
    template = job.runtemplate
    for name, config in getattr(template, mode).items():
        if name == Action.WEBHOOK and config["uri"] in session.receivers:
            continue  # the receivers of the settings get the event anyway
        action = _owed(session, event, Action(name), config)
        if name == Action.WEBHOOK:
            action.secret = template.action_secrets.get(mode)
        session.add(action)


def _owed(
    session: WritingSession, event: Event, kind: Action, config: Mapping[str, Any]
) -> PendingAction:
    now = session.clock()
    return PendingAction(
        event_id=event.id,
        kind=kind,
        target=config.get("uri", ""),
        config=dict(config),
        state=ActionState.OWED,
        due_at=now,
        created_at=now,
    )


def actions_of_event(session: Session, event_id: int) -> Sequence[PendingAction]:
    """Return the actions of an event, in the order of writing."""
    query = (
        select(PendingAction).where(PendingAction.event_id == event_id).order_by(PendingAction.id)
    )
    return session.scalars(query).all()


def dead_actions_of_event(session: Session, event_id: int) -> list[PendingAction]:
    return [
        action for action in actions_of_event(session, event_id) if action.state == ActionState.DEAD
    ]


def due_actions(session: Session, now: datetime) -> Sequence[int]:
    """Return the due actions that concern jobs, the oldest first."""
    query = select(PendingAction.id).where(*_is_due(now), PendingAction.kind != Action.WEBHOOK)
    return session.scalars(query.order_by(PendingAction.id).limit(BATCH)).all()


def lock_pending(session: WritingSession, action_id: int) -> PendingAction | None:
    """Lock an action that is still pending, with its event; None if it is no longer pending."""
    query = (
        select(PendingAction)
        .where(PendingAction.id == action_id, PendingAction.state == ActionState.OWED)
        .options(joinedload(PendingAction.event, innerjoin=True))
        .with_for_update(of=PendingAction)
    )
    return session.scalar(query)


def complete(session: WritingSession, action: PendingAction, job: Job | None = None) -> None:
    """Mark an action done; `job` is the one it started."""
    action.state, action.done_at, action.error = ActionState.DONE, session.clock(), None
    action.job_id = job.id if job is not None else None
    action.taken_until = None


def mark_dead(action: PendingAction, error: str) -> None:
    """Mark an action dead: only a replay restarts it."""
    action.state, action.error, action.taken_until = ActionState.DEAD, error, None


def replay(session: WritingSession, action: PendingAction) -> None:
    """Make a dead action pending again, due now."""
    now = session.clock()
    action.state, action.due_at, action.created_at = ActionState.OWED, now, now
    action.attempts = 0


def mark_starts_dead(session: WritingSession, event: Event, error: str) -> None:
    """Mark those actions of an event dead that would start something."""
    for action in actions_of_event(session, event.id):
        if action.kind in STARTING:
            mark_dead(action, error)


def webhooks_are_due(session: Session, now: datetime) -> bool:
    """Whether any webhook call is due."""
    query = select(PendingAction.id).where(*_is_due(now), PendingAction.kind == Action.WEBHOOK)
    return session.scalar(query.limit(1)) is not None


def claim_webhooks(
    session: WritingSession, in_hand: Mapping[str, int], each: int
) -> Sequence[PendingAction]:
    """Claim due webhook calls, at most `each` per address.

    `in_hand` counts the calls that the caller is sending, by address, so that a receiver without
    answer does not hold up the others.
    """
    now = session.clock()
    place = func.row_number().over(partition_by=PendingAction.target, order_by=PendingAction.id)
    ranked = (
        select(PendingAction.id, PendingAction.target, place.label("place"))
        .where(*_is_due(now), PendingAction.kind == Action.WEBHOOK)
        .subquery()
    )
    rows = session.execute(
        select(ranked.c.id, ranked.c.target, ranked.c.place).where(ranked.c.place <= each)
    )
    free = [row.id for row in rows if row.place <= each - in_hand.get(row.target, 0)]
    if not free:
        return []
    taken = session.scalars(
        update(PendingAction)
        .where(PendingAction.id.in_(free[:BATCH]), *_is_due(now))
        .values(taken_until=now + queues.HELD_FOR)
        .returning(PendingAction.id)
    ).all()
    query = select(PendingAction).where(PendingAction.id.in_(taken)).order_by(PendingAction.id)
    return session.scalars(query.options(joinedload(PendingAction.event))).all()


def retry_later(session: WritingSession, action: PendingAction, error: str) -> None:
    """Retry a failed call later, with growing pauses, until it is given up."""
    now = session.clock()
    if now - action.created_at > GIVEN_UP_AFTER:
        mark_dead(action, f"{error}; given up after {pluralize(action.attempts + 1, 'attempt')}")
        return
    wait = queues.pause_after(action.attempts, FIRST_WAIT, LONGEST_WAIT)
    action.attempts += 1
    action.error, action.due_at, action.taken_until = error, now + wait, None


def renew(session: WritingSession, action_id: int) -> None:
    """Keep the claim of a call that is still being sent."""
    mine = (PendingAction.id == action_id, PendingAction.taken_until.is_not(None))
    until = session.clock() + queues.HELD_FOR
    session.execute(update(PendingAction).where(*mine).values(taken_until=until))


def release(session: WritingSession, ids: Collection[int]) -> None:
    """Release claimed calls for another worker."""
    taken = (PendingAction.id.in_(ids), PendingAction.state == ActionState.OWED)
    session.execute(update(PendingAction).where(*taken).values(taken_until=None))


def _is_due(now: datetime) -> tuple[ColumnElement[bool], ...]:
    due = queues.is_due(PendingAction.due_at, PendingAction.taken_until, now)
    return PendingAction.state == ActionState.OWED, *due


def launch_candidates(session: Session, company_id: int, app_id: int) -> Sequence[RunTemplate]:
    """Return the run templates of an application in a company; a launch needs exactly one."""
    query = select(RunTemplate).where(
        RunTemplate.company_id == company_id,
        RunTemplate.app_id == app_id,
        RunTemplate.retired_at.is_(None),
    )
    return session.scalars(query.order_by(RunTemplate.id)).all()


def launch_refusal(app_id: int, templates: Sequence[RunTemplate]) -> str:
    """Return why an application with these run templates can't be launched."""
    named = ", ".join(str(template.id) for template in templates) or "none"
    return (
        f"application {app_id} must have one run template in this company to be launched; it has "
        f"{named}; name one with {Action.CHAIN}"
    )
