"""What PostgreSQL is asked, counted on the way to it, whoever asks and by whichever library.

Counted are executions, as the server counts them: also those of a driver for itself, such as
`BEGIN` and `ROLLBACK`.
"""

import contextlib
import socket
import struct
from collections.abc import Iterator

from sqlalchemy import make_url

from tests.support.breakable import Relay

MESSAGE_HEAD = 5  # bytes: kind, length
START_HEAD = 4  # the first message of a connection has no kind
UNCOUNTED = ("BEGIN", "COMMIT", "SELECT clock_timestamp()")
"""Commits have a count of their own; any process may measure the clock at any time."""


class Statements(Relay):
    """A relay to PostgreSQL that notes each statement."""

    def __init__(self, to_port: int) -> None:
        self.executed: list[str] = []
        self.lose_answer_to: str | None = None
        self._clients: dict[socket.socket, _Client] = {}
        super().__init__(to_port)

    def asked(self, client: socket.socket, data: bytes) -> None:
        """Note what is in it."""
        reader = self._clients.setdefault(client, _Client())
        statements = list(reader.statements(data))
        self.executed.extend(statements)
        if self.lose_answer_to is not None and self.lose_answer_to in statements:
            self.hang_answers()

    @property
    def counted(self) -> list[str]:
        """The statements without those of every operation alike."""
        return [text for text in self.executed if not text.startswith(UNCOUNTED)]

    @property
    def commits(self) -> int:
        """How many transactions were committed."""
        return sum(text.startswith("COMMIT") for text in self.executed)

    @contextlib.contextmanager
    def during(self) -> Iterator["Statements"]:
        """Count anew from here on."""
        self.executed.clear()
        yield self

    def shown(self) -> str:
        """What was executed, for the message of a test that fails."""
        lines = (" ".join(text.split())[:200] for text in self.executed)
        return "\n".join(["", *lines])


class _Client:
    """One client's half of a connection, as PostgreSQL's protocol 3 has it."""

    def __init__(self) -> None:
        self._rest = b""
        self._started = False
        self._prepared: dict[bytes, str] = {}
        self._bound = ""

    def statements(self, data: bytes) -> Iterator[str]:
        self._rest += data
        if not self._started:
            self._skip_start()
        while self._started and len(self._rest) >= MESSAGE_HEAD:
            kind, length = struct.unpack("!ci", self._rest[:MESSAGE_HEAD])
            if len(self._rest) <= length:
                return
            body, self._rest = self._rest[MESSAGE_HEAD : length + 1], self._rest[length + 1 :]
            text = self._executed(kind, body)
            if text is not None:
                yield text

    def _skip_start(self) -> None:
        if len(self._rest) >= START_HEAD:
            (length,) = struct.unpack("!i", self._rest[:START_HEAD])
            if len(self._rest) >= length:
                self._rest, self._started = self._rest[length:], True

    def _executed(self, kind: bytes, body: bytes) -> str | None:
        if kind == b"Q":
            return body.split(b"\0")[0].decode()
        if kind == b"P":
            name, text = body.split(b"\0")[:2]
            self._prepared[name] = text.decode()
        if kind == b"B":
            self._bound = self._prepared.get(body.split(b"\0")[1], "?")
        return self._bound if kind == b"E" else None


@contextlib.contextmanager
def counted_database(url: str) -> Iterator[tuple[str, Statements]]:
    """A URL by which a database is reached, and what is asked by it."""
    target = make_url(url)
    with Statements(target.port or 5432) as relay:
        plain = {"sslmode": "disable", "gssencmode": "disable"}
        reached = target.set(host="127.0.0.1", port=relay.port).update_query_dict(plain)
        yield reached.render_as_string(hide_password=False), relay
