"""What people who write event rules are offered: selectors, a mapping, and whole rules.

Nothing here has any effect; a rule has to be written.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from jobauto_prefect.compiler.consumes import KINDS, Input, inputs, shared, takes_file
from jobauto_prefect.compiler.produced import FORMAT, is_kept
from jobauto_prefect.compiler.selectors import END_FIELDS, FIELDS, FILE
from jobauto_prefect.definitions import Definition, Variable, VariableType, text

FILE_TYPE = "file"
"""Of a selector whose value is the path of a file."""

_NOT_IN_NAMES = re.compile(r"[^a-z0-9]+")

TAKEN: Mapping[VariableType, frozenset[str]] = {
    VariableType.FILE_PATH: frozenset({FILE_TYPE}),
    VariableType.INTEGER: frozenset({"integer"}),
    VariableType.FLOAT: frozenset({"integer", "float"}),
    VariableType.BOOL: frozenset({"boolean"}),
}
"""Which types of selectors fit a variable; others take all but files."""

OPERATIONS: Mapping[str, str] = {
    word: operation
    for operation in ("create", "update", "delete")
    for word in (operation, f"{operation}d")
}
"""The last word of a consumed event's name, where it says what was done."""


@dataclass(frozen=True, slots=True)
class Offered:
    """A selector. `type`: of a field (`string`, `integer`, `float`, `boolean`), the `format` of a
    whole value, or `file`. `name` is what it is called, without the entry it is in.
    """

    selector: str
    type: str
    name: str
    description: str = ""


@dataclass(frozen=True, slots=True)
class Mapped:
    """What a rule may map. `flows` needs no mapping; `selectors` are all that fit, by key."""

    env_mapping: Mapping[str, str] = field(default_factory=dict)
    flows: Mapping[str, str] = field(default_factory=dict)
    selectors: Mapping[str, Sequence[str]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Trigger:
    """An event that an application consumes, as one of a source's changes."""

    evidence: str
    operation: str


def selectors_of(definition: Definition, language: str) -> list[Offered]:
    """What rules can name of the ends of an application's jobs, the most useful first."""
    return [*_of_entries(definition, language), *_of_artifacts(definition, language), *_of_ends()]


def _of_entries(definition: Definition, language: str) -> Iterator[Offered]:
    for name, entry in definition.produces.items():
        about = text(entry.get("description") or "", language)
        for key, said in (entry.get("fields") or {}).items():
            described = text(said.get("description") or "", language)
            yield Offered(f"{name}.{key}", said["type"], key, described)
        yield Offered(name, entry.get("format") or FORMAT, name, about)
        if is_kept(entry):
            yield Offered(FILE + name, FILE_TYPE, name, about)


def _of_artifacts(definition: Definition, language: str) -> Iterator[Offered]:
    for one in definition.artifacts:
        name = text(one.name)
        if name not in definition.produces:
            yield Offered(FILE + name, FILE_TYPE, name, text(one.description, language))


def _of_ends() -> Iterator[Offered]:
    whole = ("recordid", "job_id", "exitcode")
    for name in END_FIELDS:
        yield Offered(name, "integer" if name in whole else "string", name)


def changes() -> list[Offered]:
    """What rules can name of any change; paths into its context are the source's matter."""
    return [Offered(name, "string", name) for name in FIELDS]


def mapped(source: Definition, target: Definition) -> Mapped:
    """How the values of one application's jobs could get to another one."""
    offered = selectors_of(source, "")
    flowing = shared(target.consumes, source.produces)
    ways = list(inputs(target.consumes))
    flows = {way.target: _flow(target, way) for way in ways if way.entry in flowing}
    wanted = {way.target: way for way in ways}
    chosen = {
        key: _best(variable, wanted.get(key), _fitting(variable, offered))
        for key, variable in target.environment.items()
        if key not in flows
    }
    return Mapped(
        {key: one.selector for key, one in chosen.items() if one is not None},
        flows,
        {
            key: [one.selector for one in _fitting(variable, offered)]
            for key, variable in target.environment.items()
        },
    )


def mapped_change(target: Definition) -> dict[str, str]:
    """The environment keys that are called as a column of a change."""
    return {
        key: one.selector
        for key in target.environment
        for one in changes()
        if _plain(one.name) == _plain(key)
    }


def _flow(target: Definition, way: Input) -> str:
    if way.field is not None:
        return f"{way.entry}.{way.field}"
    return (FILE if takes_file(target, way) else "") + way.entry


def _fitting(variable: Variable, offered: Sequence[Offered]) -> list[Offered]:
    if variable.type in TAKEN:
        return [one for one in offered if one.type in TAKEN[variable.type]]
    return [one for one in offered if one.type != FILE_TYPE]


def _best(variable: Variable, way: Input | None, fitting: Sequence[Offered]) -> Offered | None:
    """The one of the key's name, or its input's; for an input else the only one of its kind."""
    produced = [one for one in fitting if one.selector not in END_FIELDS]
    names = {_plain(variable.key), *([_plain(way.field or way.entry)] if way else ())}
    named = next((one for one in produced if _plain(one.name) in names), None)
    if named is not None or way is None:
        return named
    fields = [one for one in produced if ("." in one.selector) == (way.field is not None)]
    if way.format in KINDS:
        fields = [one for one in fields if one.type == way.format]
    return fields[0] if len(fields) == 1 else None


def _plain(name: str) -> str:
    """What `INVOICE_NUMBER`, `invoice-number` and `invoiceNumber` have in common."""
    return _NOT_IN_NAMES.sub("", name.lower())


def trigger_of(name: str, said: Mapping[str, Any]) -> Trigger | None:
    """The changes that a consumed event may stand for; None: no change of a source.

    `evidence` and `operation` of the entry say so, else a name such as `invoice.created`.
    """
    evidence, _, last = name.rpartition(".")
    if isinstance(said.get("evidence"), str) and said["evidence"]:
        operation = said.get("operation")
        known = operation if operation in set(OPERATIONS.values()) else "any"
        return Trigger(said["evidence"], known)
    if last in OPERATIONS and evidence and "." not in evidence:
        return Trigger(evidence, OPERATIONS[last])
    return None
