"""How clients may spell numbers, yes and no, and times: one way in, for queries and bodies.

Query fields are text, and published clients send numbers as text in bodies, too.
"""

import re
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Annotated, Any

from pydantic import BeforeValidator, GetJsonSchemaHandler, WithJsonSchema
from pydantic.json_schema import JsonSchemaValue
from pydantic_core import CoreSchema, PydanticCustomError

_INTEGER = re.compile(r"-?(0|[1-9][0-9]{0,18})", re.ASCII)
_NUMBER = re.compile(r"-?(0|[1-9][0-9]{0,18})(\.[0-9]{1,18})?", re.ASCII)
_INSTANT = re.compile(
    r"(?P<date>[0-9]{4}-[0-9]{2}-[0-9]{2})"
    r"([T ](?P<time>[0-9]{2}:[0-9]{2}(:[0-9]{2}(\.[0-9]{1,9})?)?)"
    # A plus sign that was not encoded in a query arrives as a space.
    r"(?P<offset>Z|[+ -][0-9]{2}:?[0-9]{2})?)?",
    re.ASCII | re.IGNORECASE,
)


def as_integer(value: Any) -> int:
    """A whole number, or its digits.

    Raises:
        ValueError: it is none.
    """
    if isinstance(value, str) and _INTEGER.fullmatch(value):
        return int(value)
    if isinstance(value, float) and value.is_integer():
        return int(value)
    if isinstance(value, int) and not isinstance(value, bool):
        return value
    raise PydanticCustomError("type", "must be a whole number")


def as_number(value: Any) -> float:
    """A number, or its digits.

    Raises:
        ValueError: it is none.
    """
    if isinstance(value, str) and _NUMBER.fullmatch(value):
        return float(value)
    if isinstance(value, int | float) and not isinstance(value, bool):
        return value
    raise PydanticCustomError("type", "must be a number")


def as_truth(value: Any) -> bool:
    """Yes or no, as JSON, as 1 or 0, or as text.

    Raises:
        ValueError: it is neither.
    """
    said = value.lower() if isinstance(value, str) else value
    if said in (True, 1, "1", "true"):
        return True
    if said in (False, 0, "0", "false"):
        return False
    raise PydanticCustomError("type", "must be true or false")


def as_instant(value: Any) -> datetime:
    """A time in UTC: ISO 8601 or `Y-m-d H:i:s`, offsets with or without a colon; UTC without one.

    Raises:
        ValueError: it is none, or none that UTC can name.
    """
    found = _INSTANT.fullmatch(value) if isinstance(value, str) else None
    if found is not None:
        offset = (found["offset"] or "Z").upper().replace(" ", "+")
        try:
            text = f"{found['date']}T{found['time'] or '00:00'}{offset}"
            return datetime.fromisoformat(text).astimezone(UTC)
        except (ValueError, OverflowError):
            pass  # no such day or hour, or before the year 1
    message = "must be a time like 2026-05-01T10:00:00+02:00 or 2026-05-01 10:00:00"
    raise PydanticCustomError("time", message)


@dataclass(frozen=True, slots=True)
class OrText:
    """Says in a JSON Schema that a number may also be text of a pattern."""

    pattern: str

    def __get_pydantic_json_schema__(
        self, core: CoreSchema, handler: GetJsonSchemaHandler
    ) -> JsonSchemaValue:
        """Called by pydantic."""
        return {"anyOf": [handler(core), {"type": "string", "pattern": self.pattern}]}


SIGNED = r"^(0|-?[1-9][0-9]{0,8})$"
"""Digits that are within 32 bits, with a sign."""
UNSIGNED = r"^(0|[1-9][0-9]{0,17})$"
"""Digits that are within 63 bits."""

READ_INTEGER = BeforeValidator(as_integer)
READ_NUMBER = BeforeValidator(as_number)
"""For numbers with limits: they come after the limits."""

Integer = Annotated[int, READ_INTEGER]
Truth = Annotated[
    bool,
    BeforeValidator(as_truth),
    WithJsonSchema({"anyOf": [{"type": "boolean"}, {"enum": [0, 1, "0", "1", "true", "false"]}]}),
]
Instant = Annotated[
    datetime, BeforeValidator(as_instant), WithJsonSchema({"type": "string", "format": "date-time"})
]
