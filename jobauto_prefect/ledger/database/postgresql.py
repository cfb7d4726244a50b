"""Connections to PostgreSQL with a bounded waiting time.

If a network drops packets while its sockets stay open, libpq waits as long as the kernel does,
whatever `connect_timeout`, keepalives, `tcp_user_timeout` and `statement_timeout` say. Therefore
each exchange with the server has a deadline here, after which the socket is closed. The server
releases what it held for such a client by its own timeouts.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import psycopg
from psycopg.abc import RV, PQGen
from sqlalchemy import URL, Engine, create_engine, event


@dataclass(frozen=True, slots=True)
class Limits:
    """Limits of the connections to a database; times in seconds.

    `connect` is for a new connection, `answer` for one exchange with the server (a statement, a
    commit), `idle` for an idle transaction. `connections` is how many one process may have.
    """

    connect: float = 5.0
    answer: float = 15.0
    idle: float = 60.0
    connections: int = 30


class TimedConnection(psycopg.Connection[Any]):
    """A connection that closes its socket if an exchange takes longer than `answer_seconds`."""

    answer_seconds: float | None = None
    """None: no limit."""

    def wait(self, gen: PQGen[RV], interval: float = 0.1, timeout: float | None = None) -> RV:
        """Finish an exchange with the server.

        Raises:
            psycopg.OperationalError: it took too long; the connection is closed.
        """
        try:
            return super().wait(gen, interval, timeout or self.answer_seconds)
        except psycopg.OperationalError as error:
            if timeout is None and isinstance(error, psycopg.errors._WaitTimeout):  # noqa: SLF001
                self.pgconn.finish()
                message = f"no answer within {self.answer_seconds:g} s; the connection is closed"
                raise psycopg.OperationalError(message) from None
            raise


def timed_engine(url: str | URL, limits: Limits, **arguments: Any) -> Engine:
    """Make an engine for PostgreSQL whose connections have these limits on both sides.

    Args:
        arguments: as those of `sqlalchemy.create_engine`.
    """
    engine = create_engine(url, **arguments)

    @event.listens_for(engine, "do_connect")
    def do_connect(
        _dialect: Any, _record: Any, positional: tuple[Any, ...], named: dict[str, Any]
    ) -> TimedConnection:
        return _connect(limits, *positional, **named)

    return engine


def _connect(limits: Limits, *arguments: Any, **parameters: Any) -> TimedConnection:
    parameters.setdefault("connect_timeout", max(2, round(limits.connect)))  # libpq's minimum
    connection = TimedConnection.connect(*arguments, **parameters)
    connection.answer_seconds = limits.answer
    if shares_sessions(connection.info.backend_pid, connection.execute(BACKEND).fetchone()):
        connection.prepare_threshold = None
        connection.commit()
        return connection
    connection.execute(
        "SELECT set_config('statement_timeout', %s, false),"
        " set_config('idle_in_transaction_session_timeout', %s, false)",
        [_milliseconds(limits.answer), _milliseconds(limits.idle)],
    )
    connection.commit()
    return connection


BACKEND = "SELECT pg_backend_pid()"


def shares_sessions(told: int, row: Sequence[Any] | None) -> bool:
    """Whether a pool between us and the server may give each transaction another session.

    `told` is the backend's pid as it was given when connecting, `row` what `BACKEND` finds: a pool,
    such as PgBouncer, tells a pid of its own. Nothing may be prepared in such a session or set for
    it: a statement of the same name may be that of another connection.
    """
    return row is None or row[0] != told


def _milliseconds(seconds: float) -> str:
    return str(round(seconds * 1000))
