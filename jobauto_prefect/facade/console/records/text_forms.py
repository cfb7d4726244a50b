"""Values that are no texts, as a control's text: lines, names with values, numbers."""

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from math import isfinite
from typing import Any


@dataclass(frozen=True, slots=True)
class TextForm:
    """How a control writes a value, and reads it: `read` raises ValueError that says what is wrong.

    None is written as an empty text; an empty text is not read.
    """

    write: Callable[[Any], str]
    read: Callable[[str], Any]


def lines_of(text: str) -> list[str]:
    """Return the lines of a text that say something."""
    return [line.strip() for line in text.splitlines() if line.strip()]


def _write_lines(values: Sequence[str]) -> str:
    return "\n".join(values)


def _write_assignments(values: Mapping[str, str]) -> str:
    return "\n".join(f"{name}={value}" for name, value in values.items())


def _read_assignments(text: str) -> dict[str, str]:
    values: dict[str, str] = {}
    for line in lines_of(text):
        name, sign, value = (part.strip() for part in line.partition("="))
        if not sign or not name:
            raise ValueError(f"write name=value instead of {line!r}")
        if name in values:
            raise ValueError(f"{name} is there twice")
        values[name] = value
    return values


def _read_number(text: str) -> Any:
    """Return the number, or the text as it is: the contract says what is wrong with it."""
    try:
        number = json.loads(text)
    except ValueError:
        return text
    is_number = isinstance(number, int | float) and not isinstance(number, bool)
    return number if is_number and isfinite(number) else text


LINES = TextForm(_write_lines, lines_of)
"""A list of texts, each on its line."""

ASSIGNMENTS = TextForm(_write_assignments, _read_assignments)
"""Texts by their names: `name=value`, each on its line."""

NUMBER = TextForm(str, _read_number)
"""A number, where a body takes no text instead."""
