"""The upgrade of older definitions to the current schema."""

import copy
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from jobauto_prefect.definitions.findings import child
from jobauto_prefect.definitions.placeholders import LEGACY_PLACEHOLDER, has_value
from jobauto_prefect.definitions.storable import unstorable
from jobauto_prefect.definitions.validation.messages import LEGACY_NAMES
from jobauto_prefect.definitions.validation.report import check
from jobauto_prefect.definitions.validation.schema import SCHEMA_VERSION, schema, version_numbers
from jobauto_prefect.definitions.values import FALSE, TRUE, to_text
from jobauto_prefect.errors import Fault

SAID_TWICE = "said-twice"
"""The rule of findings left to a person even if the document is valid."""

OTHER_CATEGORY = "Other"
"""The fallback category."""

TEXT_LISTS = ("requirements", "tags")

LEFT_OUT_WHEN_EMPTY = ("ociimage", "homepage", "uuid", "version")

MAPS = ("environment", "produces", "consumes", "events", "exitCodes")


@dataclass(frozen=True, slots=True)
class Change:
    """One thing an upgrade did; `pointer` is its place in the upgraded document."""

    pointer: str
    message: str

    def as_dict(self) -> dict[str, str]:
        """Return pointer and message."""
        return {"pointer": self.pointer, "message": self.message}


@dataclass(frozen=True, slots=True)
class Upgrade:
    """An upgraded document.

    `undecided` are what only a person can decide: all remaining errors, and keys that duplicate
    others. The document is valid if none of them is an error.
    """

    document: Any
    changes: tuple[Change, ...]
    undecided: tuple[Fault, ...]


@dataclass(slots=True)
class _Draft:
    """A document being upgraded; `document` is a copy that may be changed."""

    document: dict[str, Any]
    changes: list[Change] = field(default_factory=list)
    undecided: list[Fault] = field(default_factory=list)

    def changed(self, pointer: str, message: str) -> None:
        self.changes.append(Change(pointer, message))

    def entries(self, section: str) -> Iterator[tuple[str, str, dict[str, Any]]]:
        """Yield pointer, key and value of a section's entries that are objects."""
        content = self.document.get(section)
        for key, entry in content.items() if isinstance(content, dict) else ():
            if isinstance(entry, dict):
                yield f"{child('', section)}{child('', key)}", key, entry


def upgrade(document: Any) -> Upgrade:
    """Upgrade a document of an older schema to the current one, without changing `document`."""
    if not isinstance(document, Mapping) or any(unstorable(document)):
        return Upgrade(document, (), check(document).faults)
    work = _Draft(copy.deepcopy(dict(document)))
    for step in STEPS:
        step(work)
    faults = check(work.document).faults
    if not faults:
        stated = work.document.get("schemaVersion")
        numbers = version_numbers(stated) if isinstance(stated, str) else ()
        older = numbers is not None and numbers < (version_numbers(SCHEMA_VERSION) or ())
        if older and (stated is not None or work.changes):
            work.document["schemaVersion"] = SCHEMA_VERSION
            work.changed("/schemaVersion", f"is {SCHEMA_VERSION}")
    return Upgrade(work.document, tuple(work.changes), (*work.undecided, *faults))


def _rename_members(work: _Draft) -> None:
    for old, new in LEGACY_NAMES.items():
        if old not in work.document:
            continue
        if new not in work.document:
            items = [(new if key == old else key, value) for key, value in work.document.items()]
            work.document = dict(items)
            work.changed(child("", new), f"was called {old}")
        elif work.document[old] in ("", None, [], {}, work.document[new]):
            del work.document[old]
            work.changed("", f"left out {old}, which {new} replaces")
        else:
            message = f"{old} and {new} both exist and differ; move what is missing to {new}"
            work.undecided.append(Fault(child("", old), SAID_TWICE, message))


def _state_schema(work: _Draft) -> None:
    if work.document.get("$schema") in (None, ""):
        location = schema()["properties"]["$schema"]["default"]
        work.document = {"$schema": location} | {
            key: value for key, value in work.document.items() if key != "$schema"
        }
        work.changed("/$schema", "added the location of the schema")


def _drop_empty_values(work: _Draft) -> None:
    """Drop nulls, and empty texts that need a format: they mean nothing in older definitions."""
    properties = schema()["properties"]
    required = schema()["required"]
    for member in [key for key in work.document if key in properties and key not in required]:
        value = work.document[member]
        if value is None or (value == "" and member in LEFT_OUT_WHEN_EMPTY):
            del work.document[member]
            work.changed("", f"left out {member}, which was {'empty' if value == '' else 'null'}")


def _empty_lists_to_objects(work: _Draft) -> None:
    for member in MAPS:
        if work.document.get(member) == []:
            work.document[member] = {}
            work.changed(child("", member), "was an empty array, is an empty object")


def _split_lists(work: _Draft) -> None:
    for member in TEXT_LISTS:
        value = work.document.get(member)
        if isinstance(value, str):
            parts = (part.strip() for part in value.split(","))
            work.document[member] = [part for part in parts if part]
            work.changed(child("", member), "was text joined by commas, is an array")


def _version_to_text(work: _Draft) -> None:
    for member in ("version", "schemaVersion"):
        value = work.document.get(member)
        if isinstance(value, int | float) and not isinstance(value, bool):
            work.document[member] = to_text(value)
            work.changed(child("", member), "was a number, is text")


def _variables(work: _Draft) -> None:
    for pointer, _, variable in work.entries("environment"):
        _drop_null_members(work, pointer, variable)
        for name, better in modernize(variable):
            was = to_text(variable[name])
            variable[name] = better
            work.changed(child(pointer, name), f"was {was:.40}, is {to_text(better):.80}")
        category = variable.get("category")
        categories = schema()["definitions"]["variable"]["properties"]["category"]["enum"]
        if isinstance(category, str) and category not in categories:
            variable["category"] = OTHER_CATEGORY
            message = f"was {category:.40}, which is no longer a category; is {OTHER_CATEGORY}"
            work.changed(child(pointer, "category"), message)


def _drop_null_members(work: _Draft, pointer: str, variable: dict[str, Any]) -> None:
    rules = schema()["definitions"]["variable"]["properties"]
    for name in [key for key, value in variable.items() if value is None]:
        if name in rules and name != "defval":
            del variable[name]
            work.changed(pointer, f"left out {name}, which was null")


def _formats(work: _Draft) -> None:
    formats = schema()["definitions"]["format"]["enum"]
    for section in ("produces", "consumes"):
        for pointer, _, entry in work.entries(section):
            if "format" not in entry and entry.get("type") in formats:
                entry["format"] = entry.pop("type")
                work.changed(child(pointer, "format"), "was called type")


def _exit_codes(work: _Draft) -> None:
    """Upgrade entries of `exitcodes`: only a description, as text or texts by language."""
    codes = work.document.get("exitCodes")
    if not isinstance(codes, dict):
        return
    languages = schema()["definitions"]["localized"]["properties"]
    for key, entry in codes.items():
        bare = isinstance(entry, dict) and entry and entry.keys() <= languages.keys()
        if not (bare or isinstance(entry, str)):
            continue
        codes[key] = {"description": entry}
        message = "has its text as description now"
        if key.strip("0") == "":
            codes[key]["severity"] = "success"
            message += ", and the severity success"
        work.changed(f"/exitCodes{child('', key)}", message)


def _placeholders(work: _Draft) -> None:
    _write_placeholders(work, "", work.document, "cmdparamsTemplate")
    artifacts = work.document.get("artifacts")
    for index, artifact in enumerate(artifacts if isinstance(artifacts, list) else ()):
        if isinstance(artifact, dict):
            _write_placeholders(work, f"/artifacts/{index}", artifact, "path")


def _write_placeholders(work: _Draft, pointer: str, holder: dict[str, Any], member: str) -> None:
    template = holder.get(member)
    declared = work.document.get("environment")
    names = declared if isinstance(declared, dict) else {}
    if isinstance(template, str):
        newer = LEGACY_PLACEHOLDER.sub(
            lambda match: f"${match[0]}" if has_value(match[1], names) else match[0], template
        )
        if newer != template:
            holder[member] = newer
            work.changed(child(pointer, member), "writes placeholders as ${VAR}")


STEPS: tuple[Callable[[_Draft], None], ...] = (
    _rename_members,
    _drop_empty_values,
    _state_schema,
    _empty_lists_to_objects,
    _split_lists,
    _version_to_text,
    _variables,
    _formats,
    _exit_codes,
    _placeholders,
)
"""In this order: later steps rely on the new names."""

TYPE_NAMES: Mapping[str, str] = {
    "int": "integer",
    "double": "float",
    "decimal": "float",
    "boolean": "bool",
    "checkbox": "bool",
    "switch": "bool",
    "select": "set",
    "enum": "set",
    "choice": "set",
    "list": "set",
    "file": "file-path",
    "path": "file-path",
    "directory": "file-path",
    "dir": "file-path",
    "folder": "file-path",
    "str": "string",
    "textarea": "text",
    "secret": "password",
    "mail": "email",
    "uri": "url",
    "link": "url",
}
"""Types of older definitions -> their current names; `number` depends on the default."""


def modernize(variable: Mapping[str, Any]) -> list[tuple[str, Any]]:
    """Return keys of a variable with an outdated value, and their current value."""
    return [
        (member, better)
        for member, read in _MEMBERS.items()
        if member in variable
        and (better := read(variable)) is not None
        # False == 0, so equal values of another type must be replaced, too.
        and (better != variable[member] or type(better) is not type(variable[member]))
    ]


def _type(variable: Mapping[str, Any]) -> str | None:
    written = variable["type"]
    if not isinstance(written, str):
        return None
    name = written.strip().lower()
    if name == "number":
        default = to_text(variable.get("defval")).strip()
        return "integer" if re.fullmatch(r"[+-]?[0-9]+", default) else "float"
    return TYPE_NAMES.get(name) or _in_its_case(written, "type")


def _in_its_case(written: Any, member: str) -> str | None:
    choices = schema()["definitions"]["variable"]["properties"][member]["enum"]
    if not isinstance(written, str):
        return None
    return {name.lower(): name for name in choices}.get(written.strip().lower())


def _required(variable: Mapping[str, Any]) -> bool | None:
    word = to_text(variable["required"]).strip().lower()
    return True if word in TRUE else False if word in FALSE else None


def _options(variable: Mapping[str, Any]) -> list[str] | None:
    written = variable["options"]
    if not isinstance(written, str):
        return None
    return [part.strip() for part in written.split(",") if part.strip()]


_MEMBERS: Mapping[str, Callable[[Mapping[str, Any]], Any]] = {
    "type": _type,
    "category": lambda variable: _in_its_case(variable["category"], "category"),
    "required": _required,
    "options": _options,
}
"""Member of a variable -> its proper value; None if unknown."""
