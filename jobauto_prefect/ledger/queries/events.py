"""Queries about event sources and event rules."""

import json
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from sqlalchemy import or_, select
from sqlalchemy.orm import Session

from jobauto_prefect.ledger.records import Event, EventRule, EventSource, RunTemplate


def all_rules(session: Session) -> Sequence[EventRule]:
    """Return all event rules, in the order of their ids."""
    return session.scalars(
        select(EventRule).where(EventRule.retired_at.is_(None)).order_by(EventRule.id)
    ).all()


def sources_named(session: Session, name: str) -> Sequence[EventSource]:
    """Return the event sources of that name: at most one per company, and one without company."""
    named = select(EventSource).where(EventSource.name == name, EventSource.retired_at.is_(None))
    return session.scalars(named.order_by(EventSource.id)).all()


def rules_starting(session: Session, templates: Collection[int]) -> Sequence[int]:
    """Return the rules that start these run templates."""
    query = select(EventRule.id).where(
        EventRule.runtemplate_id.in_(templates), EventRule.retired_at.is_(None)
    )
    return session.scalars(query).all()


def rules_at(session: Session, end: RunTemplate | EventSource) -> Sequence[EventRule]:
    """Return the rules that start a run template or react to its ends, or to a source."""
    here = (
        (EventRule.event_source_id == end.id)
        if isinstance(end, EventSource)
        else or_(EventRule.runtemplate_source_id == end.id, EventRule.runtemplate_id == end.id)
    )
    return session.scalars(select(EventRule).where(here, EventRule.retired_at.is_(None))).all()


def unkept_changes(session: Session, source: EventSource, limit: int = 5) -> Sequence[Event]:
    """Return a source's latest changes that could not be stored unchanged."""
    unkept = (Event.event_source_id == source.id, Event.error.is_not(None))
    return session.scalars(
        select(Event).where(*unkept).order_by(Event.id.desc()).limit(limit)
    ).all()


@dataclass(frozen=True, slots=True)
class GivenByRules:
    """What event rules give the run template they start: the environment keys.

    Also whether the end of another run template is among its triggers.
    """

    keys: frozenset[str] = frozenset()
    follows_ends: bool = False


def given_by_rules(session: Session, templates: Collection[int]) -> dict[int, GivenByRules]:
    """Return what rules give to run templates, by id; those that no rule starts are left out."""
    query = select(
        EventRule.runtemplate_id, EventRule.env_mapping, EventRule.runtemplate_source_id
    ).where(EventRule.runtemplate_id.in_(templates), EventRule.retired_at.is_(None))
    given: dict[int, GivenByRules] = {}
    for template_id, mapping, source_id in session.execute(query):
        so_far = given.get(template_id, GivenByRules())
        keys = so_far.keys | frozenset(json.loads(mapping))
        given[template_id] = GivenByRules(keys, so_far.follows_ends or source_id is not None)
    return given


RuleTrigger = tuple[int | None, int | None, str | None, str]
"""Source or run template that a rule reacts to, evidence and operation."""


def triggers_of(session: Session, template_id: int) -> set[RuleTrigger]:
    """Return the triggers of the rules that start a run template."""
    query = select(EventRule).where(
        EventRule.runtemplate_id == template_id, EventRule.retired_at.is_(None)
    )
    return {
        (rule.event_source_id, rule.runtemplate_source_id, rule.evidence or None, rule.operation)
        for rule in session.scalars(query)
    }


def sqlite_files(session: Session) -> Sequence[str]:
    """Return the paths of the enabled SQLite event sources, in order."""
    paths = select(EventSource.db_database).where(
        EventSource.db_connection == "sqlite",
        EventSource.enabled.is_(True),
        EventSource.retired_at.is_(None),
    )
    return session.scalars(paths.distinct().order_by(EventSource.db_database)).all()


def sources_for(session: Session, company_id: int) -> Sequence[EventSource]:
    """Return the event sources of a company and those without company, by id."""
    mine = or_(EventSource.company_id == company_id, EventSource.company_id.is_(None))
    query = select(EventSource).where(mine, EventSource.retired_at.is_(None))
    return session.scalars(query.order_by(EventSource.id)).all()


def source_times(session: Session) -> list[tuple[datetime, int]]:
    """Return when each enabled event source must be read, the longest waiting first."""
    query = select(EventSource.id, EventSource.polled_at, EventSource.poll_interval).where(
        EventSource.enabled.is_(True), EventSource.retired_at.is_(None)
    )
    long_ago = datetime.min.replace(tzinfo=UTC)
    times = [
        (long_ago if row[1] is None else row[1] + timedelta(seconds=row[2]), row[0])
        for row in session.execute(query)
    ]
    return sorted(times)
