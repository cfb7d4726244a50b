"""Suggestions for authors of event rules: selectors, mappings and whole rules.

They have no effect until somebody writes a rule.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from jobauto_prefect.compiler.events.event_inputs import (
    KINDS,
    Input,
    declared_inputs,
    shared_entries,
    takes_file,
)
from jobauto_prefect.compiler.events.job_outputs import FORMAT, is_kept
from jobauto_prefect.compiler.events.selectors import END_FIELDS, FIELDS, FILE
from jobauto_prefect.definitions import Definition, Variable, VariableType, pick_text

FILE_TYPE = "file"
"""The type of a selector whose value is the path of a file."""

_NOT_IN_NAMES = re.compile(r"[^a-z0-9]+")

FITTING_TYPES: Mapping[VariableType, frozenset[str]] = {
    VariableType.FILE_PATH: frozenset({FILE_TYPE}),
    VariableType.INTEGER: frozenset({"integer"}),
    VariableType.FLOAT: frozenset({"integer", "float"}),
    VariableType.BOOL: frozenset({"boolean"}),
}
"""Types of selectors that fit a variable; other variables accept all but files."""

OPERATIONS: Mapping[str, str] = {
    word: operation
    for operation in ("create", "update", "delete")
    for word in (operation, f"{operation}d")
}
"""Last word of a consumed event's name -> operation."""


@dataclass(frozen=True, slots=True)
class Suggestion:
    """A selector with its type and name.

    `type`: that of a field (`string`, `integer`, `float`, `boolean`), the `format` of a whole
    value, or `file`. `name` is its own, without the entry it is in.
    """

    selector: str
    type: str
    name: str
    description: str = ""


@dataclass(frozen=True, slots=True)
class SuggestedMapping:
    """What a rule may map. `flows` need no mapping; `selectors` are all that fit, by key."""

    env_mapping: Mapping[str, str] = field(default_factory=dict)
    flows: Mapping[str, str] = field(default_factory=dict)
    selectors: Mapping[str, Sequence[str]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Trigger:
    """An event that an application consumes, as one of a source's changes."""

    evidence: str
    operation: str


def suggest_selectors(definition: Definition, language: str) -> list[Suggestion]:
    """Return what rules can select from the ends of an application's jobs, most useful first."""
    offered = []
    for name, entry in definition.produces.items():
        about = pick_text(entry.get("description") or "", language)
        for key, declared in (entry.get("fields") or {}).items():
            described = pick_text(declared.get("description") or "", language)
            offered.append(Suggestion(f"{name}.{key}", declared["type"], key, described))
        offered.append(Suggestion(name, entry.get("format") or FORMAT, name, about))
        if is_kept(entry):
            offered.append(Suggestion(FILE + name, FILE_TYPE, name, about))
    for artifact in definition.artifacts:
        name = pick_text(artifact.name)
        if name not in definition.produces:
            about = pick_text(artifact.description, language)
            offered.append(Suggestion(FILE + name, FILE_TYPE, name, about))
    whole = ("recordid", "job_id", "exitcode")
    return offered + [
        Suggestion(name, "integer" if name in whole else "string", name) for name in END_FIELDS
    ]


def change_selectors() -> list[Suggestion]:
    """Return what rules can select from any change; paths into its context depend on the source."""
    return [Suggestion(name, "string", name) for name in FIELDS]


def suggest_mapping(source: Definition, target: Definition) -> SuggestedMapping:
    """Suggest how values of one application's jobs reach another application."""
    offered = suggest_selectors(source, "")
    flowing = shared_entries(target.consumes, source.produces)
    ways = list(declared_inputs(target.consumes))
    flows = {way.target: _flow(target, way) for way in ways if way.entry in flowing}
    wanted = {way.target: way for way in ways}
    chosen = {
        key: _best(variable, wanted.get(key), _fitting(variable, offered))
        for key, variable in target.environment.items()
        if key not in flows
    }
    return SuggestedMapping(
        {key: suggestion.selector for key, suggestion in chosen.items() if suggestion is not None},
        flows,
        {
            key: [suggestion.selector for suggestion in _fitting(variable, offered)]
            for key, variable in target.environment.items()
        },
    )


def suggest_change_mapping(target: Definition) -> dict[str, str]:
    """Suggest a mapping for environment keys named like columns of a change."""
    return {
        key: suggestion.selector
        for key in target.environment
        for suggestion in change_selectors()
        if _plain(suggestion.name) == _plain(key)
    }


def _flow(target: Definition, way: Input) -> str:
    if way.field is not None:
        return f"{way.entry}.{way.field}"
    return (FILE if takes_file(target, way) else "") + way.entry


def _fitting(variable: Variable, offered: Sequence[Suggestion]) -> list[Suggestion]:
    if variable.type in FITTING_TYPES:
        return [
            suggestion for suggestion in offered if suggestion.type in FITTING_TYPES[variable.type]
        ]
    return [suggestion for suggestion in offered if suggestion.type != FILE_TYPE]


def _best(
    variable: Variable, way: Input | None, fitting: Sequence[Suggestion]
) -> Suggestion | None:
    """Choose the suggestion named like the key or its input, else the only one of its type.

    None: there is no such suggestion.
    """
    produced = [suggestion for suggestion in fitting if suggestion.selector not in END_FIELDS]
    names = {_plain(variable.key), *([_plain(way.field or way.entry)] if way else ())}
    named = next((suggestion for suggestion in produced if _plain(suggestion.name) in names), None)
    if named is not None or way is None:
        return named
    fields = [
        suggestion
        for suggestion in produced
        if ("." in suggestion.selector) == (way.field is not None)
    ]
    if way.format in KINDS:
        fields = [suggestion for suggestion in fields if suggestion.type == way.format]
    return fields[0] if len(fields) == 1 else None


def _plain(name: str) -> str:
    """Normalize a name: `INVOICE_NUMBER`, `invoice-number`, `invoiceNumber` become the same."""
    return _NOT_IN_NAMES.sub("", name.lower())


def parse_trigger(name: str, entry: Mapping[str, Any]) -> Trigger | None:
    """Return the changes that a consumed event may mean; None: it is no change of a source.

    They follow from the entry's `evidence` and `operation`, else from a name like
    `invoice.created`.
    """
    evidence, _, last = name.rpartition(".")
    if isinstance(entry.get("evidence"), str) and entry["evidence"]:
        operation = entry.get("operation")
        kind = operation if operation in set(OPERATIONS.values()) else "any"
        return Trigger(entry["evidence"], kind)
    if last in OPERATIONS and evidence and "." not in evidence:
        return Trigger(evidence, OPERATIONS[last])
    return None
