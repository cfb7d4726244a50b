"""What one may not see is not there (404); what one may see and not change is refused (403)."""

from typing import Any, TypeVar

from jobauto_prefect.errors import Forbidden, NotFound
from jobauto_prefect.facade.auth import Identity
from jobauto_prefect.ledger import queries
from jobauto_prefect.ledger.base import Base
from jobauto_prefect.ledger.listing import company_of
from jobauto_prefect.ledger.store import ReadingSession

R = TypeVar("R", bound=Base)


def see(who: Identity, permissions: str, company_id: int | None) -> bool:
    """Whether somebody may read records of this kind (of this company)."""
    return who.rights.may(f"{permissions}.read", company_id)


def visible(
    session: ReadingSession, who: Identity, kind: type[R], record_id: int, permissions: str
) -> R:
    """The record of that id, for somebody who may read it.

    Raises:
        NotFound: there is none, or none they may see; the answer is the same.
    """
    record = queries.get(session, kind, record_id)
    if see(who, permissions, company_of(record)):
        return record
    raise NotFound(f"there is no {kind.__tablename__} {record_id}")


def allow(
    who: Identity, permissions: str, action: str, company_id: int | None, record: Any = None
) -> None:
    """Let somebody do something; `record` is what they would do it to, None for a new one.

    Raises:
        NotFound: they may not even see it.
        Forbidden: they may see it and not do this.
    """
    if who.rights.may(f"{permissions}.{action}", company_id):
        return
    if record is not None and not see(who, permissions, company_id):
        raise NotFound(f"there is no {record.__tablename__} {record.id}")
    raise Forbidden(f"this needs the permission {permissions}.{action}; ask an administrator")
