"""Reading a container's log to its end, across connections, each line once; pure.

Kubernetes puts the time in front of each line (`timestamps=true`) and gives a log out from a whole
second on (`sinceTime`). So what is read again is known by its time, and among lines of one time by
their number.
"""

import re
from dataclasses import dataclass

TIMED = re.compile(rb"(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d)(?:\.(\d{1,9}))?Z ")


@dataclass(slots=True)
class LogReader:
    """Takes what connections give and returns what is new of it."""

    _last: bytes = b""  # the time of the last line
    _count: int = 0  # lines with this time
    _behind: bool = False  # what comes has been read already
    _again: int = 0  # lines with the last time that came again
    _partial: bytes = b""

    @property
    def since(self) -> str | None:
        """From when on the next connection is to give the log; None: from its beginning."""
        return f"{self._last[:19].decode('ascii')}Z" if self._last else None

    def connected(self) -> None:
        """A connection begins. What the former one left unfinished comes again."""
        self._behind, self._again, self._partial = bool(self._last), 0, b""

    def feed(self, data: bytes) -> bytes:
        """The new lines that are complete with this piece, without their times."""
        *lines, self._partial = (self._partial + data).split(b"\n")
        return b"".join(self._new(line + b"\n") for line in lines)

    def finish(self) -> bytes:
        """What there is of a last line without an end."""
        line, self._partial = self._partial, b""
        return self._new(line) if line else b""

    def _new(self, line: bytes) -> bytes:
        found = TIMED.match(line)
        if found is None:  # a word of the node's own
            return b"" if self._behind else line
        # With all nine digits the order of bytes is that of time.
        time = found[1] + b"." + (found[2] or b"").ljust(9, b"0")
        if self._behind and not self._catches_up(time):
            return b""
        self._behind = False
        self._count = self._count + 1 if time == self._last else 1
        self._last = time
        return line[found.end() :]

    def _catches_up(self, time: bytes) -> bool:
        self._again += time == self._last
        return time > self._last or self._again > self._count
