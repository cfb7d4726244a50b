"""Where the values of an event go, as the started application's `consumes` says."""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from jobauto_prefect.compiler.produced import FORMAT, is_kept
from jobauto_prefect.compiler.selectors import MISSING, FindFile, FoundFile, Unresolved, walk
from jobauto_prefect.definitions import Definition, Variable, VariableType, coerce, fits, to_text
from jobauto_prefect.definitions.exact_json import Numeral

KINDS: Mapping[str, VariableType] = {
    "string": VariableType.STRING,
    "integer": VariableType.INTEGER,
    "float": VariableType.FLOAT,
    "boolean": VariableType.BOOL,
}
"""What the `format` of a field makes of a value."""

WHOLE = re.compile(r"[+-]?[0-9]+")


@dataclass(frozen=True, slots=True)
class Input:
    """One way from an entry of `consumes` to an environment key.

    `field` None: the whole value. `format` is the field's, None where it says none.
    """

    entry: str
    target: str
    field: str | None = None
    format: str | None = None


def inputs(consumes: Mapping[str, Any]) -> Iterator[Input]:
    """All ways that `consumes` declares."""
    for name, entry in consumes.items():
        if target := entry.get("target"):
            yield Input(name, target)
        for field, said in (entry.get("fields") or {}).items():
            yield Input(name, said["target"], field, said.get("format"))


def flowing(
    definition: Definition, produces: Mapping[str, Any], values: Mapping[str, Any], find: FindFile
) -> dict[str, Any]:
    """What flows without a mapping: environment key -> value, a `FoundFile` where it is a file.

    An entry flows where the job that ended produces one of the same name and format. `values`
    and `find` are what it produced. What it did not produce is left out.
    """
    entries = shared(definition.consumes, produces)
    flows = {
        one.target: _value(one, definition, entries[one.entry], values, find)
        for one in inputs(definition.consumes)
        if one.entry in entries
    }
    return {key: value for key, value in flows.items() if value is not MISSING}


def shared(consumes: Mapping[str, Any], produces: Mapping[str, Any]) -> dict[str, Any]:
    """The entries of `produces` that are consumed too: of the same name and format."""
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
        found = walk(values.get(way.entry), [way.field])
        return MISSING if found is None else found
    if is_kept(entry) and takes_file(definition, way):
        path = find(way.entry)
        return MISSING if path is None else FoundFile(path)
    return walk(values, [way.entry])


def takes_file(definition: Definition, way: Input) -> bool:
    """Whether the key gets the path of a file instead of what is in it."""
    variable = definition.environment.get(way.target)
    kind = variable.type if variable else None
    return way.field is None and (
        kind is VariableType.FILE_PATH or definition.consumes[way.entry].get("format") == "file"
    )


def read_by(definition: Definition) -> set[str]:
    """The entries whose value is looked into; a file is handed on unread."""
    ways = inputs(definition.consumes)
    return {way.entry for way in ways if not takes_file(definition, way)}


def check_formats(definition: Definition, found: Mapping[str, Any]) -> None:
    """Check values of environment keys against the format that `consumes` declares for their key.

    Raises:
        Unresolved: naming every key whose value is none of its format.
    """
    formats = {way.target: way.format for way in inputs(definition.consumes) if way.format}
    wrong = [
        f"{key} (no {formats[key]})"
        for key, value in found.items()
        if key in formats
        and not isinstance(value, FoundFile)
        and not _reads_as(key, value, formats[key])
    ]
    if wrong:
        raise Unresolved(f"the event has values of another format for {', '.join(wrong)}")


def _reads_as(key: str, value: Any, kind: str) -> bool:
    """Whether a value can be read as a kind, be it a text or a value of that type."""
    if kind == "integer" and WHOLE.fullmatch(to_text(value)):
        return True  # of any size
    if kind == "float" and isinstance(value, Numeral):
        return True  # with any number of digits
    variable = Variable(key, KINDS[kind])
    typed = coerce(variable, value)
    return typed is not None and fits(variable, typed)
