"""Names and spellings of older definitions, and what stands for them now."""

import re
from collections.abc import Callable, Mapping
from typing import Any

from jobauto_prefect.definitions.validation.schema import schema
from jobauto_prefect.definitions.values import FALSE, TRUE, to_text

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
"""Types of older definitions, and what they are called now; `number` depends on the default."""


def modernize(variable: Mapping[str, Any]) -> list[tuple[str, Any]]:
    """Return keys of a variable that were written the older way, with their value of today."""
    return [
        (member, better)
        for member, read in _MEMBERS.items()
        if member in variable
        and (better := read(variable)) is not None
        # False == 0, so equal values of another type are to be replaced too.
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
"""What each key of a variable ought to be; None where that is not known."""
