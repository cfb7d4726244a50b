"""Chains of run templates, as rules make them: none may lead back to where it began."""

from collections import defaultdict, deque
from collections.abc import Iterable, Mapping, Sequence

from sqlalchemy import func, select
from sqlalchemy.orm import Session

from jobauto_prefect.ledger.audit import WritingSession
from jobauto_prefect.ledger.records import EventRule

LOCK = 8_241_903
"""Any number that nobody else uses for a lock."""

Edge = tuple[int, int]
"""A run template, and one that its end starts."""


def lock(session: WritingSession) -> None:
    """Let no other transaction change chains until this one ends: two could close a circle."""
    if session.get_bind().dialect.name == "postgresql":  # SQLite has one writer at a time
        session.execute(select(func.pg_advisory_xact_lock(LOCK)))


def edges(session: Session) -> Sequence[Edge]:
    """All there are, of disabled rules too: enabling one must not close a circle."""
    found = select(EventRule.runtemplate_source_id, EventRule.runtemplate_id).where(
        EventRule.runtemplate_source_id.is_not(None), EventRule.retired_at.is_(None)
    )
    return [(row[0], row[1]) for row in session.execute(found)]


def circle(start: int, all_edges: Iterable[Edge]) -> list[int] | None:
    """The shortest way from a run template back to itself, both ends included; None: none."""
    following: dict[int, list[int]] = defaultdict(list)
    for here, there in all_edges:
        following[here].append(there)
    came_from: dict[int, int] = {}
    looking = deque([start])
    while looking:
        here = looking.popleft()
        for there in following[here]:
            if there == start:
                return [*_way(start, here, came_from), start]
            if there not in came_from:
                came_from[there] = here
                looking.append(there)
    return None


def _way(start: int, end: int, came_from: Mapping[int, int]) -> list[int]:
    way = [end]
    while way[-1] != start:
        way.append(came_from[way[-1]])
    return way[::-1]
