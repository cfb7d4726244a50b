"""Permission checks: 404 for records one may not read, 403 for what one may read and not do."""

from typing import Any, TypeVar

from jobauto_prefect.errors import Forbidden, NotFound
from jobauto_prefect.facade.auth.identity import Identity
from jobauto_prefect.ledger.base import Base
from jobauto_prefect.ledger.queries.lists import company_of
from jobauto_prefect.ledger.queries.lookup import get_record
from jobauto_prefect.ledger.store import ReadingSession

R = TypeVar("R", bound=Base)


def can_read(who: Identity, permissions: str, company_id: int | None) -> bool:
    """Whether somebody may read records of this kind (of this company)."""
    return who.rights.may(f"{permissions}.read", company_id)


def get_visible(
    session: ReadingSession, who: Identity, kind: type[R], record_id: int, permissions: str
) -> R:
    """Return the record of that id, for somebody who may read it.

    Raises:
        NotFound: there is none, or none they may see; the answer is the same.
    """
    record = get_record(session, kind, record_id)
    if can_read(who, permissions, company_of(record)):
        return record
    raise NotFound(f"there is no {kind.__tablename__} {record_id}")


def require_permission(
    who: Identity, permissions: str, action: str, company_id: int | None, record: Any = None
) -> None:
    """Require a permission; `record` is what the action is done to, None for a new one.

    Raises:
        NotFound: they may not even see it.
        Forbidden: they may see it and not do this.
    """
    if who.rights.may(f"{permissions}.{action}", company_id):
        return
    if record is not None and not can_read(who, permissions, company_id):
        raise NotFound(f"there is no {record.__tablename__} {record.id}")
    raise Forbidden(f"this needs the permission {permissions}.{action}; ask an administrator")
