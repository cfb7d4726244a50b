"""Failed sign-ins of accounts and addresses, counted for all processes of an installation."""

from collections.abc import Collection, Mapping
from datetime import datetime

from sqlalchemy import delete, select
from sqlalchemy.orm import Session

from jobauto_prefect.ledger.records import SignInFailure


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
