"""The graph of run templates that start others by rules and actions; it has no cycle."""

from collections import defaultdict, deque
from collections.abc import Iterable, Sequence

from sqlalchemy import Text, cast, func, or_, select
from sqlalchemy.orm import Session

from jobauto_prefect.definitions.records.actions import Action
from jobauto_prefect.ledger.audit.trail import WritingSession
from jobauto_prefect.ledger.records import EventRule, RunTemplate

LOCK = 8_241_903
"""An arbitrary number that no other lock uses."""

Edge = tuple[int, int]
"""A run template, and one that its end starts."""


def lock(session: WritingSession) -> None:
    """Lock the graph until this transaction ends: two concurrent changes could close a cycle."""
    if session.get_bind().dialect.name == "postgresql":  # SQLite has one writer at a time
        session.execute(select(func.pg_advisory_xact_lock(LOCK)))


def edges(session: Session) -> Sequence[Edge]:
    """Return all edges, including those of disabled rules: enabling one must not close a cycle."""
    query = select(EventRule.runtemplate_source_id, EventRule.runtemplate_id).where(
        EventRule.runtemplate_source_id.is_not(None), EventRule.retired_at.is_(None)
    )
    return [*((row[0], row[1]) for row in session.execute(query)), *_of_actions(session)]


def templates_starting(session: Session, template_id: int) -> list[int]:
    """Return the run templates whose actions start this one."""
    return sorted({here for here, there in _of_actions(session) if there == template_id})


def _of_actions(session: Session) -> list[Edge]:
    """Return the edges that actions of run templates form."""
    templates = select(
        RunTemplate.id, RunTemplate.company_id, RunTemplate.success, RunTemplate.fail
    ).where(
        RunTemplate.retired_at.is_(None),
        or_(cast(RunTemplate.success, Text) != "{}", cast(RunTemplate.fail, Text) != "{}"),
    )
    rows = session.execute(templates).all()
    edges: list[Edge] = []
    launching: list[tuple[int, int, int]] = []
    for template_id, company_id, *modes in rows:
        for actions in modes:
            if chain := actions.get(Action.CHAIN):
                edges.append((template_id, chain["runtemplate_id"]))
            if launch := actions.get(Action.LAUNCH):
                launching.append((template_id, company_id, launch["app_id"]))
    return edges + _launched(session, launching)


def _launched(session: Session, launching: Sequence[tuple[int, int, int]]) -> list[Edge]:
    """Return the edges to the run templates that launches start.

    `launching`: a run template, its company, and the application it launches there. An application
    with several run templates there can't be launched.
    """
    if not launching:
        return []
    there = select(RunTemplate.id, RunTemplate.company_id, RunTemplate.app_id).where(
        RunTemplate.app_id.in_({app_id for _, _, app_id in launching}),
        RunTemplate.retired_at.is_(None),
    )
    templates: dict[tuple[int, int], list[int]] = defaultdict(list)
    for template in session.execute(there):
        templates[template.company_id, template.app_id].append(template.id)
    return [
        (here, templates[company_id, app_id][0])
        for here, company_id, app_id in launching
        if len(templates[company_id, app_id]) == 1
    ]


def find_cycle(start: int, all_edges: Iterable[Edge]) -> list[int] | None:
    """Return the shortest cycle through a run template, both ends included; None if it has none."""
    following: dict[int, list[int]] = defaultdict(list)
    for here, there in all_edges:
        following[here].append(there)
    came_from: dict[int, int] = {}
    looking = deque([start])
    while looking:
        here = looking.popleft()
        for there in following[here]:
            if there == start:
                way = [here]
                while way[-1] != start:
                    way.append(came_from[way[-1]])
                return [*way[::-1], start]
            if there not in came_from:
                came_from[there] = here
                looking.append(there)
    return None
