"""Sessions that repeat a statement once where the pooled connection had been dropped.

No connection is asked whether it is still there before it is used. Where one is not, that shows at
the first statement of a transaction, before anything was done, and only that one is tried again:
after a later one, or a COMMIT whose answer got lost, nobody knows what the database has done.
"""

from collections.abc import Callable
from typing import Any, TypeVar

from sqlalchemy.exc import DBAPIError
from sqlalchemy.orm import Session

from jobauto_prefect.ledger.base import LedgerSession

Answer = TypeVar("Answer")


class ReconnectingSession(LedgerSession):
    """A session that only reads; each statement is a transaction of its own on PostgreSQL."""

    _has_asked = False

    def execute(self, *asked: Any, **named: Any) -> Any:
        """Execute as every session, the first statement once more if the connection was dropped."""
        return self._first_twice(lambda: super(ReconnectingSession, self).execute(*asked, **named))

    def scalar(self, *asked: Any, **named: Any) -> Any:
        """Return a scalar as every session, the first once more if the connection was dropped."""
        return self._first_twice(lambda: super(ReconnectingSession, self).scalar(*asked, **named))

    def scalars(self, *asked: Any, **named: Any) -> Any:
        """Return scalars as every session, the first once more if the connection was dropped."""
        return self._first_twice(lambda: super(ReconnectingSession, self).scalars(*asked, **named))

    def _first_twice(self, ask: Callable[[], Answer]) -> Answer:
        if self._has_asked:
            return ask()
        self._has_asked = True
        return retry_if_dropped(self, ask)


def retry_if_dropped(session: Session, ask: Callable[[], Answer]) -> Answer:
    """Return the answer to a session's first statement; once more if the connection dropped."""
    try:
        return ask()
    except DBAPIError as error:
        if not error.connection_invalidated:
            raise
        session.rollback()
        return ask()
