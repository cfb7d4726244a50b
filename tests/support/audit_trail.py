"""What the audit trail has."""

from sqlalchemy import select

from jobauto_prefect.ledger.records import AuditEntry
from jobauto_prefect.ledger.store import Ledger


def entries(ledger: Ledger, kind: str) -> list[AuditEntry]:
    """The entries about one kind of record, the oldest first."""
    query = select(AuditEntry).where(AuditEntry.entity_type == kind).order_by(AuditEntry.id)
    with ledger.reading() as session:
        return list(session.scalars(query))
