"""Events, kept with what they owe to rules: both in one transaction."""

import hashlib
import json
from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from sqlalchemy import ColumnElement, or_, select, update
from sqlalchemy.orm import Session, joinedload

from jobauto_prefect.definitions import Severity
from jobauto_prefect.definitions.actions import ActionMode
from jobauto_prefect.ledger import actions, deliveries
from jobauto_prefect.ledger.audit import WritingSession
from jobauto_prefect.ledger.deliveries import DeliveryState, EventKind
from jobauto_prefect.ledger.records import (
    Delivery,
    Event,
    EventRule,
    EventSource,
    Job,
    RunTemplate,
    Wish,
)
from jobauto_prefect.ledger.states import JobState
from jobauto_prefect.ledger.wishes import WishKind
from jobauto_prefect.monitoring.tracing import note

EMITTED_AT_ONCE = 100
ANY = "any"
DEEPEST = 20
"""How many ends a chain may have; rules can't go round, but what jobs write may."""

RESULTS: Mapping[str, str] = {
    Severity.SUCCESS: "success",
    Severity.INFO: "success",
    Severity.WARNING: "warning",
    Severity.ERROR: "failure",
    Severity.CRITICAL: "failure",
}
"""What rules call an end of some severity."""

MODES: Mapping[str, ActionMode] = {
    "success": ActionMode.SUCCESS,
    "warning": ActionMode.SUCCESS,
    "failure": ActionMode.FAIL,
}
"""Which actions of a run template follow such an end."""


@dataclass(frozen=True, slots=True)
class SourceChange:
    """A row of an adapter; `members` are its columns as JSON."""

    inversion: int
    members: Mapping[str, Any]

    @property
    def digest(self) -> str:
        """Tells a change from one of the same number, from before an adapter began anew."""
        text = json.dumps(self.members, sort_keys=True, ensure_ascii=False)
        return hashlib.sha256(text.encode()).hexdigest()[:32]


class RuleBook:
    """The rules of one source, found by evidence: ten thousand cost no more than ten."""

    def __init__(self, rules: Iterable[EventRule]) -> None:
        self._by_evidence: dict[str, list[EventRule]] = defaultdict(list)
        for rule in rules:
            self._by_evidence[rule.evidence or ""].append(rule)

    def matching(self, evidence: str | None, operation: str) -> list[EventRule]:
        """The rules that a change concerns."""
        named = self._by_evidence.get(evidence, []) if evidence else []
        return [
            rule
            for rule in (*self._by_evidence.get("", ()), *named)
            if rule.operation in (ANY, operation)
        ]


def store_changes(
    session: WritingSession, source: EventSource, changes: Sequence[SourceChange]
) -> int:
    """Keep the changes that are not here yet, in their order, and move the source's mark.

    Returns how many were new.
    """
    known = _known(session, source, changes)
    new = [one for one in changes if (one.inversion, one.digest) not in known]
    events = [_change_event(session, source, one) for one in new]
    session.add_all(events)
    session.flush()
    if events:
        actions.owe_receivers(session, events)
        rules = RuleBook(_rules(session, *_may_concern(source, events)))
        for event in events:
            deliveries.owe(session, event, rules.matching(event.evidence, event.operation))
    highest = max((one.inversion for one in changes), default=source.last_processed_id)
    source.last_processed_id = max(source.last_processed_id, highest)
    return len(new)


def _may_concern(source: EventSource, events: Sequence[Event]) -> Sequence[ColumnElement[bool]]:
    """Of ten thousand rules of a source only those are read that a change could match."""
    named = {event.evidence or "" for event in events} | {""}
    return (
        EventRule.event_source_id == source.id,
        or_(EventRule.evidence.is_(None), EventRule.evidence.in_(named)),
    )


def _known(
    session: Session, source: EventSource, changes: Sequence[SourceChange]
) -> set[tuple[int | None, str | None]]:
    found = select(Event.inversion, Event.digest).where(
        Event.event_source_id == source.id,
        Event.inversion.in_([one.inversion for one in changes]),
    )
    return {(row[0], row[1]) for row in session.execute(found)}


def _change_event(session: WritingSession, source: EventSource, change: SourceChange) -> Event:
    members = dict(change.members)
    record_id = members.get("recordid")
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
        created_at=session.clock(),
    )


def _text(value: Any) -> str | None:
    return None if value is None else str(value)


def _rules(session: Session, *conditions: Any) -> Sequence[EventRule]:
    """The enabled rules that fulfil conditions, those of high priority first."""
    found = select(EventRule).where(
        EventRule.enabled.is_(True), EventRule.retired_at.is_(None), *conditions
    )
    return session.scalars(found.order_by(EventRule.priority.desc(), EventRule.id)).all()


def completed(session: WritingSession, job: Job) -> None:
    """The job of a run template is over and no attempt follows: keep that, with what it owes.

    One that was cancelled starts nothing: somebody wanted it to end.
    """
    result = RESULTS.get(job.severity or "")
    if result is None or job.state == JobState.CANCELLED or _has_completed(session, job):
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
    deliveries.owe(session, event, concerned)
    actions.owe_receivers(session, [event])
    actions.owe_actions(session, event, job, MODES[result])
    session.flush()
    if event.depth > DEEPEST:
        _end_chain(session, event)


def _end_chain(session: WritingSession, event: Event) -> None:
    error = f"the chain is {event.depth} ends long; {DEEPEST} may be"
    for delivery in deliveries.of_event(session, event.id):
        deliveries.kill(delivery, error)
    actions.kill_starts(session, event, error)


def _has_completed(session: Session, job: Job) -> bool:
    """Whether its end was told before: a lost job may report after all."""
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


def silent(session: Session) -> Sequence[Event]:
    """The oldest events that Prefect has not heard of."""
    found = select(Event).where(Event.emitted_at.is_(None)).order_by(Event.id)
    return session.scalars(found.limit(EMITTED_AT_ONCE)).all()


def heard(
    session: WritingSession, event_ids: Sequence[int], patience: timedelta, error: str | None = None
) -> None:
    """Prefect has heard of these events, or (with an error) never will.

    What they owe is ours to start once `patience` is over.
    """
    now = session.clock()
    session.execute(
        update(Event).where(Event.id.in_(event_ids)).values(emitted_at=now, emission_error=error)
    )
    owed = (Delivery.event_id.in_(event_ids), Delivery.state == DeliveryState.OWED)
    session.execute(update(Delivery).where(*owed).values(due_at=now if error else now + patience))


def applied_rules(
    session: Session, after_id: int, limit: int, among: Collection[int] | None = None
) -> Sequence[EventRule]:
    """The rules Prefect was told of all it is to be told, by id, above one; among None: all."""
    wished = select(Wish.subject_id).where(Wish.kind == WishKind.APPLY_RULE)
    found = (
        select(EventRule)
        .where(
            EventRule.id > after_id,
            EventRule.retired_at.is_(None),
            EventRule.automation_id.is_not(None),
            EventRule.id.not_in(wished),
        )
        .options(joinedload(EventRule.runtemplate).joinedload(RunTemplate.company))
        .order_by(EventRule.id)
        .limit(limit)
    )
    if among is not None:
        found = found.where(EventRule.id.in_(among))
    return session.scalars(found).all()
