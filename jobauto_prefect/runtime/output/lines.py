"""The output of a job as numbered lines: masked, limited, and safe for databases and XML."""

import codecs
import time
from bisect import bisect_right
from collections import defaultdict, deque
from collections.abc import Iterator, Sequence
from datetime import datetime
from itertools import accumulate
from typing import Literal, NamedTuple

from jobauto_prefect.clock import Clock, utc_now
from jobauto_prefect.runtime.output.masking import SecretIndex, StreamMasker
from jobauto_prefect.runtime.protocol import OutputLines

Stream = Literal["stdout", "stderr", "notice"]

LONGEST_LINE = 16_384  # characters; longer lines are split
RESTING_SECONDS = 0.3  # until an unfinished line is emitted
END_BYTES = 128 * 1024  # of the end of an output that exceeds its limits
MOST_LINES = 200_000  # of the beginning: short lines take few bytes, but a row of the ledger each
CHARACTER_BYTES = 4  # at most, in UTF-8

# PostgreSQL rejects NUL and XML most control characters; they are replaced by their pictures.
READABLE = {code: 0x2400 + code for code in range(0x20) if chr(code) != "\t"} | {
    0x7F: 0x2421,
    **dict.fromkeys([*range(0x80, 0xA0), 0xFFFE, 0xFFFF], 0xFFFD),
}


class Piece(NamedTuple):
    """A line, or part of one: `text` is for people, `raw` the bytes that were written.

    `raw` is None if these are the text and a newline.
    """

    text: str
    raw: bytes | None = None


class LineSplitter:
    """Turns the bytes of one stream into lines.

    What may be the beginning of a secret is held back.
    """

    def __init__(self, masker: StreamMasker) -> None:
        self._decoder = codecs.getincrementaldecoder("utf-8")("surrogateescape")
        self._masker = masker
        self._partial = ""
        self._continued = False  # part of the current line has been emitted
        self._owed = ""  # the end of such a line, to be put before what is written next

    def feed(self, data: bytes, *, final: bool = False) -> list[Piece]:
        """Return the lines completed by this chunk; `final` ends the last one."""
        text = self._masker.feed(self._decoder.decode(data, final), final=final)
        return self._split(text) + (self.flush() + self._end_of_line() if final else [])

    def flush(self) -> list[Piece]:
        """Return the pending text of an idle stream: its last line, and an unfinished one.

        An unfinished line may be a prompt.
        """
        return self._split(self._masker.release_line_end()) + self._unfinished()

    def skip(self, before: bytes, *, joined: bool) -> list[Piece]:
        """Skip bytes, and return the unfinished line before them.

        `before` are the last of the skipped bytes: a secret may begin there. With `joined` they are
        all of them.
        """
        pieces = self._unfinished() + self._end_of_line()
        if not joined:
            self._decoder.reset()
            self._masker.restart()
        self._masker.feed(self._decoder.decode(before))
        self._continued = False
        return pieces

    def _split(self, text: str) -> list[Piece]:
        *whole, self._partial = (self._partial + text).split("\n")
        pieces = [piece for line in whole for piece in self._ended(line)]
        while len(self._partial) > LONGEST_LINE:
            pieces.append(self._piece(self._partial[:LONGEST_LINE], ""))
            self._partial, self._continued = self._partial[LONGEST_LINE:], True
        return pieces

    def _ended(self, line: str) -> list[Piece]:
        body = line.removesuffix("\r")
        end = line[len(body) :] + "\n"
        continued, self._continued = self._continued, False
        if continued and not body:
            self._owed += end
            return []
        *starts, last = range(0, max(1, len(body)), LONGEST_LINE)
        pieces = [self._piece(body[start : start + LONGEST_LINE], "") for start in starts]
        return [*pieces, self._piece(body[last:], end)]

    def _unfinished(self) -> list[Piece]:
        line, self._partial = self._partial, ""
        if not line:
            return []
        self._continued = True
        body = line.removesuffix("\r")
        return [self._piece(body, line[len(body) :])]

    def _end_of_line(self) -> list[Piece]:
        return [self._piece("", "")] if self._owed else []

    def _piece(self, body: str, end: str) -> Piece:
        owed, self._owed = self._owed, ""
        text = body
        if not body.isprintable():
            shown = body.encode(errors="surrogateescape").decode(errors="replace")
            text = shown.translate(READABLE)
        if text == body and end == "\n" and not owed:
            return Piece(text)
        return Piece(text, (owed + body + end).encode(errors="surrogateescape"))


class OutputEnd:
    """The end of an output: the last bytes in order, not masked yet.

    The streams share it, but one that writes little loses nothing to one that writes much.
    `left_out` counts the bytes of each stream that were dropped; the last of those are in `before`,
    for secrets that begin in them.
    """

    def __init__(self, most_bytes: int, before_bytes: int) -> None:
        self.most_bytes, self._before_bytes = most_bytes, before_bytes
        self._bytes = defaultdict[Stream, int](int)
        self._kept = defaultdict[Stream, deque[tuple[int, datetime, bytes]]](deque)
        self._count = 0
        self.left_out = defaultdict[Stream, int](int)
        self.before = defaultdict[Stream, bytes](bytes)

    def add(self, stream: Stream, at: datetime, data: bytes) -> None:
        self._count += 1
        self._kept[stream].append((self._count, at, data))
        self._bytes[stream] += len(data)
        while (over := sum(self._bytes.values()) - self.most_bytes) > 0:
            self._leave_out(over, max(self._bytes, key=self._bytes.__getitem__))

    @property
    def is_used(self) -> bool:
        """Whether it contains anything."""
        return self._count > 0

    def parts(self) -> Iterator[tuple[Stream, datetime, bytes]]:
        """Yield what is kept, in order."""
        parts = [(*part, stream) for stream, kept in self._kept.items() for part in kept]
        for _, at, data, stream in sorted(parts, key=lambda part: part[0]):
            yield stream, at, data

    def _leave_out(self, count: int, stream: Stream) -> None:
        kept = self._kept[stream]
        number, at, data = kept.popleft()
        while count < len(data) and not _begins_character(data[count]):
            count += 1
        if count < len(data):
            kept.appendleft((number, at, data[count:]))
            data = data[:count]
        self._bytes[stream] -= len(data)
        self.left_out[stream] += len(data)
        self.before[stream] = (self.before[stream] + data)[-self._before_bytes :]


def _begins_character(byte: int) -> bool:
    """Whether UTF-8 can be cut before a byte."""
    return byte & 0xC0 != 0x80


def take_batch(
    waiting: deque[OutputLines], most_lines: int, most_bytes: int
) -> tuple[list[OutputLines], int]:
    """Take the next lines, at least one if there is any; return them and their texts' size."""
    taken: list[OutputLines] = []
    lines = size = 0
    while waiting and lines < most_lines:
        sizes = _sizes(waiting[0])[: most_lines - lines]
        fitting = bisect_right(list(accumulate(sizes)), most_bytes - size)
        if not fitting and taken:
            break
        taken.append(_take_lines(waiting, fitting or 1))
        lines, size = lines + (fitting or 1), size + sum(sizes[: fitting or 1])
    return taken, size


def _take_lines(waiting: deque[OutputLines], count: int) -> OutputLines:
    first = waiting.popleft()
    if count == len(first.texts):
        return first
    later = {place - count: raw for place, raw in first.raws.items() if place >= count}
    rest = {"seq": first.seq + count, "texts": first.texts[count:], "raws": later}
    waiting.appendleft(first.model_copy(update=rest))
    return first_lines(first, count)


def first_lines(lines: OutputLines, count: int) -> OutputLines:
    """Return the first `number` of these lines."""
    raws = {place: raw for place, raw in lines.raws.items() if place < count}
    return lines.model_copy(update={"texts": lines.texts[:count], "raws": raws})


def _sizes(lines: OutputLines) -> list[int]:
    sizes = [len(text) if text.isascii() else len(text.encode()) for text in lines.texts]
    for place, raw in lines.raws.items():
        sizes[place] += len(raw)
    return sizes


class Output:
    """All output of one job.

    If it exceeds `limit_bytes` or `MOST_LINES`, its beginning and end are kept, and how much is
    missing.
    """

    def __init__(self, secrets: list[str], limit_bytes: int, clock: Clock = utc_now) -> None:
        index = SecretIndex(secrets)
        self._splitters: dict[Stream, LineSplitter] = {
            stream: LineSplitter(StreamMasker(index)) for stream in ("stdout", "stderr")
        }
        self._fed = dict.fromkeys(self._splitters, (0.0, clock()))  # monotonic seconds, when
        self._limit = limit_bytes
        self._end_bytes = min(END_BYTES, limit_bytes * 2 // 3)
        self._left = limit_bytes - self._end_bytes
        # A secret cut off at the start of `before` ends before the next one that extends beyond it.
        self._end = OutputEnd(self._end_bytes, CHARACTER_BYTES * (1 + 2 * index.longest))
        self._clock = clock
        self._waiting: deque[OutputLines] = deque()
        self.waiting = 0  # lines not yet taken
        self.waiting_bytes = 0
        self.lines = 0
        self.notices: list[str] = []

    @property
    def is_full(self) -> bool:
        """Whether the beginning is complete: further output may be dropped."""
        return self._left <= 0

    def feed(self, stream: Stream, data: bytes) -> None:
        """Add bytes read from a stream; empty bytes mean its end."""
        at = self._clock()
        self._fed[stream] = time.monotonic(), at
        if self._end.is_used:
            self._feed_end(stream, at, data)
            return
        if self.lines >= MOST_LINES:
            self._left = 0
        cut = min(self._left, len(data))
        while 0 < cut < len(data) and not _begins_character(data[cut]):
            cut -= 1
        self._left -= cut
        self._add(stream, at, self._splitters[stream].feed(data[:cut], final=not data))
        if cut < len(data):
            self._end.most_bytes += self._left
            self._left = 0
            self._feed_end(stream, at, data[cut:])

    def _feed_end(self, stream: Stream, at: datetime, data: bytes) -> None:
        if not data:
            return
        knew = bool(self._end.left_out)
        self._end.add(stream, at, data)
        if self._end.left_out and not knew:
            most = f"{MOST_LINES} lines" if self.lines >= MOST_LINES else f"{self._limit} bytes"
            self.notice(
                f"the output is longer than {most}: "
                f"its last {self._end_bytes} bytes follow when the job has ended"
            )

    def finish(self) -> None:
        """Add the end: no more output follows."""
        for stream, missing in self._end.left_out.items():
            before = self._end.before[stream]
            unfinished = self._splitters[stream].skip(before, joined=len(before) == missing)
            at = self._fed[stream][1]
            self._add(stream, at, [*unfinished, Piece(f"{missing} bytes are missing here", b"")])
        for stream, at, data in self._end.parts():
            self._add(stream, at, self._splitters[stream].feed(data))
        for stream, splitter in self._splitters.items():
            self._add(stream, self._fed[stream][1], splitter.feed(b"", final=True))

    def flush_resting(self, seconds: float = RESTING_SECONDS) -> None:
        """Emit unfinished lines, such as prompts, that have not grown for `seconds`."""
        now = time.monotonic()
        for stream, splitter in self._splitters.items():
            if now - self._fed[stream][0] >= seconds:
                self._add(stream, self._fed[stream][1], splitter.flush())

    def notice(self, text: str) -> None:
        """Add a notice from the worker, kept beyond the limit."""
        self.notices.append(text)
        self._add("notice", self._clock(), [Piece(text)])

    def take(self, most_lines: int, most_bytes: int) -> list[OutputLines]:
        """Take the next lines, at least one if there is any."""
        taken, size = take_batch(self._waiting, most_lines, most_bytes)
        self.waiting -= sum(len(part.texts) for part in taken)
        self.waiting_bytes -= size
        return taken

    def peek(self) -> list[OutputLines]:
        """Return all lines not yet taken, without taking them."""
        return list(self._waiting)

    def _add(self, stream: Stream, at: datetime, pieces: Sequence[Piece]) -> None:
        if not pieces:
            return
        part = OutputLines.model_construct(
            seq=self.lines + 1,
            stream=stream,
            at=at,
            texts=[piece.text for piece in pieces],
            raws={place: piece.raw for place, piece in enumerate(pieces) if piece.raw is not None},
        )
        self._waiting.append(part)
        self.lines += len(pieces)
        self.waiting += len(pieces)
        self.waiting_bytes += sum(_sizes(part))
