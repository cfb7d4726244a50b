"""The freeze for maintenance: nothing starts while it lasts."""

from datetime import datetime

from jobauto_prefect.jobs.windows.due_windows import recheck_closed_time
from jobauto_prefect.ledger.audit.trail import WritingSession
from jobauto_prefect.ledger.jobs import freezes, windows
from jobauto_prefect.ledger.jobs.waits import jobs_told_to_wait
from jobauto_prefect.ledger.outbox import enqueue_reschedule
from jobauto_prefect.ledger.records import Freeze


def begin_freeze(session: WritingSession, reason: str | None, until: datetime | None) -> Freeze:
    """Begin or change a freeze: nothing starts until an instant; None: until it is ended.

    Claims that began before the commit may still be granted: `freezes.await_claims` waits for their
    end, in a separate transaction.
    """
    freeze = _present(session)
    if freeze is None:
        freeze = Freeze(since=session.clock(), begun_by=session.actor.name)
        session.add(freeze)
    freeze.reason, freeze.until = reason, until
    session.flush()
    recheck_closed_time(session, windows.lock_moving_templates(session))
    return freeze


def end_freeze(session: WritingSession) -> Freeze | None:
    """End the freeze, so that waiting jobs may start; return None if there was none."""
    freeze = _present(session)
    if freeze is None:
        return None
    freeze.ended_at = session.clock()
    session.flush()
    recheck_closed_time(session, windows.lock_moving_templates(session))
    for job_id in jobs_told_to_wait(session):
        enqueue_reschedule(session, job_id)
    return freeze


def _present(session: WritingSession) -> Freeze | None:
    """Return the active freeze, locked; record the end of one that has expired.

    None if there is no active freeze.
    """
    freeze = freezes.lock_unended_freeze(session)
    if freeze is None or freeze.until is None or freeze.until > session.clock():
        return freeze
    freeze.ended_at = freeze.until
    session.flush()
    return None
