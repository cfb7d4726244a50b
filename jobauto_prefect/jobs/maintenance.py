"""The freeze for maintenance: nothing starts while it lasts."""

from datetime import datetime, timedelta

from jobauto_prefect.jobs.claim_context import Refused
from jobauto_prefect.jobs.closed_time import story_of
from jobauto_prefect.jobs.windows import judge_again
from jobauto_prefect.ledger import attempts, freezes, keeping
from jobauto_prefect.ledger.audit import WritingSession
from jobauto_prefect.ledger.records import Freeze
from jobauto_prefect.ledger.wishes import WishKind, wish
from jobauto_prefect.runtime.protocol import PrefectState

LOOK = timedelta(minutes=10)
"""So often a job that waits for the end of a freeze looks; nobody tells it of `until`."""


def begin_freeze(session: WritingSession, reason: str | None, until: datetime | None) -> Freeze:
    """Let nothing start until an instant, None: until somebody says so; or change that.

    Claims that began before the commit may still be granted: `freezes.await_claims` waits for
    their end, in a transaction of its own.
    """
    known = _present(session)
    if known is None:
        known = Freeze(since=session.clock(), begun_by=session.actor.name)
        session.add(known)
    known.reason, known.until = reason, until
    session.flush()
    judge_again(session, keeping.lock_moving_templates(session))
    return known


def end_freeze(session: WritingSession) -> Freeze | None:
    """What waits may start. None: there was no freeze."""
    known = _present(session)
    if known is None:
        return None
    known.ended_at = session.clock()
    session.flush()
    judge_again(session, keeping.lock_moving_templates(session))
    for job_id in attempts.told_to_wait(session):
        wish(session, WishKind.RESCHEDULE_RUN, job_id)
    return known


def _present(session: WritingSession) -> Freeze | None:
    """The freeze that lasts, locked; one that has ended by itself gets its end."""
    known = freezes.lock_unended_freeze(session)
    if known is None or known.until is None or known.until > session.clock():
        return known
    known.ended_at = known.until
    session.flush()
    return None


def refuse_start(freeze: Freeze, now: datetime) -> Refused:
    """Not now: the job is to come again."""
    at = now + LOOK if freeze.until is None else min(now + LOOK, freeze.until)
    return Refused("maintenance", story_of(freeze), PrefectState.SCHEDULED, at=at)
