"""Connections to PostgreSQL with a bounded waiting time.

If a network drops packets while its sockets stay open, libpq waits as long as the kernel does,
whatever `connect_timeout`, keepalives, `tcp_user_timeout` and `statement_timeout` say. Therefore
each exchange with the server has a deadline here, after which the socket is closed. The server
releases what it held for such a client by its own timeouts.
"""

from dataclasses import dataclass
from typing import Any

import psycopg
from psycopg.abc import RV, PQGen
from sqlalchemy import URL, Engine, create_engine, event

IS_POOLED = "SELECT pg_backend_pid() <> %s"
"""Whether a pool is between us and the server, given the pid that was announced when connecting.

A pool, such as PgBouncer, announces a pid of its own. Each transaction may get another session of
the server, so nothing is prepared in one or set for it: a statement that another connection
prepared under the same name would run instead.
"""


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


class TerseCursor(psycopg.Cursor[Any]):
    """A cursor that describes columns by name and type alone.

    psycopg makes an object of each column of each result, which looks up its type: 5 % of what a
    facade uses, and SQLAlchemy reads nothing else.
    """

    @property
    def description(self) -> list[Any] | None:
        """The columns of the result; None: it has none."""
        result = self.pgresult
        if result is None or not result.nfields:
            return None
        return [
            ((result.fname(number) or b"").decode(), result.ftype(number), *(None,) * 5)
            for number in range(result.nfields)
        ]


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
    parameters.setdefault("cursor_factory", TerseCursor)
    connection = TimedConnection.connect(*arguments, **parameters)
    connection.answer_seconds = limits.answer
    [(is_pooled,)] = connection.execute(IS_POOLED, [connection.info.backend_pid]).fetchall()
    if is_pooled:
        connection.prepare_threshold = None
        connection.commit()
        return connection
    # Not by startup options, because PgBouncer refuses them.
    connection.execute(
        "SELECT set_config('statement_timeout', %s, false),"
        " set_config('idle_in_transaction_session_timeout', %s, false)",
        [_milliseconds(limits.answer), _milliseconds(limits.idle)],
    )
    connection.commit()
    return connection


def _milliseconds(seconds: float) -> str:
    return str(round(seconds * 1000))
