"""Sessions that repeat a statement once if the pooled connection was dropped.

Connections are not probed before use. A dropped one shows at the first statement of a transaction,
before anything was done, and only this statement is retried: after a later one, or a COMMIT without
answer, nobody knows what the database has done.
"""

from collections.abc import Callable
from typing import Any, TypeVar

from sqlalchemy.exc import DBAPIError
from sqlalchemy.orm import Session

from jobauto_prefect.ledger.base import LedgerSession

Answer = TypeVar("Answer")


class ReconnectingSession(LedgerSession):
    """A session that only reads; on PostgreSQL each statement is its own transaction."""

    _has_asked = False

    def execute(self, *asked: Any, **named: Any) -> Any:
        """Execute as usual; retry the first statement if the connection was dropped."""
        return self._first_twice(lambda: super(ReconnectingSession, self).execute(*asked, **named))

    def scalar(self, *asked: Any, **named: Any) -> Any:
        """Return a scalar as usual; retry the first statement if the connection was dropped."""
        return self._first_twice(lambda: super(ReconnectingSession, self).scalar(*asked, **named))

    def scalars(self, *asked: Any, **named: Any) -> Any:
        """Return scalars as usual; retry the first statement if the connection was dropped."""
        return self._first_twice(lambda: super(ReconnectingSession, self).scalars(*asked, **named))

    def _first_twice(self, ask: Callable[[], Answer]) -> Answer:
        if self._has_asked:
            return ask()
        self._has_asked = True
        return retry_if_dropped(self, ask)


def retry_if_dropped(session: Session, ask: Callable[[], Answer]) -> Answer:
    """Return the answer to a session's first statement; retry it if the connection was dropped."""
    try:
        return ask()
    except DBAPIError as error:
        if not error.connection_invalidated:
            raise
        session.rollback()
        return ask()
