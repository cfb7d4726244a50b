"""Responses stored for a day, for requests repeated with the same Idempotency-Key."""

import hashlib
from datetime import timedelta

from sqlalchemy import delete, func, select

from jobauto_prefect.errors import InProgress
from jobauto_prefect.ledger.audit.trail import WritingSession
from jobauto_prefect.ledger.records import IdempotencyRecord

KEPT = timedelta(hours=24)


def stored_response(
    session: WritingSession, actor: str, route: str, key: str
) -> IdempotencyRecord | None:
    """Return the response stored under this key; None if this request is the first.

    SQLite has one writer at a time, so a second request waits for the first.

    Raises:
        InProgress: another session is processing the first request (PostgreSQL).
    """
    if session.get_bind().dialect.name == "postgresql":
        # The lock ends with the transaction, whichever way that ends: no clean-up is needed.
        digest = hashlib.sha256("\0".join((actor, route, key)).encode()).digest()
        number = int.from_bytes(digest[:8], signed=True)
        if not session.scalar(select(func.pg_try_advisory_xact_lock(number))):
            raise InProgress("the first request with this Idempotency-Key is still being processed")
    kept = session.get(IdempotencyRecord, (actor, route, key))
    if kept is None or kept.created_at > session.clock() - KEPT:
        return kept
    session.delete(kept)
    session.flush()
    return None


def delete_expired(session: WritingSession) -> None:
    """Delete the responses that are older than a day."""
    session.execute(
        delete(IdempotencyRecord).where(IdempotencyRecord.created_at <= session.clock() - KEPT)
    )
