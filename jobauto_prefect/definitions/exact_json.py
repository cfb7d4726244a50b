"""JSON whose numbers keep their digits: `12.50` stays `12.50`."""

import json
from typing import Any

MOST_DIGITS = 400  # of a whole number that is read as one


class Numeral(float):
    """A JSON number with its digits as written; as a value it is the nearest float."""

    def __new__(cls, written: str) -> "Numeral":
        number = super().__new__(cls, written)
        number.written = written
        return number

    written: str


def read_exact(text: str) -> Any:
    """Return the values of a JSON text.

    Raises:
        ValueError: it is no JSON, or is nested too deep.
    """
    try:
        return json.loads(text, parse_float=Numeral, parse_int=_whole)
    except RecursionError:
        raise ValueError("is nested too deep") from None


def _whole(digits: str) -> int | Numeral:
    # int() refuses thousands of digits, and has no negative zero.
    return Numeral(digits) if len(digits) > MOST_DIGITS or digits == "-0" else int(digits)


def write_exact(value: Any) -> str:
    """Return values as JSON, each number with the digits it was read with."""
    try:
        return _written(value)
    except RecursionError:
        return json.dumps(value, ensure_ascii=False)


def _written(value: Any) -> str:
    if isinstance(value, Numeral):
        return value.written
    if isinstance(value, dict):
        members = (f"{_written(str(key))}: {_written(item)}" for key, item in value.items())
        return f"{{{', '.join(members)}}}"
    if isinstance(value, list | tuple):
        return f"[{', '.join(map(_written, value))}]"
    return json.dumps(value, ensure_ascii=False)
