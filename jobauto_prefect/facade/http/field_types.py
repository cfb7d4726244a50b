"""How clients may write numbers, booleans and times: one parser for queries and bodies.

Query fields are strings, and published clients also send numbers as strings in bodies.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Annotated, Any, TypeVar

from pydantic import BeforeValidator, GetJsonSchemaHandler, WithJsonSchema
from pydantic.json_schema import JsonSchemaValue
from pydantic_core import CoreSchema, PydanticCustomError

from jobauto_prefect.definitions.storable import is_storable
from jobauto_prefect.errors import Fault, InvalidInput
from jobauto_prefect.ledger.base import BIGGEST_ID

_INTEGER = re.compile(r"-?(0|[1-9][0-9]{0,18})", re.ASCII)
_DIGITS = re.compile(r"-?[1-9][0-9]*", re.ASCII)
_NUMBER = re.compile(r"-?(0|[1-9][0-9]{0,18})(\.[0-9]{1,18})?", re.ASCII)
_TIMESTAMP = re.compile(
    r"(?P<date>[0-9]{4}-[0-9]{2}-[0-9]{2})"
    r"([T ](?P<time>[0-9]{2}:[0-9]{2}(:[0-9]{2}(\.[0-9]{1,9})?)?)"
    # A plus sign that was not encoded in a query arrives as a space.
    r"(?P<offset>Z|[+ -][0-9]{2}:?[0-9]{2})?)?",
    re.ASCII | re.IGNORECASE,
)


def as_integer(value: Any) -> int:
    """Return an integer for an integer or its digits.

    Raises:
        ValueError: it is none.
    """
    if isinstance(value, str) and _INTEGER.fullmatch(value):
        return int(value)
    if isinstance(value, str) and _DIGITS.fullmatch(value):
        raise PydanticCustomError("range", "is too large a number")
    if isinstance(value, float) and value.is_integer():
        return int(value)
    if isinstance(value, int) and not isinstance(value, bool):
        return value
    raise PydanticCustomError("type", "must be a whole number")


def as_number(value: Any) -> float:
    """Return a number for a number or its digits.

    Raises:
        ValueError: it is none.
    """
    if isinstance(value, str) and _NUMBER.fullmatch(value):
        return float(value)
    if isinstance(value, int | float) and not isinstance(value, bool):
        return value
    if isinstance(value, str) and _DIGITS.fullmatch(value):
        raise PydanticCustomError("range", "is too large a number")
    raise PydanticCustomError("type", "must be a number")


def as_bool(value: Any) -> bool:
    """Return a boolean for one in JSON, for 1 or 0, or for text.

    Raises:
        ValueError: it is neither.
    """
    word = value.lower() if isinstance(value, str) else value
    if word in (True, 1, "1", "true"):
        return True
    if word in (False, 0, "0", "false"):
        return False
    raise PydanticCustomError("type", "must be true or false")


def as_datetime(value: Any) -> datetime:
    """Return a time in UTC for ISO 8601 or `Y-m-d H:i:s`, with or without an offset (then UTC).

    The offset may lack its colon.

    Raises:
        ValueError: it is not a time, or can't be represented in UTC.
    """
    match = _TIMESTAMP.fullmatch(value) if isinstance(value, str) else None
    if match is not None:
        offset = (match["offset"] or "Z").upper().replace(" ", "+")
        try:
            text = f"{match['date']}T{match['time'] or '00:00'}{offset}"
            return datetime.fromisoformat(text).astimezone(UTC)
        except (ValueError, OverflowError):
            pass  # there is no such day or hour, or it is before the year 1
    message = "must be a time like 2026-05-01T10:00:00+02:00 or 2026-05-01 10:00:00"
    raise PydanticCustomError("time", message)


@dataclass(frozen=True, slots=True)
class OrText:
    """Declares in a JSON Schema that a number may also be a string of a pattern."""

    pattern: str

    def __get_pydantic_json_schema__(
        self, core: CoreSchema, handler: GetJsonSchemaHandler
    ) -> JsonSchemaValue:
        """Return the JSON schema; pydantic calls it."""
        return {"anyOf": [handler(core), {"type": "string", "pattern": self.pattern}]}


SIGNED = r"^(0|-?[1-9][0-9]{0,8})$"
"""Digits within 32 bits, with a sign."""
UNSIGNED = r"^(0|[1-9][0-9]{0,17})$"
"""Digits within 63 bits."""

READ_INTEGER = BeforeValidator(as_integer)
READ_NUMBER = BeforeValidator(as_number)
"""For numbers with limits; listed after the limits."""

Integer = Annotated[int, READ_INTEGER]
Boolean = Annotated[
    bool,
    BeforeValidator(as_bool),
    # Client generators accept enums of one type only.
    WithJsonSchema(
        {
            "anyOf": [
                {"type": "boolean"},
                {"type": "integer", "enum": [0, 1]},
                {"type": "string", "enum": ["0", "1", "true", "false"]},
            ]
        }
    ),
]
Timestamp = Annotated[
    datetime,
    BeforeValidator(as_datetime),
    WithJsonSchema({"type": "string", "format": "date-time"}),
]


Convert = Callable[[str, Any], Any]
"""From a field's name and its input to its value. Raises InvalidInput."""


T = TypeVar("T")


def _parser(read: Callable[[Any], T]) -> Callable[[str, Any], T]:
    def convert(name: str, given: Any) -> T:
        try:
            return read(given)
        except ValueError as error:
            raise InvalidInput([Fault(f"/{name}", "type", f"{name} {error}")]) from None

    return convert


def _parse_number(given: Any) -> int:
    number = as_integer(given)
    if 0 <= number <= BIGGEST_ID:
        return number
    raise ValueError(f"must be from 0 to {BIGGEST_ID}")


parse_int = _parser(_parse_number)
"""A number of a record."""


parse_bool = _parser(as_bool)
"""A yes or no."""


parse_datetime = _parser(as_datetime)
"""A time."""


def parse_text(name: str, given: str) -> str:
    """Return a text that a database query can contain."""
    if not is_storable(given) or len(given) > 255:
        raise InvalidInput([Fault(f"/{name}", "text", f"{name} can't be looked for")])
    return given


SCHEMAS: Mapping[Convert, dict[str, Any]] = {
    parse_int: {"type": "integer", "minimum": 0, "maximum": BIGGEST_ID},
    parse_bool: {"type": "boolean"},
    parse_datetime: {"type": "string", "format": "date-time"},
    parse_text: {"type": "string", "maxLength": 255},
}
"""The document's schema of a converter's input."""


def parse_enum(choices: Sequence[str]) -> Convert:
    """Return a converter that accepts one of these words."""

    def convert(name: str, given: str) -> str:
        if given in choices:
            return given
        message = f"{name} must be one of {', '.join(choices)}"
        raise InvalidInput([Fault(f"/{name}", "enum", message)])

    return convert


def parse_enums(choices: Sequence[str]) -> Convert:
    """Return a converter that accepts some of these words, with commas between them."""
    convert_word = parse_enum(choices)

    def convert(name: str, given: str) -> tuple[str, ...]:
        return tuple(dict.fromkeys(convert_word(name, word) for word in given.split(",")))

    return convert
