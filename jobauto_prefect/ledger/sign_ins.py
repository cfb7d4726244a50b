"""Who may sign in, as each request asks it, and failed sign-ins, counted for all processes."""

from collections.abc import Collection, Mapping, Sequence
from datetime import datetime
from typing import Any, NamedTuple

from sqlalchemy import Label, Row, bindparam, delete, func, select
from sqlalchemy.orm import Session

from jobauto_prefect.ledger.records import CompanyUser, SignInFailure, User, UserRole


class Standing(NamedTuple):
    """The roles of somebody that have not expired, and their role in each company."""

    roles: frozenset[str]
    memberships: dict[int, str]


STANDING = (
    UserRole.role,
    UserRole.expires_at.label("until"),
    CompanyUser.company_id,
    CompanyUser.role.label("member_role"),
)
"""Columns of rows of users, outer joined, that `standing` reads."""


def standing(rows: Sequence[Row[Any]], now: datetime) -> Standing:
    """Of the one user whose rows these are."""
    return Standing(
        frozenset(row.role for row in rows if row.role and (row.until is None or row.until > now)),
        {row.company_id: row.member_role for row in rows if row.company_id},
    )


class Account(NamedTuple):
    """Somebody who may sign in with a password, once it is compared.

    `failed` is how often that failed lately: for the account, and from the address.
    """

    user_id: int
    login: str
    email: str | None
    password_hash: str | None
    standing: Standing
    failed: tuple[int, int]


def account(
    session: Session, login: str, keys: tuple[str, str], since: datetime, now: datetime
) -> Account | None:
    """The account of that login; None: there is none, or it is disabled. It is one query.

    `keys` are those of the account and of the address, whose failures after `since` are counted.
    """
    said = {"login": login, "account": keys[0], "address": keys[1], "since": since}
    rows = session.execute(_ACCOUNT, said).all()
    if not rows:
        return None
    user = rows[0]
    return Account(
        user.id, user.login, user.email, user.password_hash, standing(rows, now),
        (user.failed_account, user.failed_address),
    )  # fmt: skip


def _failed(name: str) -> Label[int]:
    counted = select(func.count()).where(
        SignInFailure.key == bindparam(name), SignInFailure.failed_at > bindparam("since")
    )
    return counted.scalar_subquery().label(f"failed_{name}")


_ACCOUNT = (
    select(
        User.id, User.login, User.email, User.password_hash, *STANDING,
        _failed("account"), _failed("address"),
    )
    .outerjoin(UserRole, UserRole.user_id == User.id)
    .outerjoin(CompanyUser, CompanyUser.user_id == User.id)
    .where(User.login == bindparam("login"), User.retired_at.is_(None), User.enabled)
)  # fmt: skip


def failures(
    session: Session, keys: Collection[str], since: datetime
) -> Mapping[str, list[datetime]]:
    """Key -> when it failed after `since`, in order; each key is there."""
    found: dict[str, list[datetime]] = {key: [] for key in keys}
    rows = session.execute(
        select(SignInFailure.key, SignInFailure.failed_at)
        .where(SignInFailure.key.in_(keys), SignInFailure.failed_at > since)
        .order_by(SignInFailure.failed_at)
    )
    for key, failed_at in rows:
        found[key].append(failed_at)
    return found


def add(session: Session, keys: Collection[str], now: datetime, since: datetime) -> None:
    """One failure of each key; what is not after `since` is forgotten, of all keys."""
    session.execute(delete(SignInFailure).where(SignInFailure.failed_at <= since))
    session.add_all(SignInFailure(key=key, failed_at=now) for key in keys)


def forget(session: Session, key: str) -> None:
    """The failures of a key count no longer."""
    session.execute(delete(SignInFailure).where(SignInFailure.key == key))
