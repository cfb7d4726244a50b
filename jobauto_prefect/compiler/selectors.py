"""Selectors of event rules: what of an event becomes the value of an environment key.

`recordid` and the other columns of a change are named alone; `a.b`, `$.a` and `lines[0].price` are
paths into its context; `@file:NAME` is a file of the job that ended; `=text` is that text.
"""

import re
from collections.abc import Callable, Collection, Mapping, Sequence
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

FILE = "@file:"


class Unresolved(LookupError):
    """An event lacks what a selector names; the message says what and for which key."""


@dataclass(frozen=True, slots=True)
class Constant:
    """A text that is the same for every event."""

    text: str


@dataclass(frozen=True, slots=True)
class File:
    """A file of the job that ended, by a name it is known by."""

    name: str


@dataclass(frozen=True, slots=True)
class FoundFile:
    """The value of a key that names a file: the artifact's path in the job that left it."""

    path: str


@dataclass(frozen=True, slots=True)
class Path:
    """Steps into an event. `rooted`: it began with `$`, so it is no column's name."""

    steps: Sequence[str | int]
    rooted: bool = False


Selector = Constant | File | Path

FindFile = Callable[[str], str | None]
"""From a name in `@file:NAME` to the path of an artifact; None: there is no such file."""


def no_file(_name: str) -> str | None:
    """A change has no files."""
    return None


def read_selector(text: str) -> Selector:
    """A selector, understood.

    Raises:
        ValueError: it can't be; the message says why.
    """
    if text.startswith("="):
        return Constant(text[1:])
    if text.startswith(FILE):
        return File(text.removeprefix(FILE))
    rooted = text.startswith("$")
    path = text.removeprefix("$").removeprefix(".")
    if not _PATH.fullmatch(path):
        raise ValueError("must be a field, a path such as lines[0].price, @file:NAME, or =text")
    steps = [int(one[1:-1]) if one.startswith("[") else one for one in _STEP.findall(path)]
    return Path(steps, rooted)


@dataclass(frozen=True, slots=True)
class Offer:
    """What selectors of a rule can name.

    `closed`: paths too begin with one of the fields. `files` are the names after `@file:`, and
    `is_file` says of another name whether it may be a file's.
    """

    fields: Sequence[str]
    closed: bool = False
    files: Collection[str] = ()
    is_file: Callable[[str], bool] = lambda _name: False


def named_in(mapping: Mapping[str, str]) -> set[str]:
    """What the paths of a mapping begin with: the fields that are looked into."""
    read = [read_selector(text) for text in mapping.values()]
    return {str(one.steps[0]) for one in read if isinstance(one, Path)}


def fault_in(text: Any, offer: Offer) -> str | None:
    """What is wrong with a selector for events that offer this; None: nothing."""
    if not isinstance(text, str):
        return "must be a text"
    try:
        selector = read_selector(text)
    except ValueError as error:
        return str(error)
    if isinstance(selector, File):
        return _file_fault(selector, offer)
    return _path_fault(selector, offer) if isinstance(selector, Path) else None


def _path_fault(selector: Path, offer: Offer) -> str | None:
    anywhere = not offer.closed and (selector.rooted or len(selector.steps) > 1)
    if anywhere or selector.steps[0] in offer.fields:
        return None
    return f"no event has the field {selector.steps[0]}; there are {', '.join(offer.fields)}"


def _file_fault(selector: File, offer: Offer) -> str | None:
    if selector.name in offer.files or offer.is_file(selector.name):
        return None
    known = f"there are {', '.join(offer.files)}" if offer.files else "there is none"
    return f"no event has the file {selector.name}; {known}"


def resolve(
    mapping: Mapping[str, str], data: Mapping[str, Any], find_file: FindFile = no_file
) -> dict[str, Any]:
    """Environment key -> value in an event, a `FoundFile` where it is a file.

    Raises:
        Unresolved: naming every key that has none.
    """
    found = {
        key: _value(read_selector(selector), data, find_file) for key, selector in mapping.items()
    }
    missing = [f"{key} ({mapping[key]})" for key, value in found.items() if value is MISSING]
    if missing:
        raise Unresolved(f"the event has no value for {', '.join(missing)}")
    return found


def _value(selector: Selector, data: Mapping[str, Any], find_file: FindFile) -> Any:
    if isinstance(selector, Constant):
        return selector.text
    if isinstance(selector, File):
        path = find_file(selector.name)
        return MISSING if path is None else FoundFile(path)
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
