"""Answers kept for a day, to be given again to a request that is repeated with the same key."""

import hashlib
from datetime import timedelta

from sqlalchemy import delete, func, select

from jobauto_prefect.errors import InProgress
from jobauto_prefect.ledger.audit import WritingSession
from jobauto_prefect.ledger.records import KeptAnswer

KEPT = timedelta(hours=24)


def first_answer(session: WritingSession, actor: str, route: str, key: str) -> KeptAnswer | None:
    """The answer kept under this key; None: this request is the first, until this session ends.

    On SQLite writers come one after another, so that a second request waits for the first.

    Raises:
        InProgress: another session is at work on the first request (PostgreSQL).
    """
    if session.get_bind().dialect.name == "postgresql":
        _take_turn(session, actor, route, key)
    kept = session.get(KeptAnswer, (actor, route, key))
    if kept is None or kept.created_at > session.clock() - KEPT:
        return kept
    session.delete(kept)
    session.flush()
    return None


def _take_turn(session: WritingSession, actor: str, route: str, key: str) -> None:
    # A lock that ends with the transaction, however that ends: nothing is left to clean up.
    digest = hashlib.sha256("\0".join((actor, route, key)).encode()).digest()
    number = int.from_bytes(digest[:8], signed=True)
    if not session.scalar(select(func.pg_try_advisory_xact_lock(number))):
        raise InProgress("the first request with this Idempotency-Key is being worked on")


def forget_old_answers(session: WritingSession) -> None:
    """Delete the answers that are older than a day."""
    session.execute(delete(KeptAnswer).where(KeptAnswer.created_at <= session.clock() - KEPT))
