"""The session writes the audit trail, and refuses statements that would bypass it."""

import hashlib
import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from enum import Enum
from typing import Any
from uuid import UUID

from sqlalchemy import Select, event, insert, inspect, select
from sqlalchemy.orm import ORMExecuteState, Session, UOWTransaction
from sqlalchemy.orm.attributes import get_history

from jobauto_prefect.clock import Clock
from jobauto_prefect.definitions.values import MASK
from jobauto_prefect.ledger.base import Audited, LedgerSession
from jobauto_prefect.ledger.records import AuditEntry, Company, CompanyUser, Token, User, UserRole

RIGHTS = (Token, User, UserRole, CompanyUser)
"""Records that determine rights; PostgreSQL announces each write to them."""

BULK_ALLOWED = frozenset(
    {
        "lease",
        "job_output_line",
        "artifact",
        "outbox_message",
        "part",
        "worker",
        "sign_in_failure",
        "sign_in_success",
        "installation_value",
        "app_version",
        "idempotency_record",
        "event",
        "delivery",
        "pending_action",
        "notice",
        "named_lock",
        "unconfirmed_end",
        "job_tally",
        "audit_tally",
    }
)
"""Tables that are no entities: statements on many of their rows are allowed."""


@dataclass(frozen=True, slots=True)
class Actor:
    """The person or program that acts, and its door.

    Doors are rest, console, cli, ui, prefect-api, service and worker.
    """

    name: str
    door: str
    user_id: int | None = None
    address: str | None = None
    user_agent: str | None = None
    request_id: str | None = None


ACTOR_FIELDS = ("user_id", "door", "address", "user_agent", "request_id")

SERVICE = Actor(name="service", door="service")


LONGEST_VALUE = 20_000  # characters of a value before or after, as JSON
KEPT_OF_LONG = 4_000
LONGEST_AGENT = 500  # characters of a User-Agent

RIGHTS_WRITTEN = "rights_written"
"""Key in a session's info: its transaction has written records that determine rights."""

WRITTEN = "written"
"""Key in a session's info: what its transaction has written so far."""


@dataclass(frozen=True, slots=True)
class Change:
    """The changes of one transaction to one record."""

    record: Any
    action: str
    changes: dict[str, list[Any]]


class UnauditedWrite(RuntimeError):
    """A statement would change entities without an audit entry: an error in this program."""


class WritingSession(LedgerSession):
    """A session with an actor; each flush adds the audit entries of its changes.

    `receivers` are the webhook addresses that get every event.
    """

    actor: Actor
    clock: Clock
    receivers: Sequence[str] = ()

    def written(self) -> list["Change"]:
        """Return what this transaction has flushed so far."""
        return list(self.info.get(WRITTEN, {}).values())

    def switched_users(self) -> list[User]:
        """Return the users that it has enabled, disabled or retired so far."""
        return [
            change.record
            for change in self.written()
            if isinstance(change.record, User) and {"enabled", "retired_at"} & set(change.changes)
        ]


@event.listens_for(WritingSession, "before_flush")
def _stamp_times(session: WritingSession, _context: UOWTransaction, _instances: Any) -> None:
    now = session.clock()
    for record in session.new:
        for name in ("created_at", "updated_at"):
            if hasattr(record, name) and getattr(record, name) is None:
                setattr(record, name, now)
    for record in session.dirty:
        if (
            isinstance(record, Audited)
            and _changes(record, "update")
            and hasattr(record, "updated_at")
        ):
            record.updated_at = now


@event.listens_for(WritingSession, "after_flush")
def _collect_changes(session: WritingSession, context: UOWTransaction) -> None:
    """Merge this flush into what the transaction has written of each record."""
    if any(isinstance(record, RIGHTS) for record in (*session.new, *session.dirty)) or any(
        isinstance(state.obj(), RIGHTS)
        for state, (is_deleted, _) in context.states.items()
        if is_deleted
    ):
        session.info[RIGHTS_WRITTEN] = True
    written = session.info.setdefault(WRITTEN, {})
    for record, action, changes in _writes(session, context):
        former = written.get(id(record))
        written[id(record)] = (
            _merged(former, Change(record, action, changes))
            if former
            else Change(record, action, changes)
        )


@event.listens_for(WritingSession, "before_commit")
def _write_entries(session: WritingSession) -> None:
    """Write one entry for each record that the transaction wrote, inside the transaction."""
    session.flush()
    written = session.info.pop(WRITTEN, {})
    entries = [_entry(session, change) for change in written.values()]
    if entries:
        session.connection().execute(insert(AuditEntry), entries)


@event.listens_for(WritingSession, "after_soft_rollback")
def _forget_changes(session: WritingSession, _previous: Any) -> None:
    session.info.pop(WRITTEN, None)


def _merged(first: Change, then: Change) -> Change:
    changes = dict(first.changes)
    for name, (before, after) in then.changes.items():
        changes[name] = [changes[name][0] if name in changes else before, after]
    action = then.action if then.action == "delete" else first.action
    return Change(first.record, action, changes)


@event.listens_for(WritingSession, "do_orm_execute")
def _refuse_bulk_writes(state: ORMExecuteState) -> None:
    if isinstance(state.statement, Select) or state.is_select:
        return
    table = getattr(getattr(state.statement, "table", None), "name", None)
    if table not in BULK_ALLOWED:
        raise UnauditedWrite(
            f"a statement on {table or 'unknown tables'} leaves no audit entry; "
            "change records one by one"
        )


def _writes(
    session: Session, context: UOWTransaction
) -> Iterator[tuple[Any, str, dict[str, list[Any]]]]:
    # Records deleted because their parent dropped them are not in `session.deleted`.
    gone = [
        state.obj()
        for state, (is_deleted, listed_only) in context.states.items()
        if is_deleted and not listed_only
    ]
    for record in session.new:
        if isinstance(record, Audited):
            yield record, "create", _changes(record, action="create")
    for record in session.dirty:
        if record in gone:
            continue
        if isinstance(record, Audited) and (changes := _changes(record, action="update")):
            yield record, "update", changes
    for record in gone:
        if isinstance(record, Audited):
            yield record, "delete", _changes(record, action="delete")


def _changes(record: Any, action: str) -> dict[str, list[Any]]:
    """Return field -> [before, after]; on create before is None, on delete after is."""
    state = inspect(record)
    changes: dict[str, list[Any]] = {}
    for column in state.mapper.column_attrs:
        info = column.columns[0].info
        if info.get("audit") is False:
            continue
        if action == "update" and column.key not in state.committed_state:
            continue  # not set since the last flush
        before, after = _before_after(record, column.key, action)
        if before != after:
            show = _masked if info.get("secret") else _plain
            changes[column.key] = [show(before), show(after)]
    return changes


def _before_after(record: Any, key: str, action: str) -> tuple[Any, Any]:
    value = getattr(record, key)
    if action == "create":
        return None, value
    if action == "delete":
        return value, None
    history = get_history(record, key)
    if history.deleted:
        return history.deleted[0], value
    # A value never set before this transaction created the record has no predecessor.
    return (None if history.added else value), value


def _plain(value: Any) -> Any:
    if isinstance(value, datetime):
        return value.isoformat()
    if isinstance(value, UUID | Enum):
        return str(value)
    return value


def _masked(value: Any) -> Any:
    if isinstance(value, dict):
        return dict.fromkeys(value, MASK)
    return None if value is None else MASK


def _entry(session: WritingSession, change: Change) -> dict[str, Any]:
    record = change.record
    company_id = record.id if isinstance(record, Company) else getattr(record, "company_id", None)
    retired = change.changes.get("retired_at", (None, None))[1] is not None
    return _row(
        session,
        record.entity_name,
        "delete" if retired else change.action,
        change.changes,
        entity_id=record.id,
        company_id=company_id,
    )


def _row(
    session: WritingSession,
    entity_type: str,
    action: str,
    changes: dict[str, Any],
    *,
    entity_id: int | None = None,
    company_id: int | None = None,
) -> dict[str, Any]:
    return {
        "created_at": session.clock(),
        "entity_type": entity_type,
        "entity_id": entity_id,
        "company_id": company_id,
        "action": action,
        "changes": {name: [*map(_bounded, values)] for name, values in changes.items()},
        "actor": session.actor.name,
        **{name: getattr(session.actor, name) for name in ACTOR_FIELDS},
        "user_agent": (session.actor.user_agent or "")[:LONGEST_AGENT] or None,
    }


def _bounded(value: Any) -> Any:
    """Return a value as the trail stores it: of a long one the beginning and a digest."""
    if value is None or isinstance(value, bool | int | float):
        return value
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, default=str)
    if len(text) <= LONGEST_VALUE:
        return value
    digest = hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()
    return f"{text[:KEPT_OF_LONG]} … ({len(text)} characters, SHA-256 {digest})"


def write_deletions(
    session: WritingSession,
    entity_type: str,
    gone: Sequence[tuple[int, int | None, dict[str, Any]]],
) -> None:
    """Write an entry for each record that one statement deleted.

    Each has the record's number, its company and what identifies it. Everything else is in the
    earlier entries about it.
    """
    rows = [
        _row(
            session,
            entity_type,
            "delete",
            {name: [value, None] for name, value in shown.items()},
            entity_id=record_id,
            company_id=company_id,
        )
        for record_id, company_id, shown in gone
    ]
    if rows:
        session.connection().execute(insert(AuditEntry), rows)


def write_entry(
    session: WritingSession,
    entity_type: str,
    action: str,
    changes: dict[str, Any],
    entity_id: int | None = None,
    company_id: int | None = None,
) -> None:
    """Write an entry for what changes no record: a refused claim, a failed login, Prefect's."""
    row = _row(session, entity_type, action, changes, entity_id=entity_id, company_id=company_id)
    session.connection().execute(insert(AuditEntry), [row])


def has_refusal(session: Session, entity_type: str, target: str) -> bool:
    """Whether an entry records a refusal about this object of Prefect's."""
    query = select(AuditEntry.id).where(
        AuditEntry.entity_type == entity_type,
        AuditEntry.action == "refuse",
        AuditEntry.changes["object"][1].as_string() == target,
    )
    return session.scalar(query.limit(1)) is not None
