"""Tallies: which tables have one, and how its rows are merged."""

from collections.abc import Mapping
from typing import Any, NamedTuple

from sqlalchemy import delete, func, select

from jobauto_prefect.ledger.audit.trail import SERVICE
from jobauto_prefect.ledger.base import Base
from jobauto_prefect.ledger.records import AuditEntry, AuditTally, Job, JobTally
from jobauto_prefect.ledger.store import Ledger

MOST_ROWS = 50
"""Rows of a group that are kept before they are merged."""

AT_ONCE = 10_000
"""Rows that one transaction merges."""


class Tally(NamedTuple):
    """The record class of a tally, and the columns it is grouped by."""

    rows: type[JobTally | AuditTally]
    groups: tuple[str, ...]


TALLIES: Mapping[type[Base], Tally] = {
    Job: Tally(JobTally, ("company_id", "state")),
    AuditEntry: Tally(AuditTally, ("entity_type",)),
}


def fold_tallies(ledger: Ledger) -> None:
    """Merge the rows of large groups; the sums stay the same."""
    for tally in TALLIES.values():
        columns = [getattr(tally.rows, name) for name in tally.groups]
        many = select(*columns).group_by(*columns).having(func.count() > MOST_ROWS)
        with ledger.reading() as session:
            groups = session.execute(many).all()
        for group in groups:
            while _fold(ledger, tally, group._asdict()) == AT_ONCE:
                pass


def _fold(ledger: Ledger, tally: Tally, group: Mapping[str, Any]) -> int:
    """Merge rows of one group; return how many. Concurrent services take different rows."""
    rows = tally.rows
    free = select(rows.id).filter_by(**group).limit(AT_ONCE).with_for_update(skip_locked=True)
    with ledger.writing(SERVICE) as session:
        gone = delete(rows).where(rows.id.in_(free)).returning(rows.number)
        numbers = session.scalars(gone).all()
        session.add_all([rows(**group, number=sum(numbers))] if numbers else [])
    return len(numbers)
