"""The time of the ledger's database, which all parts of an installation share.

Leases, windows and deadlines are evaluated by several machines, whose clocks differ. On PostgreSQL
each process follows the server: its own monotonic time plus an offset that is measured at every
connect and every `MEASURE_SECONDS` while connections are used. With SQLite all users are on the
same host, so the host's clock serves.
"""

from collections.abc import Callable
from typing import Any

import psycopg
from sqlalchemy import Engine, event
from sqlalchemy.exc import DisconnectionError

from jobauto_prefect.clock import Clock, SharedClock, seconds_since_boot, utc_now

MEASURE_SECONDS = 30.0


class DatabaseClock(SharedClock):
    """A `Clock` that follows a PostgreSQL server; before its first connection, the host's.

    Args:
        host: see `SharedClock`.
        uptime: see `SharedClock`.
    """

    def __init__(
        self, host: Clock = utc_now, uptime: Callable[[], float] = seconds_since_boot
    ) -> None:
        super().__init__("the database's", host, uptime)
        self._measured_at: float | None = None

    def follow(self, engine: Engine) -> None:
        """Measure on the connections of an engine, as they are made and used."""
        event.listen(engine, "connect", self._forget)
        event.listen(engine, "checkout", self._measure_if_due)

    def _forget(self, _connection: Any, _record: Any) -> None:
        self._measured_at = None

    def _measure_if_due(self, connection: Any, _record: Any, _proxy: Any) -> None:
        if self._measured_at is not None and self.uptime() - self._measured_at < MEASURE_SECONDS:
            return
        self._measured_at = self.uptime()
        try:
            with connection.cursor() as cursor:
                asked_at = self.uptime()
                cursor.execute("SELECT clock_timestamp()")
                (instant,) = cursor.fetchone()
                self.read(instant, asked_at, self.uptime())
            connection.rollback()  # if the connection's first statement began a transaction
        except psycopg.Error as error:
            self._measured_at = None
            raise DisconnectionError("the connection was lost") from error
