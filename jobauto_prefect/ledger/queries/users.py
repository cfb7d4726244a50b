"""Queries about users and tokens."""

from collections.abc import Sequence

from sqlalchemy import func, select
from sqlalchemy.orm import Session, joinedload

from jobauto_prefect.ledger.records import Token, User, UserRole


def user_named(session: Session, login: str) -> User | None:
    """Return the user with that login; None if there is none."""
    return session.scalar(select(User).where(User.login == login, User.retired_at.is_(None)))


def enabled_logins(session: Session) -> Sequence[str]:
    """Return the logins of all who may sign in, sorted."""
    query = select(User.login).where(User.enabled.is_(True), User.retired_at.is_(None))
    return session.scalars(query.order_by(User.login)).all()


def enabled_users_with_role(session: Session, role: str) -> int:
    """Return the number of enabled users with a role."""
    query = (
        select(func.count(User.id))
        .join(UserRole, UserRole.user_id == User.id)
        .where(UserRole.role == role, User.enabled.is_(True), User.retired_at.is_(None))
    )
    return session.scalar(query) or 0


def tokens_of(session: Session, user_id: int) -> Sequence[Token]:
    """Return the tokens of a user, revoked ones too, in the order of their ids."""
    return session.scalars(select(Token).where(Token.user_id == user_id).order_by(Token.id)).all()


def all_tokens(session: Session) -> Sequence[Token]:
    """Return all tokens with their users, in the order of their ids."""
    return session.scalars(select(Token).options(joinedload(Token.user)).order_by(Token.id)).all()
