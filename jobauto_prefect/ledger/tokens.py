"""Bearer tokens: made here, shown once, remembered as a hash."""

import hashlib
import secrets
from collections.abc import Sequence
from datetime import datetime
from enum import StrEnum

from sqlalchemy.orm import Session

from jobauto_prefect.ledger.queries import token_with_hash
from jobauto_prefect.ledger.records import Token, User


class TokenKind(StrEnum):
    """What a token opens."""

    USER = "user"  #: what its user may
    WORKER = "worker"  #: claims, renewals and reports of its pools, and nothing else


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


def issue_user_token(
    session: Session, user: User, expires_at: datetime | None
) -> tuple[str, Token]:
    """A new token for a user; the text is shown once and kept nowhere. None: never expires."""
    return _issue(session, "jobauto_", Token(kind=TokenKind.USER, user=user, expires_at=expires_at))


def issue_worker_token(
    session: Session, pools: Sequence[str], expires_at: datetime | None
) -> tuple[str, Token]:
    """A new token for workers of these pools."""
    token = Token(kind=TokenKind.WORKER, pools=sorted(set(pools)), expires_at=expires_at)
    return _issue(session, "jobauto_worker_", token)


def _issue(session: Session, prefix: str, token: Token) -> tuple[str, Token]:
    text = prefix + secrets.token_urlsafe(32)
    token.hash = _digest(text)
    session.add(token)
    session.flush()
    return text, token


def valid_token(session: Session, text: str, now: datetime) -> Token | None:
    """The token of that text; None where it is unknown, expired, revoked or its user disabled."""
    token = token_with_hash(session, _digest(text))
    if token is None or token.revoked_at is not None:
        return None
    if token.expires_at is not None and token.expires_at <= now:
        return None
    if token.kind == TokenKind.USER and (token.user is None or not token.user.enabled):
        return None
    return token
