"""Bearer tokens: created here, shown once, stored as a hash."""

import hashlib
import secrets
from collections.abc import Collection, Sequence
from datetime import datetime
from enum import StrEnum
from typing import Any, NamedTuple

from sqlalchemy import Row, select, true
from sqlalchemy.orm import Session

from jobauto_prefect.errors import Conflict
from jobauto_prefect.ledger.access.sign_ins import GRANTS, Grants, grants_of
from jobauto_prefect.ledger.audit.trail import WritingSession
from jobauto_prefect.ledger.records import CompanyUser, Token, User, UserRole

TOKEN_PREFIX = "jobauto_"  # noqa: S105 - how every token begins


class TokenKind(StrEnum):
    """Who a token is for."""

    USER = "user"  #: all rights of its user
    SIGN_IN = "sign-in"  #: the same, from a sign-in with a password, until the password changes
    SESSION = "session"  #: the same, for the console's cookie only
    WORKER = "worker"  #: claims, renewals and reports of its pools, and nothing else


API_KINDS = frozenset({TokenKind.USER, TokenKind.SIGN_IN, TokenKind.WORKER})
"""Kinds accepted as Bearer, or as the password of Basic."""

SESSION_KINDS = frozenset({TokenKind.SESSION})
"""Kinds accepted in the console's cookie. Browsers send a cookie to every port of its host."""


def digest_of(text: str) -> str:
    """Return the digest under which a token is stored."""
    return hashlib.sha256(text.encode()).hexdigest()


def issue_user_token(
    session: Session, user: User, expires_at: datetime | None, kind: TokenKind = TokenKind.USER
) -> tuple[str, Token]:
    """Issue a token for a user; its text is not stored. `expires_at` None: it never expires.

    Raises:
        Conflict: the user is disabled.
    """
    session.flush()
    session.refresh(user, with_for_update=True)  # ending the user's tokens includes this one
    if not user.enabled:
        raise Conflict(f"user {user.login} is disabled and gets no tokens; enable the user first")
    return _issue(session, TOKEN_PREFIX, Token(kind=kind, user=user, expires_at=expires_at))


def end_tokens(
    session: WritingSession, user: User, kinds: Collection[TokenKind] | None = None
) -> None:
    """Revoke a user's tokens of these kinds; None: of all kinds."""
    of_kind = true() if kinds is None else Token.kind.in_(kinds)
    valid = select(Token).where(Token.user_id == user.id, Token.revoked_at.is_(None), of_kind)
    for token in session.scalars(valid):
        token.revoked_at = session.clock()


def issue_worker_token(
    session: Session, pools: Sequence[str], expires_at: datetime | None
) -> tuple[str, Token]:
    token = Token(kind=TokenKind.WORKER, pools=sorted(set(pools)), expires_at=expires_at)
    return _issue(session, f"{TOKEN_PREFIX}worker_", token)


def _issue(session: Session, prefix: str, token: Token) -> tuple[str, Token]:
    text = prefix + secrets.token_urlsafe(32)
    token.hash = digest_of(text)
    session.add(token)
    session.flush()
    return text, token


class Bearer(NamedTuple):
    """Who a valid token belongs to; `user_id` and `login` are None for a worker's token.

    `changes_at` is when this is next known to change by itself.
    """

    token_id: int
    kind: TokenKind
    pools: list[str]
    user_id: int | None
    login: str | None
    grants: Grants
    changes_at: datetime | None


def bearer(session: Session, text: str, now: datetime) -> Bearer | None:
    """Return the bearer of a token; None if it is unknown, expired, revoked or its user disabled.

    A row that is neither a valid user token nor a valid worker token has no bearer. Every request
    asks this: it is one query, and creates no record objects.
    """
    rows = session.execute(_BEARER.where(Token.hash == digest_of(text))).all()
    if not rows or not _holds(rows[0], now):
        return None
    token = rows[0]
    ends = [token.expires_at, *(row.until for row in rows)]
    return Bearer(
        token_id=token.id,
        kind=TokenKind(token.kind),
        pools=token.pools,
        user_id=token.user_id,
        login=token.login,
        grants=grants_of(rows, now),
        changes_at=min((end for end in ends if end is not None and end > now), default=None),
    )


_BEARER = (
    select(
        Token.id, Token.kind, Token.pools, Token.user_id, Token.expires_at, Token.revoked_at,
        User.login, User.enabled, *GRANTS,
    )
    .outerjoin(User, User.id == Token.user_id)
    .outerjoin(UserRole, UserRole.user_id == User.id)
    .outerjoin(CompanyUser, CompanyUser.user_id == User.id)
)  # fmt: skip


def _holds(token: Row[Any], now: datetime) -> bool:
    in_time = token.expires_at is None or token.expires_at > now
    if token.kind == TokenKind.WORKER:
        is_whose = token.user_id is None
    else:
        is_whose = token.kind in list(TokenKind) and bool(token.enabled)
    return token.revoked_at is None and in_time and is_whose
