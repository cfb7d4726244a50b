"""Selectors of event rules: what of an event becomes the value of an environment key.

`recordid` and the other columns of a change are named alone; `a.b`, `$.a` and `lines[0].price` are
paths into its context; `=text` is that text.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

FIELDS = (
    "inversion", "recordid", "evidence", "operation", "externalids", "created", "source", "target",
    "document_uri", "context",
)  # fmt: skip
"""The columns of a change."""

END_FIELDS = ("recordid", "evidence", "operation", "job_id", "exitcode", "severity", "message")
"""What is known of the end of a job."""

_STEP = re.compile(r"[^.\[\]]+|\[\d+\]")
_PATH = re.compile(r"[^.\[\]]+(\[\d+\])*(\.[^.\[\]]+(\[\d+\])*)*")
MISSING = object()
"""No value; null is one."""


class Unresolved(LookupError):
    """An event lacks what a selector names; the message says what and for which key."""


@dataclass(frozen=True, slots=True)
class Constant:
    """A text that is the same for every event."""

    text: str


@dataclass(frozen=True, slots=True)
class Path:
    """Steps into an event. `rooted`: it began with `$`, so it is no column's name."""

    steps: Sequence[str | int]
    rooted: bool = False


def read_selector(text: str) -> Constant | Path:
    """A selector, understood.

    Raises:
        ValueError: it can't be; the message says why.
    """
    if text.startswith("="):
        return Constant(text[1:])
    rooted = text.startswith("$")
    path = text.removeprefix("$").removeprefix(".")
    if not _PATH.fullmatch(path):
        raise ValueError("must be a field, a path such as lines[0].price, or =text")
    steps = [int(one[1:-1]) if one.startswith("[") else one for one in _STEP.findall(path)]
    return Path(steps, rooted)


def fault_in(text: Any, fields: Sequence[str], *, closed: bool = False) -> str | None:
    """What is wrong with a selector for events with these fields; None: nothing.

    `closed`: paths too begin with one of the fields.
    """
    if not isinstance(text, str):
        return "must be a text"
    try:
        selector = read_selector(text)
    except ValueError as error:
        return str(error)
    if isinstance(selector, Constant):
        return None
    if not closed and (selector.rooted or len(selector.steps) > 1):
        return None
    if selector.steps[0] in fields:
        return None
    return f"no event has the field {selector.steps[0]}; there are {', '.join(fields)}"


def resolve(mapping: Mapping[str, str], data: Mapping[str, Any]) -> dict[str, Any]:
    """Environment key -> value in an event.

    Raises:
        Unresolved: naming every key that has none.
    """
    found = {key: _value(read_selector(selector), data) for key, selector in mapping.items()}
    missing = [f"{key} ({mapping[key]})" for key, value in found.items() if value is MISSING]
    if missing:
        raise Unresolved(f"the event has no value for {', '.join(missing)}")
    return found


def _value(selector: Constant | Path, data: Mapping[str, Any]) -> Any:
    if isinstance(selector, Constant):
        return selector.text
    context = data.get("context")
    places = [context, data] if selector.rooted else [data, context]
    for place in places:
        value = walk(place, selector.steps)
        if value is not MISSING and value is not None:
            return value
    return MISSING


def walk(value: Any, steps: Sequence[str | int]) -> Any:
    """What is found by some steps into a value; `MISSING` where one leads nowhere."""
    for step in steps:
        known = len(value) > step if isinstance(step, int) and isinstance(value, list) else False
        if not known and not (isinstance(value, Mapping) and step in value):
            return MISSING
        value = value[step]
    return value
