"""Selectors of event rules: which part of an event gives an environment key its value.

`recordid` and the other columns of a change are plain names; `a.b` and `lines[0].price` are paths
into its context, and a selector that begins with `$` is a JSONPath (RFC 9535) there; `@file:NAME`
is a file of the job that ended; `=text` is that text.
"""

import re
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from jobauto_prefect.definitions.validation.json_paths import JsonPath, read_json_path

FIELDS = (
    "inversion", "recordid", "evidence", "operation", "externalids", "created", "source", "target",
    "document_uri", "context",
)  # fmt: skip
"""The columns of a change."""

END_FIELDS = ("recordid", "evidence", "operation", "job_id", "exitcode", "severity", "message")
"""The fields of a job's end."""

_STEP = re.compile(r"[^.\[\]]+|\[\d+\]")
_PATH = re.compile(r"[^.\[\]]+(\[\d+\])*(\.[^.\[\]]+(\[\d+\])*)*")
MISSING = object()
"""Marks the absence of a value, as distinct from null."""

FILE = "@file:"


class UnresolvedSelector(LookupError):
    """An event lacks what a selector names; the message says what, and for which key."""


@dataclass(frozen=True, slots=True)
class Constant:
    """A text that is the same for every event."""

    text: str


@dataclass(frozen=True, slots=True)
class File:
    """A file of the job that ended, by one of its names."""

    name: str


@dataclass(frozen=True, slots=True)
class FoundFile:
    """The value of a key that names a file: the artifact's path in the job that produced it."""

    path: str


@dataclass(frozen=True, slots=True)
class Unusable:
    """A product of a job that can't be passed on."""

    reason: str


@dataclass(frozen=True, slots=True)
class Path:
    """Steps into an event."""

    steps: Sequence[str | int]


Selector = Constant | File | Path | JsonPath


@dataclass(frozen=True, slots=True)
class Produced:
    """The value of an entry of `produces`, and what its fields name in it."""

    value: Any
    fields: Mapping[str, Any]


FindFile = Callable[[str], str | None]
"""Name in `@file:NAME` -> path of an artifact; None: there is no such file."""


def no_file(_name: str) -> str | None:
    """Return None: a change has no files."""
    return None


def read_selector(text: str) -> Selector:
    """Parse a selector.

    Raises:
        ValueError: it is malformed; the message says why.
    """
    if text.startswith("="):
        return Constant(text[1:])
    if text.startswith(FILE):
        return File(text.removeprefix(FILE))
    if text.startswith("$"):
        return read_json_path(text)
    if not _PATH.fullmatch(text):
        raise ValueError(
            "must be a field, a path such as lines[0].price, a JSONPath such as $.lines[*].id, "
            "@file:NAME, or =text"
        )
    steps = [int(step[1:-1]) if step.startswith("[") else step for step in _STEP.findall(text)]
    return Path(steps)


@dataclass(frozen=True, slots=True)
class SelectorScope:
    """What selectors of a rule can name.

    `closed`: paths, too, begin with one of the fields. `files` are the names after `@file:`, and
    `is_file` decides whether another name may be a file's.
    """

    fields: Sequence[str]
    closed: bool = False
    files: Collection[str] = ()
    is_file: Callable[[str], bool] = lambda _name: False


def root_fields(mapping: Mapping[str, str]) -> set[str] | None:
    """Return the fields a mapping's paths begin with; None if they may be any."""
    read = [read_selector(text) for text in mapping.values()]
    roots = [selector.first for selector in read if isinstance(selector, JsonPath)]
    if None in roots:
        return None
    steps = [str(selector.steps[0]) for selector in read if isinstance(selector, Path)]
    return {*steps, *(root for root in roots if root is not None)}


def selector_fault(text: Any, scope: SelectorScope) -> str | None:
    """Return what is wrong with a selector in this scope; None if it is valid."""
    if not isinstance(text, str):
        return "must be a text"
    try:
        selector = read_selector(text)
    except ValueError as error:
        return str(error)
    if isinstance(selector, File):
        return _file_fault(selector, scope)
    if isinstance(selector, JsonPath):
        anywhere = not scope.closed or selector.first is None
        return None if anywhere else _field_fault(selector.first, scope)
    if isinstance(selector, Path):
        anywhere = not scope.closed and len(selector.steps) > 1
        return None if anywhere else _field_fault(selector.steps[0], scope)
    return None


def _field_fault(name: str | int | None, scope: SelectorScope) -> str | None:
    if name in scope.fields:
        return None
    hint = "" if scope.closed else f"; a key of its context is $.{name}"
    return f"no event has the field {name}; there are {', '.join(scope.fields)}{hint}"


def _file_fault(selector: File, scope: SelectorScope) -> str | None:
    if selector.name in scope.files or scope.is_file(selector.name):
        return None
    hint = f"there are {', '.join(scope.files)}" if scope.files else "there is none"
    return f"no event has the file {selector.name}; {hint}"


def resolve(
    mapping: Mapping[str, str], data: Mapping[str, Any], find_file: FindFile = no_file
) -> dict[str, Any]:
    """Return environment key -> value in an event, or `FoundFile` for a file.

    Raises:
        UnresolvedSelector: it names every key without a value.
    """
    values = {
        key: _value(read_selector(selector), data, find_file) for key, selector in mapping.items()
    }
    missing = [f"{key} ({mapping[key]})" for key, value in values.items() if value is MISSING]
    if missing:
        raise UnresolvedSelector(f"the event has no value for {', '.join(missing)}")
    return values


def _value(selector: Selector, data: Mapping[str, Any], find_file: FindFile) -> Any:
    if isinstance(selector, Constant):
        return selector.text
    if isinstance(selector, File):
        path = find_file(selector.name)
        return MISSING if path is None else FoundFile(path)
    context = data.get("context")
    if isinstance(selector, JsonPath):
        bare = {
            name: value.value if isinstance(value, Produced) else value
            for name, value in data.items()
        }
        places = (context, bare, _with_fields(data))
        found = [search_json_path(place, selector) for place in places]
        values = iter(sorted(found, key=lambda value: value == []))  # empty lists last
    else:
        values = (follow_steps(place, selector.steps) for place in (data, context))
    return next((value for value in values if value is not MISSING and value is not None), MISSING)


def _with_fields(data: Mapping[str, Any]) -> dict[str, Any]:
    """Return data with an entry's fields as keys of its value, for `$.invoices.customer_id`."""
    members = {name: value for name, value in data.items() if isinstance(value, Produced)}
    return {
        name: {**(entry.value if isinstance(entry.value, Mapping) else {}), **entry.fields}
        for name, entry in members.items()
    }


def search_json_path(place: Any, path: JsonPath) -> Any:
    """Search by a JSONPath: a list if it may find several values, `MISSING` for none.

    If it selects among elements and none qualifies, the list is empty.
    """
    values = path.find(place)
    if not values:
        return [] if path.chooses_none(place) else MISSING
    return values[0] if path.single else values


def follow_steps(value: Any, steps: Sequence[str | int]) -> Any:
    """Follow steps into a value; `MISSING` if one leads nowhere."""
    for step in steps:
        value = _step(value, step)
    return value.value if isinstance(value, Produced) else value


def _step(value: Any, step: str | int) -> Any:
    if isinstance(value, Produced):
        known = isinstance(step, str) and step in value.fields
        return value.fields[str(step)] if known else _step(value.value, step)
    if isinstance(value, list):
        return value[step] if isinstance(step, int) and step < len(value) else MISSING
    return value[step] if isinstance(value, Mapping) and step in value else MISSING
