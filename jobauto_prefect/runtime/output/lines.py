"""The output of a job as numbered lines: masked, bounded, and fit for databases and XML."""

import codecs
import time
from bisect import bisect_right
from collections import deque
from collections.abc import Sequence
from datetime import datetime
from itertools import accumulate
from typing import Literal

from jobauto_prefect.clock import Clock, utc_now
from jobauto_prefect.runtime.output.masking import SecretIndex, StreamMasker
from jobauto_prefect.runtime.protocol import OutputLines

Stream = Literal["stdout", "stderr", "notice"]

LONGEST_LINE = 16_384  # characters; a longer line becomes several
RESTING_SECONDS = 0.3  # an unfinished line that grows no more is given out
LINE_BYTES = 64  # what each line counts beside its text: millions of empty ones are bounded too

# PostgreSQL refuses NUL and XML most control characters; they become their pictures.
READABLE = {code: 0x2400 + code for code in range(0x20) if chr(code) != "\t"} | {
    0x7F: 0x2421,
    **dict.fromkeys([*range(0x80, 0xA0), 0xFFFE, 0xFFFF], 0xFFFD),
}


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
        """Return the lines completed by this piece; `final` ends the last one."""
        text = self._masker.feed(self._decoder.decode(data, final), final=final)
        return self._split(text) + (self.flush() if final else [])

    def flush(self) -> list[str]:
        """Return what there is of a stream that rests: the last line, and an unfinished one.

        Such is a prompt.
        """
        lines = self._split(self._masker.release_line_end())
        if not self._partial:
            return lines
        line, self._partial, self._continued = self._partial, "", True
        return [*lines, _readable(line.removesuffix("\r"))]

    def _split(self, text: str) -> list[str]:
        *whole, self._partial = (self._partial + text).split("\n")
        lines = [piece for line in whole for piece in self._ended(line)]
        while len(self._partial) > LONGEST_LINE:
            lines.append(_readable(self._partial[:LONGEST_LINE]))
            self._partial, self._continued = self._partial[LONGEST_LINE:], True
        return lines

    def _ended(self, line: str) -> list[str]:
        line = line.removesuffix("\r")
        continued, self._continued = self._continued, False
        if len(line) <= LONGEST_LINE:
            return [_readable(line)] if line or not continued else []
        pieces = range(0, len(line), LONGEST_LINE)
        return [_readable(line[start : start + LONGEST_LINE]) for start in pieces]


def _readable(line: str) -> str:
    return line if line.isprintable() else line.translate(READABLE)


def take_batch(
    waiting: deque[OutputLines], most_lines: int, most_bytes: int
) -> tuple[list[OutputLines], int]:
    """Take the next lines, at least one if there is any; with the bytes of their texts."""
    taken: list[OutputLines] = []
    lines = size = 0
    while waiting and lines < most_lines:
        sizes = _sizes(waiting[0].texts[: most_lines - lines])
        fitting = _fitting(sizes, most_bytes - size)
        if not fitting and taken:
            break
        taken.append(_take_lines(waiting, fitting or 1))
        lines, size = lines + (fitting or 1), size + sum(sizes[: fitting or 1])
    return taken, size


def _fitting(sizes: Sequence[int], most: int) -> int:
    """Count the first sizes that together are at most `most`."""
    return bisect_right(list(accumulate(sizes)), most)


def _take_lines(waiting: deque[OutputLines], count: int) -> OutputLines:
    first = waiting.popleft()
    if count == len(first.texts):
        return first
    rest = {"seq": first.seq + count, "texts": first.texts[count:]}
    waiting.appendleft(first.model_copy(update=rest))
    return first.model_copy(update={"texts": first.texts[:count]})


def _sizes(texts: Sequence[str]) -> list[int]:
    return [len(text) if text.isascii() else len(text.encode()) for text in texts]


class Output:
    """All output of one job. What exceeds `limit_bytes` is dropped, and a notice says so."""

    def __init__(self, secrets: list[str], limit_bytes: int, clock: Clock = utc_now) -> None:
        index = SecretIndex(secrets)
        self._splitters: dict[Stream, LineSplitter] = {
            stream: LineSplitter(StreamMasker(index)) for stream in ("stdout", "stderr")
        }
        self._fed = dict.fromkeys(self._splitters, (0.0, clock()))  # monotonic seconds, when
        self._limit = limit_bytes
        self._left = limit_bytes
        self._clock = clock
        self._waiting: deque[OutputLines] = deque()
        self.waiting = 0  # lines that are to be taken
        self.waiting_bytes = 0
        self.lines = 0
        self.notices: list[str] = []

    @property
    def is_full(self) -> bool:
        """Whether the limit is reached: no more output is kept."""
        return self._left <= 0

    def feed(self, stream: Stream, data: bytes) -> None:
        """Add what was read of a stream; empty bytes mean its end."""
        self._fed[stream] = time.monotonic(), self._clock()
        if not self.is_full:
            self._add(stream, self._splitters[stream].feed(data, final=not data))

    def flush_resting(self, seconds: float = RESTING_SECONDS) -> None:
        """Emit unfinished lines, such as prompts, that have not grown for `seconds`."""
        now = time.monotonic()
        for stream, splitter in self._splitters.items():
            if now - self._fed[stream][0] >= seconds:
                self._add(stream, splitter.flush())

    def notice(self, text: str) -> None:
        """Add a notice of the worker's own, kept beyond the limit."""
        self.notices.append(text)
        self._append("notice", [text], len(text.encode()), self._clock())

    def take(self, most_lines: int, most_bytes: int) -> list[OutputLines]:
        """Take the next lines: at least one if there is any, each once."""
        taken, size = take_batch(self._waiting, most_lines, most_bytes)
        self.waiting -= sum(len(part.texts) for part in taken)
        self.waiting_bytes -= size
        return taken

    def peek(self) -> list[OutputLines]:
        """Return all lines that were not taken yet, without taking them."""
        return list(self._waiting)

    def _add(self, stream: Stream, texts: list[str]) -> None:
        if self.is_full:
            return
        sizes = _sizes(texts)
        fitting = _fitting([size + LINE_BYTES for size in sizes], self._left - 1)
        self._append(stream, texts[:fitting], sum(sizes[:fitting]), self._fed[stream][1])
        self._left -= sum(sizes) + LINE_BYTES * len(sizes)
        if self.is_full:
            self.notice(f"the output is longer than {self._limit} bytes; the rest is not kept")

    def _append(self, stream: Stream, texts: list[str], size: int, at: datetime) -> None:
        if texts:
            part = OutputLines.model_construct(
                seq=self.lines + 1, stream=stream, at=at, texts=texts
            )
            self._waiting.append(part)
            self.lines += len(texts)
            self.waiting += len(texts)
            self.waiting_bytes += size
