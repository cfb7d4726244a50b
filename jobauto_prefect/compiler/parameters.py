"""The environment of a definition as the parameters of its Prefect flow.

Prefect stores the schema as `parameter_openapi_schema`, checks runs against it and builds the run
form from it.
"""

import re
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from jobauto_prefect.definitions import (
    Definition,
    Variable,
    VariableType,
    coerce,
    default_value,
    fits,
    pick_text,
)
from jobauto_prefect.definitions.storable import is_storable

ROOM = 50_000
"""Characters of its own values that a run shows: Prefect accepts 512 KiB of parameters in all."""

REFERENCES = "jobauto"
"""The last parameter of every flow: references (ids only) that the service passes on.

It is in no schema, so no form shows it; Prefect accepts parameters that a schema does not name.
"""

LONGEST_TITLE = 80
"""Characters of a title in a form."""

_TYPES: Mapping[VariableType, str] = {
    VariableType.INTEGER: "integer",
    VariableType.FLOAT: "number",
    VariableType.BOOL: "boolean",
}
"""JSON types of the variable types that are not text."""

_FORMATS: Mapping[VariableType, str] = {
    VariableType.EMAIL: "email",
    VariableType.URL: "uri",
    VariableType.FILE_PATH: "file-path",
}
"""Hints for forms, named as in pydantic."""

TITLES = {
    "integer": "whole number",
    "number": "number",
    "boolean": "yes or no",
    "string": "text",
}
"""Labels of the buttons that choose between the types of a value."""

_SENTENCE_END = re.compile(r"\n|(?<=\w\w)\.\s+(?=(\w))")

# pydantic refuses a leading underscore, Python a leading digit.
_NAMEABLE = re.compile(r"[A-Z][A-Z0-9_]*")


@dataclass(frozen=True, slots=True)
class ParameterSchema:
    """The parameters of one flow.

    `parameter_keys` maps parameter names to environment keys, in the definition's order. `defaults`
    has the converted default of each parameter that has one: Prefect refuses null in a deployment's
    parameters, although it accepts it in a run's.
    """

    schema: Mapping[str, Any]
    parameter_keys: Mapping[str, str]
    defaults: Mapping[str, Any]

    def accepts(self, name: str, value: Any) -> bool:
        """Whether Prefect accepts this value among the parameters of a deployment."""
        from jsonschema import Draft202012Validator

        return Draft202012Validator(self.schema["properties"][name]).is_valid(value)


def parameters(definition: Definition, language: str = "en") -> ParameterSchema:
    """Return one parameter per environment key that is not a password.

    The definition's own defaults always fit. In a run, Prefect accepts null for an optional
    parameter without a default in its schema; so only required ones have one there. Forms show the
    deployment's values, and omit fields left empty.
    """
    variables = {
        parameter_name(key): variable
        for key, variable in definition.environment.items()
        if not variable.secret
    }
    defaults = {name: default_value(variable) for name, variable in variables.items()}
    titles = _titles(variables, language)
    properties = {
        name: _property(variable, titles[name], language, position)
        for position, (name, variable) in enumerate(variables.items())
    }
    return ParameterSchema(
        schema={
            "title": "Parameters",
            "type": "object",
            "properties": properties,
            "required": [name for name, variable in variables.items() if variable.required],
            "definitions": {},
        },
        parameter_keys={name: variable.key for name, variable in variables.items()},
        defaults={name: value for name, value in defaults.items() if value is not None},
    )


def override_parameters(
    definition: Definition, overrides: Mapping[str, str]
) -> dict[str, str | int | float | bool]:
    """Return a run's own values as parameters, converted to their type if possible.

    Only declared ones without passwords, and nothing that Prefect can't store.
    """
    shown, room = {}, ROOM
    for key, variable in definition.environment.items():
        given = overrides.get(key)
        if given is None or variable.secret or len(given) > room or not is_storable(given):
            continue
        room -= len(given)
        value = coerce(variable, given)
        shown[parameter_name(key)] = "" if value is None else value
    return shown


def parameter_name(key: str) -> str:
    """Return the key, or `p_` and the key if it is no valid name of a parameter."""
    return key if _NAMEABLE.fullmatch(key) else f"p_{key}"


def _titles(variables: Mapping[str, Variable], language: str) -> dict[str, str]:
    """Return the title of each parameter in forms; equal titles are followed by their keys."""
    titles = {
        name: split_description(variable, language)[0] for name, variable in variables.items()
    }
    counted = Counter(titles.values())
    return {
        name: title if counted[title] == 1 else f"{title} ({variables[name].key})"
        for name, title in titles.items()
    }


def split_description(variable: Variable, *languages: str) -> tuple[str, str]:
    """Return the title (first sentence of the description or the key's words), and the rest."""
    description = pick_text(variable.description, *languages).strip()
    first, rest = _first_sentence(description)
    title = first.rstrip(".: ")
    if not title or len(title) > LONGEST_TITLE:
        return variable.key.replace("_", " ").strip().capitalize() or variable.key, description
    return title[0].upper() + title[1:], rest


def _first_sentence(text: str) -> tuple[str, str]:
    """Return the first sentence and what follows it.

    The point of an abbreviation, as in `(e.g. Inbox)`, does not end it.
    """
    for end in _SENTENCE_END.finditer(text):
        first, next_letter = text[: end.start()], end[1]
        if next_letter is None or (next_letter.isupper() and first.count("(") == first.count(")")):
            return first, text[end.end() :].strip()
    return text, ""


def _property(variable: Variable, title: str, language: str, position: int) -> dict[str, Any]:
    default = default_value(variable)
    content: dict[str, Any] = {"title": title, "description": _description(variable, language)}
    content |= _shape(variable, default)
    if default is not None and variable.required:
        content["default"] = default
    return content | {"position": position}


def _description(variable: Variable, language: str) -> str:
    """Return the rest of the description, hint, labels of choices and key, as paragraphs."""
    labels = [(option.value, pick_text(option.label, language)) for option in variable.options]
    choices = "; ".join(f"{value}: {label}" for value, label in labels if label and label != value)
    parts = [split_description(variable, language)[1], pick_text(variable.hint, language), choices]
    return "\n\n".join(part for part in (*parts, f"`{variable.key}`") if part)


def _shape(variable: Variable, default: Any) -> dict[str, Any]:
    choices = _choices(variable, default)
    shapes = _enumerations(choices) if choices else _types(variable, default)
    if len(shapes) > 1:
        return {"anyOf": [{"title": TITLES[shape["type"]], **shape} for shape in shapes]}
    (shape,) = shapes
    if choices and not variable.required:
        shape["enum"] = [*choices, None]  # forms do not show null, but a run may have it
    return shape


def _choices(variable: Variable, default: Any) -> list[Any]:
    """Return the values to choose from, including the default; empty if any value will do."""
    if variable.type is VariableType.BOOL or not variable.options:
        return []
    offered = [coerce(variable, option.value) for option in variable.options]
    values = [value for value in dict.fromkeys([*offered, default]) if value is not None]
    return values if any(value is not None for value in offered) else []


def _enumerations(choices: list[Any]) -> list[dict[str, Any]]:
    """Return a list of choices for each JSON type among them: a form can't show mixed ones."""
    by_type: dict[str, list[Any]] = {}
    for value in choices:
        by_type.setdefault(_JSON_TYPES[type(value)], []).append(value)
    return [{"type": kind, "enum": values} for kind, values in by_type.items()]


_JSON_TYPES = {int: "integer", float: "number", str: "string", bool: "boolean"}


def _types(variable: Variable, default: Any) -> list[dict[str, Any]]:
    kind = _TYPES.get(variable.type, "string")
    if not fits(variable, default):
        # A default that is not a number stays text; a format must not refuse it either.
        return [{"type": name} for name in dict.fromkeys([kind, "string"])]
    shape = {"type": kind}
    if variable.type in _FORMATS:
        shape["format"] = _FORMATS[variable.type]
    return [shape]
