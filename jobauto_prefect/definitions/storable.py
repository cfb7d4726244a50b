"""What text and JSON the ledgers and Prefect can hold, and a JSON parser that keeps numbers exact.

Every input is checked here: by `is_storable` and `unstorable` to refuse or report faults, by
`storable_text` for text that is only shown, such as output and foreign messages, and by
`storable_json` for what SQLite held.
"""

import json
import math
import re
import sys
from collections.abc import Iterator, Mapping
from typing import Any

from jobauto_prefect.definitions.findings import Finding, child, join, quote

MAX_DEPTH = 64  # containers inside each other
MAX_VALUES = 100_000  # of a document, containers included
MOST_DIGITS = 400  # of an integer that is parsed as one
_LARGEST = sys.float_info.max

DECISIVE = frozenset({"size", "depth"})
"""Rules after which validation of a document stops."""

# PostgreSQL and process environments can't hold NUL; a lone surrogate is not UTF-8.
_UNFIT_TEXT = re.compile("[\x00\ud800-\udfff]")
_ESCAPE = re.compile(r"\\(?:u[dD][89abAB]..\\u[dD][c-fC-F]..|(?P<unfit>u0000|u[dD][89a-fA-F]..)|.)")
UNFIT = "has a character that can't be kept (U+0000 or half of a surrogate pair)"


class TooDeep(ValueError):
    """A JSON text is nested deeper than can be read."""


class Numeral(float):
    """A JSON number with its original digits; as a value it is the nearest float."""

    def __new__(cls, written: str) -> "Numeral":
        number = super().__new__(cls, written)
        number.written = written
        return number

    written: str

    def __str__(self) -> str:
        return self.written


def is_storable(text: str) -> bool:
    """Whether a text can be stored unchanged."""
    return _UNFIT_TEXT.search(text) is None


def storable_text(text: str) -> str:
    """Return a text with U+FFFD in place of each character that can't be stored."""
    return _UNFIT_TEXT.sub("\ufffd", text)


def storable_json(text: str) -> str:
    """Return a JSON text in which no escape stands for a character that can't be stored."""
    return _ESCAPE.sub(lambda escape: r"\ufffd" if escape["unfit"] else escape[0], text)


def has_many_values(text: bytes, most: int = MAX_VALUES) -> bool:
    """Whether a JSON text has more than `most` values, without creating any of them.

    It may miss texts with up to twice as many, but never reports one with fewer.
    """
    bare = text.replace(rb"\\", b"").replace(rb"\"", b"")
    if bare.count(b'"') // 2 > 2 * most:  # each value has at most one key
        return True
    outside = b"".join(bare.split(b'"')[::2])
    return max(outside.count(b",") + 1, outside.count(b"[") + outside.count(b"{")) > most


def too_many(most: int) -> str:
    """Return the message about a document of more than `most` values."""
    return f"the document has more than {most} values"


TOO_MANY = too_many(MAX_VALUES)


def read_exact(text: str | bytes) -> Any:
    """Parse a JSON text; each number keeps its digits: `12.50` stays `12.50`.

    A byte order mark is skipped; NaN and Infinity, which JSON does not have, become these words.
    The result may still be `unstorable`.

    Raises:
        TooDeep: it is nested deeper than can be read.
        ValueError: it is not JSON, or not UTF-8; the message says which.
    """
    try:
        if isinstance(text, bytes):
            text = text.decode()
        return json.loads(
            text.removeprefix("\ufeff"),
            parse_float=Numeral,
            parse_int=_whole,
            parse_constant=str,
        )
    except UnicodeDecodeError as error:
        raise ValueError(f"is not UTF-8 from byte {error.start + 1} on") from None
    except json.JSONDecodeError as error:
        raise ValueError(
            f"is not JSON: {error.msg[:1].lower()}{error.msg[1:]}"
            f" (line {error.lineno}, column {error.colno})"
        ) from None
    except RecursionError:
        raise TooDeep(f"is nested deeper than {MAX_DEPTH} levels") from None


def _whole(digits: str) -> int | Numeral:
    # int() refuses thousands of digits, and has no negative zero.
    return Numeral(digits) if len(digits) > MOST_DIGITS or digits == "-0" else int(digits)


def read_integer(digits: str) -> int | float:
    """Return an integer of any length for `json.loads`; infinite beyond all JSON numbers."""
    return int(digits) if len(digits) < MOST_DIGITS else float(digits)


_PLAIN = json.JSONEncoder(ensure_ascii=False)
_PLAIN_TYPES = frozenset({str, int, float, bool, type(None)})


def write_exact(value: Any, encoder: json.JSONEncoder = _PLAIN) -> str:
    """Return values as JSON, each number with its original digits.

    `encoder` writes all but those numbers.
    """
    try:
        # In one call where it can be: one for each value takes thirty times as long.
        return _written(value, encoder) if _has_numeral(value) else encoder.encode(value)
    except RecursionError:
        return encoder.encode(value)


def _has_numeral(value: Any) -> bool:
    if isinstance(value, dict):
        value = value.values()
    elif not isinstance(value, list | tuple):
        return isinstance(value, Numeral)
    for item in value:  # noqa: SIM110 - the generator of any() is called for each
        if type(item) not in _PLAIN_TYPES and _has_numeral(item):
            return True
    return False


def _written(value: Any, encoder: json.JSONEncoder) -> str:
    if isinstance(value, Numeral):
        return value.written
    comma, colon = encoder.item_separator, encoder.key_separator
    if isinstance(value, dict):
        members = (
            f"{encoder.encode(str(key))}{colon}{_written(item, encoder)}"
            for key, item in value.items()
        )
        return f"{{{comma.join(members)}}}"
    if isinstance(value, list | tuple):
        return f"[{comma.join(_written(item, encoder) for item in value)}]"
    return encoder.encode(value)


def walk(document: Any) -> Iterator[tuple[str, Any, int]]:
    """Yield pointer, value and depth (1 for the document) of every value, in document order.

    Values below `MAX_DEPTH` are skipped, because a YAML document may contain itself.
    """
    waiting: list[tuple[str, Any, int]] = [("", document, 1)]
    while waiting:
        pointer, value, depth = waiting.pop()
        yield pointer, value, depth
        if depth <= MAX_DEPTH:
            below = [(child(pointer, step), item, depth + 1) for step, item in _items(value)]
            waiting.extend(reversed(below))


def unstorable(document: Any, most: int = MAX_VALUES) -> Iterator[Finding]:
    """Yield every value that is not JSON or can't be stored, in the document's order.

    A document of more than `most` values, or one that contains itself, is not read to its end.
    """
    # Values are judged in this loop, and only faults get a pointer: bodies have many values, and a
    # call for each takes ten times as long.
    seen = 1
    steps: list[str | int] = []  # to the container that is being read
    levels: list[Iterator[tuple[str | int, Any]]] = [iter([("", document)])]
    while levels:
        for step, value in levels[-1]:
            kind = type(value)
            if (
                value is None
                or kind is bool
                or (kind is str and _UNFIT_TEXT.search(value) is None)
                or ((kind is int or kind is float) and -_LARGEST <= value <= _LARGEST)
            ):
                continue
            pointer = [*steps, step][1:]
            if not isinstance(value, Mapping | list):
                yield from _unfit(join(pointer), value)
                continue
            seen += len(value)
            if seen > most:
                yield Finding("", "size", too_many(most))
                return
            if len(levels) > MAX_DEPTH:
                yield Finding(join(pointer), "depth", f"is nested deeper than {MAX_DEPTH} levels")
                continue
            yield from _unfit_keys(value, pointer)
            steps.append(step)
            levels.append(_items(value))
            break
        else:
            levels.pop()
            del steps[-1:]


def _items(value: Any) -> Iterator[tuple[str | int, Any]]:
    if isinstance(value, Mapping):
        return iter(value.items())
    return enumerate(value) if isinstance(value, list) else iter(())


def _unfit_keys(value: Mapping[Any, Any] | list[Any], steps: list[str | int]) -> Iterator[Finding]:
    for key in value if isinstance(value, Mapping) else ():
        if not isinstance(key, str):
            message = f"the key {key!s:.40} must be text: put it in quotes"
            yield Finding(join(steps), "key", message)
        elif _UNFIT_TEXT.search(key) is not None:
            yield Finding(join(steps), "text", f"the key {quote(key)} has an unusable character")


def _unfit(pointer: str, value: Any) -> Iterator[Finding]:
    if isinstance(value, str):
        if not is_storable(value):
            yield Finding(pointer, "text", UNFIT)
    elif isinstance(value, int | float):
        if isinstance(value, float) and math.isnan(value):
            yield Finding(pointer, "number", "NaN is not a JSON number")
        elif abs(value) > _LARGEST:
            yield Finding(pointer, "number", "is infinite or too large for a JSON number")
    else:
        yield Finding(pointer, "json", f"is a {type(value).__name__}, which JSON does not have")
