"""Messages for Prefect that wait in the ledger."""

from sqlalchemy import select

from jobauto_prefect.ledger.outbox import Priority, claim_due
from jobauto_prefect.ledger.records import OutboxMessage
from jobauto_prefect.ledger.store import Ledger


def has_no_messages(ledger: Ledger) -> bool:
    """Whether Prefect has been told everything."""
    with ledger.reading() as session:
        return not session.scalars(select(OutboxMessage)).all()


def claim_next(ledger: Ledger, lowest: Priority = Priority.REGISTRATION) -> OutboxMessage | None:
    """Claim the next due message, none below `lowest`; None if none is due."""
    taken = claim_due(ledger, 1, 0)
    if not taken and lowest == Priority.REGISTRATION:
        taken = claim_due(ledger, 0, 1)
    return taken[0] if taken else None
