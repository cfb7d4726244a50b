"""Events, stored with their deliveries in one transaction."""

import hashlib
import json
from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Any
from uuid import UUID

from sqlalchemy import exists, func, or_, select, update
from sqlalchemy.orm import Session, joinedload

from jobauto_prefect.definitions import Severity
from jobauto_prefect.definitions.records.actions import ActionMode
from jobauto_prefect.ledger.audit.trail import WritingSession
from jobauto_prefect.ledger.events import deliveries, pending_actions
from jobauto_prefect.ledger.events.deliveries import EventKind
from jobauto_prefect.ledger.locks import HeldLock, releasing
from jobauto_prefect.ledger.outbox import OutboxKind, pending_subjects
from jobauto_prefect.ledger.records import (
    App,
    Company,
    Delivery,
    Event,
    EventRule,
    EventSource,
    Job,
    RunTemplate,
)
from jobauto_prefect.ledger.states import DeliveryState, JobState
from jobauto_prefect.monitoring.tracing import note

EMITTED_AT_ONCE = 100
ANY = "any"
LONGEST_CIRCLE = 20
"""Jobs in a circular chain: actions may form one, and so may rules changed meanwhile."""

RESULTS: Mapping[str, str] = {
    Severity.SUCCESS: "success",
    Severity.INFO: "success",
    Severity.WARNING: "warning",
    Severity.ERROR: "failure",
    Severity.CRITICAL: "failure",
}
"""Severity of an end -> the name rules use for it."""

MODES: Mapping[str, ActionMode] = {
    "success": ActionMode.SUCCESS,
    "warning": ActionMode.SUCCESS,
    "failure": ActionMode.FAIL,
}
"""Result of an end -> the actions of the run template that follow it."""


@dataclass(frozen=True, slots=True)
class SourceChange:
    """A row of an adapter; `members` are its columns as JSON.

    `fault` is why it can't be stored unchanged: it starts nothing, and is a dead letter.
    """

    inversion: int
    members: Mapping[str, Any]
    fault: str | None = None

    @property
    def digest(self) -> str:
        """Distinguishes a change from one with the same number before its adapter was reset."""
        text = json.dumps(self.members, sort_keys=True, ensure_ascii=False)
        return hashlib.sha256(text.encode()).hexdigest()[:32]


class RuleBook:
    """The rules of one source, indexed by evidence, so that their number does not matter."""

    def __init__(self, rules: Iterable[EventRule]) -> None:
        self._by_evidence: dict[str, list[EventRule]] = defaultdict(list)
        for rule in rules:
            self._by_evidence[rule.evidence or ""].append(rule)

    def matching(self, evidence: str | None, operation: str) -> list[EventRule]:
        """Return the rules that a change matches."""
        named = self._by_evidence.get(evidence, []) if evidence else []
        return [
            rule
            for rule in (*self._by_evidence.get("", ()), *named)
            if rule.operation in (ANY, operation)
        ]


def store_changes(
    session: WritingSession, source: EventSource, changes: Sequence[SourceChange]
) -> int:
    """Store the new changes in their order, and advance the source's mark.

    Returns the number of new changes.
    """
    known = select(Event.inversion, Event.digest).where(
        Event.event_source_id == source.id,
        Event.inversion.in_([change.inversion for change in changes]),
    )
    stored = {(row[0], row[1]) for row in session.execute(known)}
    new = [change for change in changes if (change.inversion, change.digest) not in stored]
    events = [_change_event(session, source, change) for change in new]
    session.add_all(events)
    session.flush()
    sound = [event for event in events if event.error is None]
    if sound:
        pending_actions.enqueue_webhooks(session, sound)
        # Only rules that a change could match are read: a source may have ten thousand.
        named = {event.evidence or "" for event in sound} | {""}
        concerned = or_(EventRule.evidence.is_(None), EventRule.evidence.in_(named))
        rules = RuleBook(_rules(session, EventRule.event_source_id == source.id, concerned))
        for event in sound:
            deliveries.create_deliveries(
                session, event, rules.matching(event.evidence, event.operation)
            )
    highest = max((change.inversion for change in changes), default=source.last_processed_id)
    source.last_processed_id = max(source.last_processed_id, highest)
    return len(new)


def _change_event(session: WritingSession, source: EventSource, change: SourceChange) -> Event:
    members = dict(change.members)
    record_id, now = members.get("recordid"), session.clock()
    return Event(
        kind=EventKind.CHANGE,
        event_source_id=source.id,
        company_id=source.company_id,
        inversion=change.inversion,
        digest=change.digest,
        evidence=_text(members.get("evidence")),
        operation=_text(members.get("operation")) or ANY,
        record_id=_text(record_id),
        data=members,
        traceparent=note("change", attributes={"jobauto.source_id": source.id}),
        created_at=now,
        error=change.fault,
        emission_error=change.fault,
        emitted_at=None if change.fault is None else now,
    )


def _text(value: Any) -> str | None:
    return None if value is None else str(value)


def _rules(session: Session, *conditions: Any) -> Sequence[EventRule]:
    """Return the enabled rules that meet the conditions, by priority."""
    query = select(EventRule).where(
        EventRule.enabled.is_(True), EventRule.retired_at.is_(None), *conditions
    )
    return session.scalars(query.order_by(EventRule.priority.desc(), EventRule.id)).all()


def store_completion(session: WritingSession, job: Job) -> None:
    """Store the event of a job that ended without a further attempt, with its deliveries.

    The caller has checked that it is new. A cancelled job starts nothing, because its end was
    wanted.
    """
    result = RESULTS.get(job.severity or "")
    if result is None or job.state == JobState.CANCELLED:
        return
    started_by = session.get(Event, job.event_id) if job.event_id else None
    event = Event(
        kind=EventKind.COMPLETION,
        runtemplate_id=job.runtemplate_id,
        job_id=job.id,
        company_id=job.company_id,
        evidence="job",
        operation=result,
        record_id=str(job.id),
        data=_end_data(job, result),
        traceparent=job.traceparent,
        depth=started_by.depth + 1 if started_by else 1,
        created_at=session.clock(),
    )
    session.add(event)
    session.flush()
    concerned = _rules(
        session,
        EventRule.runtemplate_source_id == job.runtemplate_id,
        EventRule.on.in_((ANY, result)),
    )
    deliveries.create_deliveries(session, event, concerned)
    pending_actions.enqueue_webhooks(session, [event])
    pending_actions.enqueue_actions(session, event, job, MODES[result])
    session.flush()
    if event.depth > LONGEST_CIRCLE and _goes_round(session, event):
        _end_chain(session, event)


def _goes_round(session: Session, event: Event) -> bool:
    """Whether a run template occurs more than once among the ends that led to this one."""
    chain = (
        select(Event.job_id, Event.runtemplate_id).where(Event.id == event.id).cte(recursive=True)
    )
    before = (
        select(Event.job_id, Event.runtemplate_id)
        .join(Job, Job.event_id == Event.id)
        .join(chain, chain.c.job_id == Job.id)
    )
    chain = chain.union_all(before)
    again = select(chain.c.runtemplate_id).group_by(chain.c.runtemplate_id)
    return session.scalar(again.having(func.count() > 1).limit(1)) is not None


def _end_chain(session: WritingSession, event: Event) -> None:
    error = f"the chain is circular and {event.depth} jobs long; the limit is {LONGEST_CIRCLE}"
    for delivery in deliveries.deliveries_of_event(session, event.id):
        deliveries.mark_dead(delivery, error)
    pending_actions.mark_starts_dead(session, event, error)


def has_completed(session: Session, job: Job) -> bool:
    """Whether its end is already stored: a lost job may still report."""
    return session.scalar(select(Event.id).where(Event.job_id == job.id)) is not None


def _end_data(job: Job, result: str) -> dict[str, Any]:
    return {
        "recordid": job.id,
        "job_id": job.id,
        "evidence": "job",
        "operation": result,
        "exitcode": job.exitcode,
        "severity": job.severity,
        "message": job.message,
    }


@dataclass(frozen=True, slots=True)
class Unemitted:
    """An event that was not sent to Prefect, and its context.

    `source` is the name of a change's source. An end has the names of the run template and its
    company, its `deployment_id`, and `emits`, what its application declares to emit then.
    `is_owed`: a rule waits for it.
    """

    event: Event
    is_owed: bool
    source: str | None
    template: str | None
    company: str | None
    deployment_id: UUID | None
    emits: Mapping[str, Mapping[str, Any]]


_UNEMITTED = (
    select(
        Event,
        exists().where(Delivery.event_id == Event.id, Delivery.state == DeliveryState.OWED),
        EventSource.name,
        RunTemplate.name,
        Company.name,
        RunTemplate.deployment_id,
        App.document["events"]["emits"],  # only this member: a batch may have one large application
    )
    .outerjoin(EventSource, EventSource.id == Event.event_source_id)
    .outerjoin(RunTemplate, RunTemplate.id == Event.runtemplate_id)
    .outerjoin(Company, Company.id == RunTemplate.company_id)
    .outerjoin(App, App.id == RunTemplate.app_id)
    .where(Event.emitted_at.is_(None))
    .order_by(Event.id)
    .limit(EMITTED_AT_ONCE)
)


def unemitted_events(session: Session) -> Sequence[Unemitted]:
    """Return the oldest events that were not sent to Prefect."""
    return [
        Unemitted(event, is_owed, source, template, company, deployment_id, emits or {})
        for event, is_owed, source, template, company, deployment_id, emits in session.execute(
            _UNEMITTED
        )
    ]


def mark_emitted(
    session: WritingSession,
    events: Sequence[Unemitted],
    patience: timedelta,
    error: str | None = None,
    lock: HeldLock | None = None,
) -> None:
    """Mark events as sent to Prefect, or (with an error) as never to be sent; release a lock.

    This service starts their deliveries itself after `patience`.
    """
    now = session.clock()
    ids = [unemitted.event.id for unemitted in events]
    mark = update(Event).where(Event.id.in_(ids)).values(emitted_at=now, emission_error=error)
    session.execute(mark if lock is None else releasing(session, lock, mark))
    owed_ids = [unemitted.event.id for unemitted in events if unemitted.is_owed]
    if owed_ids:
        owed = (Delivery.event_id.in_(owed_ids), Delivery.state == DeliveryState.OWED)
        due_at = now if error else now + patience
        session.execute(update(Delivery).where(*owed).values(due_at=due_at))


def applied_rules(
    session: Session, after_id: int, limit: int, among: Collection[int] | None = None
) -> Sequence[EventRule]:
    """Return the rules fully applied in Prefect, by id, above one; `among` None: of all."""
    query = (
        select(EventRule)
        .where(
            EventRule.id > after_id,
            EventRule.retired_at.is_(None),
            EventRule.automation_id.is_not(None),
            EventRule.id.not_in(pending_subjects(OutboxKind.APPLY_RULE)),
        )
        .options(joinedload(EventRule.runtemplate).joinedload(RunTemplate.company))
        .order_by(EventRule.id)
        .limit(limit)
    )
    if among is not None:
        query = query.where(EventRule.id.in_(among))
    return session.scalars(query).all()
