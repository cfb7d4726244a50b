"""Patterns of texts in pydantic's models, with messages that say what is expected."""

from collections.abc import Mapping
from typing import Any

from pydantic import StringConstraints

_EXPECTED: dict[str, str] = {}  # by pattern

NO_NUL = r"^[^\x00]*$"


def matching(pattern: str, expected: str, **limits: int) -> StringConstraints:
    """Constrain a text to a pattern and to `limits` (`min_length`, `max_length`).

    `expected` is what the message says instead of the pattern, such as `must be a UUID`.
    """
    _EXPECTED[pattern] = expected
    return StringConstraints(pattern=pattern, **limits)  # type: ignore[arg-type] # only lengths


def without_nul(**limits: int) -> StringConstraints:
    """Constrain a text to characters that can be stored, and to `limits`."""
    return matching(NO_NUL, "must not contain NUL characters", **limits)


def error_message(error: Mapping[str, Any]) -> str:
    """Return the message of one of pydantic's errors; a pattern is replaced by what it expects."""
    pattern = error.get("ctx", {}).get("pattern")
    return _EXPECTED.get(pattern) or str(error["msg"])
