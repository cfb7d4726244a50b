"""What an event has the service do, beside starting rules: each action once, or with a reason.

The rows are committed with the event. Who carries them out: `jobs/actions.py` what concerns
jobs, `sources/webhooks.py` what is sent.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Any

from sqlalchemy import func, or_, select, update
from sqlalchemy.orm import Session, joinedload

from jobauto_prefect.definitions.actions import Action, ActionMode
from jobauto_prefect.ledger.audit import WritingSession
from jobauto_prefect.ledger.records import Event, Job, OwedAction, RunTemplate
from jobauto_prefect.wording import counted

STARTING = frozenset({Action.CHAIN, Action.LAUNCH})
BATCH = 100

TAKEN = timedelta(seconds=60)
"""How long what is sent is its sender's alone; longer than any receiver is waited for."""

FIRST_WAIT = timedelta(seconds=1)
LONGEST_WAIT = timedelta(hours=1)
GIVEN_UP_AFTER = timedelta(hours=24)
"""A webhook that nobody has accepted for so long is dead."""


class ActionState(StrEnum):
    """Where an action stands."""

    OWED = "owed"  #: it is to be done
    DONE = "done"  #: it is done
    DEAD = "dead"  #: it will not be done unless somebody replays it; `error` says why


def owe_receivers(session: WritingSession, events: Iterable[Event]) -> None:
    """Whoever the settings name is told of these events."""
    session.add_all(
        _owed(session, event, Action.WEBHOOK, {"uri": uri})
        for event in events
        for uri in session.receivers
    )


def owe_actions(session: WritingSession, event: Event, job: Job, mode: ActionMode) -> None:
    """What the run template of a job wants done at this end of it."""
    template = job.runtemplate
    for name, config in getattr(template, mode).items():
        if name == Action.WEBHOOK and config["uri"] in session.receivers:
            continue  # it is told in any case
        action = _owed(session, event, Action(name), config)
        if name == Action.WEBHOOK:
            action.secret = template.action_secrets.get(mode)
        session.add(action)


def _owed(
    session: WritingSession, event: Event, kind: Action, config: Mapping[str, Any]
) -> OwedAction:
    now = session.clock()
    return OwedAction(
        event_id=event.id,
        kind=kind,
        target=config.get("uri", ""),
        config=dict(config),
        state=ActionState.OWED,
        due_at=now,
        created_at=now,
    )


def of_event(session: Session, event_id: int) -> Sequence[OwedAction]:
    """What an event owes, in the order of writing."""
    found = select(OwedAction).where(OwedAction.event_id == event_id).order_by(OwedAction.id)
    return session.scalars(found).all()


def dead_of_event(session: Session, event_id: int) -> list[OwedAction]:
    """The dead ones among them."""
    return [one for one in of_event(session, event_id) if one.state == ActionState.DEAD]


def due(session: Session, now: datetime) -> Sequence[int]:
    """The actions that concern jobs and are due, the oldest first."""
    found = select(OwedAction.id).where(*_is_due(now), OwedAction.kind != Action.WEBHOOK)
    return session.scalars(found.order_by(OwedAction.id).limit(BATCH)).all()


def owed(session: WritingSession, action_id: int) -> OwedAction | None:
    """An action that is still owed, locked, with its event; None: somebody has seen to it."""
    found = (
        select(OwedAction)
        .where(OwedAction.id == action_id, OwedAction.state == ActionState.OWED)
        .options(joinedload(OwedAction.event, innerjoin=True))
        .with_for_update(of=OwedAction)
    )
    return session.scalar(found)


def done(session: WritingSession, action: OwedAction, job: Job | None = None) -> None:
    """An action is done; `job` is what it started."""
    action.state, action.done_at, action.error = ActionState.DONE, session.clock(), None
    action.job_id = job.id if job is not None else None
    action.taken_until = None


def kill(action: OwedAction, error: str) -> None:
    """A dead letter: nothing but a replay does it."""
    action.state, action.error, action.taken_until = ActionState.DEAD, error, None


def replay(session: WritingSession, action: OwedAction) -> None:
    """A dead one is owed again, from now."""
    now = session.clock()
    action.state, action.due_at, action.created_at = ActionState.OWED, now, now
    action.attempts = 0


def kill_starts(session: WritingSession, event: Event, error: str) -> None:
    """An event starts nothing."""
    for action in of_event(session, event.id):
        if action.kind in STARTING:
            kill(action, error)


def webhooks_are_due(session: Session, now: datetime) -> bool:
    """Whether there is anything to send."""
    found = select(OwedAction.id).where(*_is_due(now), OwedAction.kind == Action.WEBHOOK)
    return session.scalar(found.limit(1)) is not None


def take_webhooks(
    session: WritingSession, in_hand: Mapping[str, int], each: int
) -> Sequence[OwedAction]:
    """What is to be sent now, the caller's for `TAKEN`: at most `each` for one address.

    `in_hand` counts what the caller is sending, by address. So one receiver that does not answer
    keeps none of the others waiting.
    """
    now = session.clock()
    place = func.row_number().over(partition_by=OwedAction.target, order_by=OwedAction.id)
    ranked = (
        select(OwedAction.id, OwedAction.target, place.label("place"))
        .where(*_is_due(now), OwedAction.kind == Action.WEBHOOK)
        .subquery()
    )
    rows = session.execute(
        select(ranked.c.id, ranked.c.target, ranked.c.place).where(ranked.c.place <= each)
    )
    free = [row.id for row in rows if row.place <= each - in_hand.get(row.target, 0)]
    return _taken(session, free[:BATCH], now)


def _taken(session: WritingSession, ids: Collection[int], now: datetime) -> Sequence[OwedAction]:
    if not ids:
        return []
    taken = session.scalars(
        update(OwedAction)
        .where(OwedAction.id.in_(ids), *_is_due(now))
        .values(taken_until=now + TAKEN)
        .returning(OwedAction.id)
    ).all()
    found = select(OwedAction).where(OwedAction.id.in_(taken)).order_by(OwedAction.id)
    return session.scalars(found.options(joinedload(OwedAction.event))).all()


def put_off(session: WritingSession, action: OwedAction, error: str) -> None:
    """Sending failed: it comes again, later each time, until it is given up."""
    now = session.clock()
    if now - action.created_at > GIVEN_UP_AFTER:
        kill(action, f"{error}; given up after {counted(action.attempts + 1, 'attempt')}")
        return
    wait = min(FIRST_WAIT * 2 ** min(action.attempts, 20), LONGEST_WAIT)
    action.attempts += 1
    action.error, action.due_at, action.taken_until = error, now + wait, None


def give_back(session: WritingSession, ids: Collection[int]) -> None:
    """Whoever took these does not send them; they are anybody's again."""
    taken = (OwedAction.id.in_(ids), OwedAction.state == ActionState.OWED)
    session.execute(update(OwedAction).where(*taken).values(taken_until=None))


def _is_due(now: datetime) -> tuple[Any, ...]:
    free = or_(OwedAction.taken_until.is_(None), OwedAction.taken_until < now)
    return OwedAction.state == ActionState.OWED, OwedAction.due_at <= now, free


def launched(session: Session, company_id: int, app_id: int) -> Sequence[RunTemplate]:
    """The run templates of an application in a company; to launch it there must be one."""
    found = select(RunTemplate).where(
        RunTemplate.company_id == company_id,
        RunTemplate.app_id == app_id,
        RunTemplate.retired_at.is_(None),
    )
    return session.scalars(found.order_by(RunTemplate.id)).all()


def not_launched(app_id: int, found: Sequence[RunTemplate]) -> str:
    """Why an application can't be launched in a company where it has these run templates."""
    named = ", ".join(str(one.id) for one in found) or "none"
    return (
        f"application {app_id} must have one run template in this company to be launched; it has "
        f"{named}; name one with {Action.CHAIN}"
    )
