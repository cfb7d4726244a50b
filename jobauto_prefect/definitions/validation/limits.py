"""What any document must keep to before its rules are looked at: plain JSON of a bounded size."""

import math
import re
import sys
from collections.abc import Iterator, Mapping
from typing import Any

from jobauto_prefect.definitions.validation.findings import Finding, quote
from jobauto_prefect.definitions.validation.pointers import child

MAX_BYTES = 1024 * 1024  # of the text; real definitions have less than 64 KiB
MAX_DEPTH = 64  # containers inside each other
MAX_VALUES = 100_000  # of the document, containers included

DECISIVE = frozenset({"size", "depth"})
"""Rules after which a document is not looked at any further."""

# Neither PostgreSQL nor a process environment carries NUL; a lone surrogate is no UTF-8.
_UNFIT_TEXT = re.compile("[\x00\ud800-\udfff]")


def read_integer(digits: str) -> int | float:
    """Return an integer of any length for `json.loads`; one beyond all JSON numbers is infinite."""
    # int() raises an error of its own for thousands of digits.
    return int(digits) if len(digits) < 400 else float(digits)


def walk(document: Any) -> Iterator[tuple[str, Any, int]]:
    """Yield pointer, value and depth (1 for the document) of every value, in document order.

    Nothing is visited below `MAX_DEPTH`: what comes from YAML may contain itself.
    """
    waiting: list[tuple[str, Any, int]] = [("", document, 1)]
    while waiting:
        pointer, value, depth = waiting.pop()
        yield pointer, value, depth
        if depth <= MAX_DEPTH:
            below = [(child(pointer, step), item, depth + 1) for step, item in _items(value)]
            waiting.extend(reversed(below))


def beyond_limits(document: Any) -> Iterator[Finding]:
    """Yield every value that is not JSON or can't be kept, in the document's order."""
    for seen, (pointer, value, depth) in enumerate(walk(document)):
        if seen >= MAX_VALUES:
            yield Finding("", "size", f"the document has more than {MAX_VALUES} values")
            return
        if depth > MAX_DEPTH and isinstance(value, Mapping | list):
            yield Finding(pointer, "depth", f"is nested deeper than {MAX_DEPTH} levels")
        else:
            yield from _unfit(pointer, value)


def _items(value: Any) -> Iterator[tuple[str | int, Any]]:
    if isinstance(value, Mapping):
        yield from value.items()
    elif isinstance(value, list):
        yield from enumerate(value)


def _unfit(pointer: str, value: Any) -> Iterator[Finding]:
    if isinstance(value, Mapping):
        for key in value:
            if not isinstance(key, str):
                yield Finding(pointer, "key", f"the key {key!s:.40} must be text: put it in quotes")
            elif _UNFIT_TEXT.search(key):
                yield Finding(pointer, "text", f"the key {quote(key)} has an unusable character")
    elif isinstance(value, str):
        if _UNFIT_TEXT.search(value):
            message = "has a character that can't be kept (U+0000 or half of a surrogate pair)"
            yield Finding(pointer, "text", message)
    elif isinstance(value, int | float):
        yield from _unfit_number(pointer, value)
    elif value is not None and not isinstance(value, list):
        yield Finding(pointer, "json", f"is a {type(value).__name__}, which JSON does not have")


def _unfit_number(pointer: str, value: float) -> Iterator[Finding]:
    if isinstance(value, float) and math.isnan(value):
        yield Finding(pointer, "number", "NaN is no JSON number")
    elif abs(value) > sys.float_info.max:
        yield Finding(pointer, "number", "is infinite or too large for a JSON number")
