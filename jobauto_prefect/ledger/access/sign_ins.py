"""Who may sign in, as each request checks it, and failed sign-ins, counted for all processes."""

from collections.abc import Sequence
from datetime import date, datetime, timedelta
from typing import Any, NamedTuple

from sqlalchemy import ColumnElement, Label, Row, bindparam, delete, func, or_, select
from sqlalchemy.dialects import postgresql, sqlite
from sqlalchemy.orm import Session

from jobauto_prefect.ledger.audit.trail import WritingSession
from jobauto_prefect.ledger.records import CompanyUser, SignInFailure, SignInSuccess, User, UserRole

KNOWN_FOR = timedelta(days=30)
"""How long a successful sign-in makes a network known to an account."""


class Grants(NamedTuple):
    """The unexpired roles of a user, and their role in each company."""

    roles: frozenset[str]
    memberships: dict[int, str]


GRANTS = (
    UserRole.role,
    UserRole.expires_at.label("until"),
    CompanyUser.company_id,
    CompanyUser.role.label("member_role"),
)
"""Columns of outer-joined user rows that `grants_of` reads."""


def grants_of(rows: Sequence[Row[Any]], now: datetime) -> Grants:
    """Return the grants of the user whose rows these are."""
    return Grants(
        frozenset(row.role for row in rows if row.role and (row.until is None or row.until > now)),
        {row.company_id: row.member_role for row in rows if row.company_id},
    )


class Origin(NamedTuple):
    """What failed sign-ins are counted by: the digest of a login, and the network."""

    account: str
    network: str


class History(NamedTuple):
    """How many recent wrong passwords an account had, from one network and from all together.

    `of_network` counts those of all accounts from this network. `last_success` is the last day
    (UTC) on which this account signed in from this network; None: there is none.
    """

    from_network: int
    from_all: int
    of_network: int
    last_success: date | None

    def is_known(self, today: date) -> bool:
        """Whether the account signed in from this network in the last 30 days."""
        return self.last_success is not None and self.last_success >= today - KNOWN_FOR


class Account(NamedTuple):
    """A user who may sign in with a password, before it is compared."""

    user_id: int
    login: str
    email: str | None
    password_hash: str | None
    grants: Grants
    history: History


def account(
    session: Session, login: str, origin: Origin, since: datetime, now: datetime
) -> Account | None:
    """Read an account and its history in one query; None if there is none, or it is disabled.

    Failures after `since` are counted.
    """
    rows = session.execute(_ACCOUNT, {"login": login, "since": since, **origin._asdict()}).all()
    if not rows:
        return None
    user = rows[0]
    return Account(
        user.id, user.login, user.email, user.password_hash, grants_of(rows, now),
        History(user.from_network, user.from_all, user.of_network, user.last_success),
    )  # fmt: skip


_OF_ACCOUNT = SignInFailure.account == bindparam("account")
_OF_NETWORK = SignInFailure.network == bindparam("network")


def _count(name: str, *where: ColumnElement[bool]) -> Label[int]:
    guesses = select(func.count(SignInFailure.guess.distinct()))
    recent = guesses.where(SignInFailure.failed_at > bindparam("since"), *where)
    return recent.scalar_subquery().label(name)


_LAST_SUCCESS = select(SignInSuccess.day).where(
    SignInSuccess.account == bindparam("account"), SignInSuccess.network == bindparam("network")
)

_ACCOUNT = (
    select(
        User.id, User.login, User.email, User.password_hash, *GRANTS,
        _count("from_network", _OF_ACCOUNT, _OF_NETWORK),
        _count("from_all", _OF_ACCOUNT),
        _count("of_network", _OF_NETWORK),
        _LAST_SUCCESS.scalar_subquery().label("last_success"),
    )
    .outerjoin(UserRole, UserRole.user_id == User.id)
    .outerjoin(CompanyUser, CompanyUser.user_id == User.id)
    .where(User.login == bindparam("login"), User.retired_at.is_(None), User.enabled)
)  # fmt: skip


def last_success(session: Session, origin: Origin) -> date | None:
    """Return the last day of a successful sign-in of this account from this network, or None."""
    return session.scalar(_LAST_SUCCESS, origin._asdict())


class Failure(NamedTuple):
    """One failed sign-in: the account, the network, the guess, and the time."""

    account: str
    network: str
    guess: str
    at: datetime


def failures(session: Session, origin: Origin, since: datetime) -> Sequence[Failure]:
    """Return the failures of this account or from this network after `since`, in order."""
    rows = session.execute(
        select(
            SignInFailure.account,
            SignInFailure.network,
            SignInFailure.guess,
            SignInFailure.failed_at,
        )
        .where(or_(_OF_ACCOUNT, _OF_NETWORK), SignInFailure.failed_at > since)
        .order_by(SignInFailure.failed_at),
        origin._asdict(),
    )
    return [Failure(*row) for row in rows]


def has_failed(session: Session, origin: Origin, guess: str, since: datetime) -> bool:
    """Whether this guess at this account failed from this network after `since`."""
    failed = select(SignInFailure.id).where(
        _OF_ACCOUNT, _OF_NETWORK, SignInFailure.guess == guess, SignInFailure.failed_at > since
    )
    return session.scalar(failed.limit(1), origin._asdict()) is not None


def add_failure(
    session: WritingSession, origin: Origin, guess: str, now: datetime, since: datetime
) -> None:
    """Record a failure; delete all failures before `since`, of all accounts."""
    session.execute(delete(SignInFailure).where(SignInFailure.failed_at <= since))
    session.execute(delete(SignInSuccess).where(SignInSuccess.day < now.date() - KNOWN_FOR))
    session.add(SignInFailure(**origin._asdict(), guess=guess, failed_at=now))


def add_success(session: WritingSession, origin: Origin, today: date) -> None:
    """Record a success; the account's failures from this network no longer count."""
    session.execute(
        delete(SignInFailure).where(
            SignInFailure.account == origin.account, SignInFailure.network == origin.network
        )
    )
    insert = postgresql.insert if session.get_bind().dialect.name == "postgresql" else sqlite.insert
    success = insert(SignInSuccess).values(**origin._asdict(), day=today)
    session.execute(
        success.on_conflict_do_update(index_elements=["account", "network"], set_={"day": today})
    )
