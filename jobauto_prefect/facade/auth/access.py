"""Looking up records for a user: those they may not read are not found."""

from typing import TypeVar

from jobauto_prefect.errors import NotFound
from jobauto_prefect.facade.auth.identity import Identity
from jobauto_prefect.ledger.access.ownership import company_of
from jobauto_prefect.ledger.base import Base, noun_of
from jobauto_prefect.ledger.queries.lookup import get_record
from jobauto_prefect.ledger.store import ReadingSession

R = TypeVar("R", bound=Base)


def get_visible(session: ReadingSession, who: Identity, kind: type[R], record_id: int) -> R:
    """Return the definition with this id if the user may read it.

    Raises:
        NotFound: it does not exist or they may not see it; the answer is the same.
    """
    record = get_record(session, kind, record_id)
    if who.rights.may_read("applications", company_of(record)):
        return record
    raise NotFound(f"there is no {noun_of(kind)} {record_id}")
