"""Queries about applications."""

from collections.abc import Collection, Sequence
from datetime import datetime

from sqlalchemy import select
from sqlalchemy.orm import Session

from jobauto_prefect.ledger.access.ownership import own_first, usable
from jobauto_prefect.ledger.outbox import OutboxKind, pending_subjects
from jobauto_prefect.ledger.records import App, AppVersion, OutboxMessage

KNOWN = "keys of applications"
"""In a session's `info`: by the id of an application its `updated_at`, and its secret keys."""


def secret_keys_usable_by(session: Session, company_id: int) -> set[str]:
    """Return the keys that are secret in an application of a company, or in a shared one.

    An application is read once in a session until it changes: `apply` writes many companies.
    """
    query = select(App.id, App.updated_at).where(usable(App, (company_id,)))
    wanted = session.execute(query.where(App.retired_at.is_(None))).tuples().all()
    known: dict[int, tuple[datetime, set[str]]]
    known = session.info.setdefault(KNOWN, {})
    changed = [key for key, at in wanted if key not in known or known[key][0] != at]
    for app in session.scalars(select(App).where(App.id.in_(changed))) if changed else ():
        known[app.id] = app.updated_at, app.definition.secret_keys
    return {key for app_id, _ in wanted for key in known[app_id][1]}


def app_with_uuid(session: Session, uuid: str) -> App | None:
    """Return the application with that uuid, in lower case; None if there is none."""
    return session.scalar(select(App).where(App.uuid == uuid, App.retired_at.is_(None)))


def apps_named(session: Session, name: str) -> Sequence[App]:
    """Return the applications with that name in the default language of all owners, by id."""
    query = select(App).where(App.name == name, App.retired_at.is_(None))
    return session.scalars(query.order_by(App.id)).all()


def app_usable_as(session: Session, name: str, company_id: int) -> App | None:
    """Return the application that a name means in a company: its own, else the shared one.

    The first by id; None if there is none.
    """
    query = select(App).where(
        App.name == name, usable(App, (company_id,)), App.retired_at.is_(None)
    )
    return session.scalar(query.order_by(*own_first(App)).limit(1))


def applied_apps(
    session: Session, after_id: int, limit: int, among: Collection[int] | None = None
) -> Sequence[App]:
    """Return applications above an id that have a flow, by id; `among` None: all count.

    Those with pending messages are left out.
    """
    applied = select(App).where(
        App.id > after_id,
        App.retired_at.is_(None),
        App.flow_id.is_not(None),
        App.id.not_in(pending_subjects(OutboxKind.APPLY_APP)),
    )
    if among is not None:
        applied = applied.where(App.id.in_(among))
    return session.scalars(applied.order_by(App.id).limit(limit)).all()


def versions_of(session: Session, app_id: int) -> Sequence[AppVersion]:
    """Return an application's previous definitions, the oldest first."""
    return session.scalars(
        select(AppVersion).where(AppVersion.app_id == app_id).order_by(AppVersion.number)
    ).all()


def flow_names_of_others(session: Session, app: App) -> set[str]:
    """Return the names of the other applications' flows in Prefect."""
    query = select(App.flow_name).where(
        App.id != app.id, App.retired_at.is_(None), App.flow_name.is_not(None)
    )
    return {name for name in session.scalars(query) if name}


def is_flow_leaving(session: Session, name: str) -> bool:
    """Whether Prefect is yet to delete the flow of that name, whose application was deleted."""
    query = (
        select(OutboxMessage.id)
        .join(App, App.id == OutboxMessage.subject_id)
        .where(OutboxMessage.kind == OutboxKind.RETIRE_FLOW, App.flow_name == name)
        .limit(1)
    )
    return session.scalar(query) is not None


def lock_applications(session: Session) -> None:
    """Lock all applications: only one transaction at a time can hold this."""
    session.execute(select(App.id).order_by(App.id).with_for_update()).all()
