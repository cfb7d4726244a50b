"""The inputs an application takes from an event, by its `consumes`; a list fans out into jobs."""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from jobauto_prefect.compiler.events.job_outputs import FORMAT, is_kept
from jobauto_prefect.compiler.events.selectors import (
    MISSING,
    FindFile,
    FoundFile,
    UnresolvedSelector,
    follow_steps,
)
from jobauto_prefect.definitions import Definition, Variable, VariableType, coerce, fits, to_text
from jobauto_prefect.definitions.storable import Numeral
from jobauto_prefect.wording import pluralize

KINDS: Mapping[str, VariableType] = {
    "string": VariableType.STRING,
    "integer": VariableType.INTEGER,
    "float": VariableType.FLOAT,
    "boolean": VariableType.BOOL,
}
"""The `format` of a field -> the type of its value."""

WHOLE = re.compile(r"[+-]?[0-9]+")


@dataclass(frozen=True, slots=True)
class Input:
    """One connection from an entry of `consumes` to an environment key.

    `field` None: the whole value. `format` is the field's, None if it has none.
    """

    entry: str
    target: str
    field: str | None = None
    format: str | None = None


def declared_inputs(consumes: Mapping[str, Any]) -> Iterator[Input]:
    """Yield all inputs that `consumes` declares."""
    for name, entry in consumes.items():
        if target := entry.get("target"):
            yield Input(name, target)
        for field, declared in (entry.get("fields") or {}).items():
            yield Input(name, declared["target"], field, declared.get("format"))


def flow_values(
    definition: Definition, produces: Mapping[str, Any], values: Mapping[str, Any], find: FindFile
) -> dict[str, Any]:
    """Return the values that flow without a mapping: environment key -> value or `FoundFile`.

    An entry flows if the job that ended produces one of the same name and format. `values` and
    `find` give access to its products. Missing ones are left out.
    """
    entries = shared_entries(definition.consumes, produces)
    flows = {
        way.target: _value(way, definition, entries[way.entry], values, find)
        for way in declared_inputs(definition.consumes)
        if way.entry in entries
    }
    return {key: value for key, value in flows.items() if value is not MISSING}


def shared_entries(consumes: Mapping[str, Any], produces: Mapping[str, Any]) -> dict[str, Any]:
    """Return the entries of `produces` that are consumed, too: of the same name and format."""
    return {
        name: produces[name]
        for name, entry in consumes.items()
        if name in produces and _format(entry) == _format(produces[name])
    }


def _format(entry: Mapping[str, Any]) -> str:
    return entry.get("format") or FORMAT


def _value(
    way: Input,
    definition: Definition,
    entry: Mapping[str, Any],
    values: Mapping[str, Any],
    find: FindFile,
) -> Any:
    if way.field is not None:
        value = follow_steps(values.get(way.entry), [way.field])
        return MISSING if value is None else value
    if is_kept(entry) and takes_file(definition, way):
        path = find(way.entry)
        return MISSING if path is None else FoundFile(path)
    return follow_steps(values, [way.entry])


def takes_file(definition: Definition, way: Input) -> bool:
    """Whether the key gets the path of a file instead of its content."""
    variable = definition.environment.get(way.target)
    kind = variable.type if variable else None
    return way.field is None and (
        kind is VariableType.FILE_PATH or definition.consumes[way.entry].get("format") == "file"
    )


def inspected_entries(definition: Definition) -> set[str]:
    """Return the entries whose value must be read; other files are passed on unread."""
    ways = declared_inputs(definition.consumes)
    return {way.entry for way in ways if not takes_file(definition, way)}


def check_formats(definition: Definition, given: Mapping[str, Any]) -> None:
    """Check values of environment keys against the format that `consumes` declares for their key.

    Raises:
        UnresolvedSelector: it names every key whose value has another format.
    """
    formats = {way.target: way.format for way in declared_inputs(definition.consumes) if way.format}
    wrong = [
        f"{key} (no {formats[key]})"
        for key, value in given.items()
        if key in formats
        and not isinstance(value, FoundFile)
        and not _reads_as(key, value, formats[key])
    ]
    if wrong:
        raise UnresolvedSelector(f"the event has values of another format for {', '.join(wrong)}")


def _reads_as(key: str, value: Any, kind: str) -> bool:
    """Whether a value, of the type or as text, can be read as a kind."""
    if kind == "integer" and WHOLE.fullmatch(to_text(value)):
        return True  # integers of any size
    if kind == "float" and isinstance(value, Numeral):
        return True  # numbers with any number of digits
    variable = Variable(key, KINDS[kind])
    typed = coerce(variable, value)
    return typed is not None and fits(variable, typed)


MOST_ELEMENTS = 1000
"""Maximum number of jobs that one event may start for one rule."""


def fan_out_key(values: Mapping[str, Any]) -> str | None:
    """Return the environment key whose value is a list; None if there is none.

    Raises:
        UnresolvedSelector: several values are lists, or the list is too long.
    """
    lists = [key for key, value in values.items() if isinstance(value, list)]
    if len(lists) > 1:
        raise UnresolvedSelector(f"a rule fans out over one list; {', '.join(lists)} are lists")
    if lists and len(values[lists[0]]) > MOST_ELEMENTS:
        count = len(values[lists[0]])
        raise UnresolvedSelector(
            f"{lists[0]} has {count} elements; a rule starts {MOST_ELEMENTS} at most"
        )
    return lists[0] if lists else None


def element_of(values: Mapping[str, Any], key: str, element: int) -> dict[str, Any]:
    """Return the values of one job, with one element in place of the list.

    Raises:
        UnresolvedSelector: the list has no such element.
    """
    elements = values[key]
    if element >= len(elements):
        raise UnresolvedSelector(
            f"{key} has {pluralize(len(elements), 'element')}, and no number {element}"
        )
    return {**values, key: elements[element]}
