"""What a job writes, as numbered lines: masked, bounded, and fit for a database and for XML."""

import codecs
import time
from collections import deque
from datetime import datetime
from typing import Literal, NamedTuple

from jobauto_prefect.clock import Clock, utc_now
from jobauto_prefect.runtime.masking import StreamMasker
from jobauto_prefect.runtime.protocol import OutputLine

Stream = Literal["stdout", "stderr", "notice"]

LONGEST_LINE = 16_384  # characters; a longer line becomes several
RESTING_SECONDS = 0.3  # an unfinished line that grows no more is given out
LINE_BYTES = 64  # what each line counts beside its text: millions of empty ones are bounded too

# PostgreSQL refuses NUL and XML most control characters; they become their pictures.
READABLE = {code: 0x2400 + code for code in range(0x20) if chr(code) != "\t"} | {
    0x7F: 0x2421,
    **dict.fromkeys([*range(0x80, 0xA0), 0xFFFE, 0xFFFF], 0xFFFD),
}


class Line(NamedTuple):
    """One line that waits to be sent."""

    seq: int
    stream: Stream
    text: str
    at: datetime
    size: int

    def message(self) -> OutputLine:
        """As it goes to the facade."""
        return OutputLine(seq=self.seq, stream=self.stream, text=self.text, at=self.at)


class LineSplitter:
    """Turns the bytes of one stream into lines.

    Bytes that are no UTF-8 become U+FFFD. What may be the beginning of a secret is kept back.
    """

    def __init__(self, masker: StreamMasker) -> None:
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self._masker = masker
        self._partial = ""
        self._continued = False  # a piece of the line that is being read is out already

    def feed(self, data: bytes, *, final: bool = False) -> list[str]:
        """The lines that are complete with this piece; `final` ends the last one."""
        text = self._masker.feed(self._decoder.decode(data, final), final=final)
        *whole, self._partial = (self._partial + text).split("\n")
        lines = [piece for line in whole for piece in self._ended(line)]
        while len(self._partial) > LONGEST_LINE:
            lines.append(_readable(self._partial[:LONGEST_LINE]))
            self._partial, self._continued = self._partial[LONGEST_LINE:], True
        return lines + (self.flush() if final else [])

    def flush(self) -> list[str]:
        """What there is of an unfinished line, such as a prompt."""
        if not self._partial:
            return []
        line, self._partial, self._continued = self._partial, "", True
        return [_readable(line.removesuffix("\r"))]

    def _ended(self, line: str) -> list[str]:
        line = line.removesuffix("\r")
        if not line and self._continued:
            self._continued = False
            return []
        self._continued = False
        pieces = range(0, len(line), LONGEST_LINE)
        return [_readable(line[start : start + LONGEST_LINE]) for start in pieces] or [""]


def _readable(line: str) -> str:
    return line.translate(READABLE)


class Output:
    """All output of one job. What exceeds `limit_bytes` is dropped, and a notice says so."""

    def __init__(self, secrets: list[str], limit_bytes: int, clock: Clock = utc_now) -> None:
        self._splitters: dict[Stream, LineSplitter] = {
            stream: LineSplitter(StreamMasker(secrets)) for stream in ("stdout", "stderr")
        }
        self._fed = dict.fromkeys(self._splitters, 0.0)  # monotonic seconds
        self._limit = limit_bytes
        self._left = limit_bytes
        self._clock = clock
        self._waiting: deque[Line] = deque()
        self.lines = 0
        self.notices: list[str] = []

    @property
    def waiting(self) -> int:
        """How many lines are to be taken."""
        return len(self._waiting)

    @property
    def is_full(self) -> bool:
        """Nothing more is kept."""
        return self._left <= 0

    def feed(self, stream: Stream, data: bytes) -> None:
        """What was read of a stream; no bytes at all mean its end."""
        self._fed[stream] = time.monotonic()
        if not self.is_full:
            for line in self._splitters[stream].feed(data, final=not data):
                self._add(stream, line)

    def flush_resting(self, seconds: float = RESTING_SECONDS) -> None:
        """Give out unfinished lines, such as prompts, that have not grown for so long."""
        now = time.monotonic()
        for stream, splitter in self._splitters.items():
            if now - self._fed[stream] >= seconds:
                for line in splitter.flush():
                    self._add(stream, line)

    def notice(self, text: str) -> None:
        """A line of our own, kept whatever the limit says."""
        self.notices.append(text)
        self._append("notice", text, len(text.encode()))

    def take(self, most_lines: int, most_bytes: int) -> list[OutputLine]:
        """The next lines, at least one if there is any, each only once."""
        taken: list[OutputLine] = []
        size = 0
        while self._waiting and len(taken) < most_lines:
            size += self._waiting[0].size
            if taken and size > most_bytes:
                break
            taken.append(self._waiting.popleft().message())
        return taken

    def _add(self, stream: Stream, text: str) -> None:
        if self.is_full:
            return
        size = len(text.encode())
        self._left -= size + LINE_BYTES
        if self.is_full:
            self.notice(f"the output is longer than {self._limit} bytes; the rest is not kept")
        else:
            self._append(stream, text, size)

    def _append(self, stream: Stream, text: str, size: int) -> None:
        self.lines += 1
        self._waiting.append(Line(self.lines, stream, text, self._clock(), size))
