"""Tallies: which tables have one, and how it is kept short."""

from collections.abc import Mapping
from typing import Any, NamedTuple

from sqlalchemy import delete, func, select

from jobauto_prefect.ledger.audit.trail import SERVICE
from jobauto_prefect.ledger.base import Base
from jobauto_prefect.ledger.records import AuditEntry, AuditTally, Job, JobTally
from jobauto_prefect.ledger.store import Ledger

MOST_ROWS = 50
"""Of one group, before they are put together."""

AT_ONCE = 10_000
"""Rows that one transaction puts together."""


class Tally(NamedTuple):
    """The rows of a tally, and the columns of what it counts by which it counts."""

    rows: type[JobTally | AuditTally]
    groups: tuple[str, ...]


TALLIES: Mapping[type[Base], Tally] = {
    Job: Tally(JobTally, ("company_id", "state")),
    AuditEntry: Tally(AuditTally, ("entity_type",)),
}


def fold_tallies(ledger: Ledger) -> None:
    """Put the rows of each group together where they are many; the sums stay the same."""
    for tally in TALLIES.values():
        columns = [getattr(tally.rows, name) for name in tally.groups]
        many = select(*columns).group_by(*columns).having(func.count() > MOST_ROWS)
        with ledger.reading() as session:
            groups = session.execute(many).all()
        for group in groups:
            while _fold(ledger, tally, group._asdict()) == AT_ONCE:
                pass


def _fold(ledger: Ledger, tally: Tally, group: Mapping[str, Any]) -> int:
    """Put rows of one group together; return how many. Two services take different ones."""
    rows = tally.rows
    free = select(rows.id).filter_by(**group).limit(AT_ONCE).with_for_update(skip_locked=True)
    with ledger.writing(SERVICE) as session:
        gone = delete(rows).where(rows.id.in_(free)).returning(rows.number)
        numbers = session.scalars(gone).all()
        session.add_all([rows(**group, number=sum(numbers))] if numbers else [])
    return len(numbers)
