"""Lines of output masked per second, where a job has 20 secrets, among them a private key.

    python -m benchmarks.masking --json

The yardstick is copying: the same bytes, decoded and cut into lines, in the same run. Measured is
the processor's time for the bytes as a pipe gives them (64 kB), and `line_by_line`, as from a
program that flushes each.
"""

import base64
import codecs
import secrets
import statistics
import time
from collections.abc import Callable, Iterable
from typing import Any

from benchmarks.stack import report
from jobauto_prefect.runtime.output.lines import LineSplitter
from jobauto_prefect.runtime.output.masking import MASK, SecretIndex, StreamMasker

LINES = 30_000
TIMES = 3
PIECE_BYTES = 1 << 16
GOAL = 20_000.0
ONE_IN = 100
"""So often a line has a secret, in one of the forms by turns."""


def _known() -> list[str]:
    """A private key of 27 lines, and 19 values as people have them."""
    rows = [base64.b64encode(secrets.token_bytes(48)).decode() for _ in range(25)]
    key = "\n".join(["-----BEGIN PRIVATE KEY-----", *rows, "-----END PRIVATE KEY-----", ""])
    return [key, *(secrets.token_urlsafe(8 + number) + "&'\"" for number in range(19))]


def _written(known: list[str]) -> list[bytes]:
    lines = [
        f"2026-05-04T12:00:30Z INFO  module.{n % 17} record {n} of {LINES} was read, checked"
        f" and written: id={n * 7919:010d} amount={n % 9973}.50 EUR\n".encode()
        for n in range(LINES)
    ]
    for place in range(0, LINES, ONE_IN):
        secret = known[1 + place // ONE_IN % 19]
        forms = secret, base64.encodebytes(secret.encode()).decode(), secret.encode().hex()
        lines[place] = f"password={forms[place // ONE_IN % 3]}\n".encode()
    return lines


def _copied(pieces: Iterable[bytes]) -> list[str]:
    decoder, partial, lines = codecs.getincrementaldecoder("utf-8")("replace"), "", list[str]()
    for piece in pieces:
        *whole, partial = (partial + decoder.decode(piece)).split("\n")
        lines += whole
    return [*lines, partial]


def _lines_per_second(copy: Callable[[], list[str]]) -> tuple[float, list[str]]:
    taken = []
    for _ in range(TIMES):
        began = time.process_time()
        lines = copy()
        taken.append(time.process_time() - began)
    return LINES / statistics.median(taken), lines


def measure() -> dict[str, Any]:
    """Lines per second, masked and copied."""
    known = _known()
    by_line = _written(known)
    written = b"".join(by_line)
    by_piece = [written[n : n + PIECE_BYTES] for n in range(0, len(written), PIECE_BYTES)]
    index = SecretIndex(known)

    def masked(pieces: list[bytes]) -> list[str]:
        splitter = LineSplitter(StreamMasker(index))
        lines = [line for piece in pieces for line in splitter.feed(piece)]
        return lines + splitter.feed(b"", final=True)

    value, lines = _lines_per_second(lambda: masked(by_piece))
    line_value, same = _lines_per_second(lambda: masked(by_line))
    copied, _ = _lines_per_second(lambda: _copied(by_piece))
    if lines != same or sum(MASK in line for line in lines) != LINES // ONE_IN:
        raise RuntimeError("not each secret was masked, or not the same way")
    return {
        "name": "masking",
        "value": round(value),
        "unit": "lines/s",
        "yardstick": "the same lines decoded and cut, with nothing looked for",
        "yardstick_value": round(copied),
        "ratio": round(value / copied, 4),
        "goal": GOAL,
        "met": min(value, line_value) >= GOAL,
        "line_by_line": round(line_value),
        "secrets": len(known),
        "bytes_per_line": round(len(written) / LINES),
    }


if __name__ == "__main__":
    report(measure, __doc__)
