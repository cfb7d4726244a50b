"""Messages for Prefect that wait in the ledger."""

from sqlalchemy import select

from jobauto_prefect.ledger.records import OutboxMessage
from jobauto_prefect.ledger.store import Ledger


def has_no_messages(ledger: Ledger) -> bool:
    """Whether Prefect has been told everything."""
    with ledger.reading() as session:
        return not session.scalars(select(OutboxMessage)).all()
