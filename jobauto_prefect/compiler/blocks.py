"""Credential types as Prefect's block types, credentials as their documents; pure."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from jobauto_prefect.compiler.plan import prefect_name
from jobauto_prefect.definitions import Variable, VariableType, coerce, fits, pick_text, to_text
from jobauto_prefect.definitions.records.credentials import is_secret

REFERENCE = "jobauto_credential"
"""The field of every block that links to its record."""

_JSON_TYPES = {
    VariableType.INTEGER: "integer",
    VariableType.FLOAT: "number",
    VariableType.BOOL: "boolean",
}
_FORMATS = {VariableType.URL: "uri", VariableType.EMAIL: "email"}
LONGEST_NAME = 100  # characters, without the suffix that makes it unique
RESERVED = re.compile(r"prefect", re.IGNORECASE)
"""Names reserved for Prefect's own block types; it refuses others that match."""


@dataclass(frozen=True, slots=True)
class BlockTypePlan:
    """A credential type as a block type, with the only schema of its documents."""

    name: str
    slug: str
    description: str | None
    logo_url: str | None
    documentation_url: str | None
    schema: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class BlockPlan:
    """A credential as a block document: its plain values, and a reference."""

    name: str
    data: Mapping[str, Any] = field(repr=False)


@dataclass(frozen=True, slots=True)
class TypeFacts:
    """What Prefect shows of a credential type."""

    type_id: int
    code: str
    name: Any
    description: Any
    logo: str | None
    homepage: str | None
    fields: Sequence[Mapping[str, Any]]
    language: str


def block_type_slug(code: str, type_id: int) -> str:
    """Return the slug of a credential type's block type in Prefect."""
    return f"jobauto-{_slug(code)}-{type_id}"


def block_type_plan(facts: TypeFacts) -> BlockTypePlan:
    """Return the block type of a credential type, without its secret fields."""
    slug = block_type_slug(facts.code, facts.type_id)
    return BlockTypePlan(
        name=_type_name(facts),
        slug=slug,
        description=pick_text(facts.description or "", facts.language) or None,
        logo_url=_address(facts.logo),
        documentation_url=_address(facts.homepage),
        schema=_schema(facts, slug),
    )


def _type_name(facts: TypeFacts) -> str:
    name = prefect_name(pick_text(facts.name, facts.language))[:LONGEST_NAME]
    if RESERVED.match(name):
        name = f"jobauto {name}"
    return f"{name} ({prefect_name(facts.code)})"


def _address(written: str | None) -> str | None:
    return written if written and written.startswith(("https://", "http://", "data:")) else None


def _slug(name: str) -> str:
    """Return lower-case letters, digits and dashes, as Prefect requires in block names."""
    return re.sub(r"[^a-z0-9]+", "-", name.lower()).strip("-") or "x"


def _schema(facts: TypeFacts, slug: str) -> dict[str, Any]:
    shown = [field for field in facts.fields if not is_secret(field)]
    properties = {field["keyword"]: _property(field, facts.language) for field in shown}
    properties[REFERENCE] = {
        "title": "Record",
        "description": "The credential in jobauto. Values are changed there; what is changed "
        "here is put back. Secret values are never here.",
        "type": "string",
        "format": "uri",
    }
    return {
        "title": _type_name(facts),
        "type": "object",
        "properties": properties,
        "required": [],
        "block_type_slug": slug,
        "block_schema_references": {},
        "secret_fields": [],
    }


def _property(field: Mapping[str, Any], language: str) -> dict[str, Any]:
    variable = _variable(field)
    title = pick_text(field.get("name") or "", language) or field["keyword"]
    texts = [pick_text(field.get(member) or "", language) for member in ("description", "hint")]
    content: dict[str, Any] = {"title": title, "type": _JSON_TYPES.get(variable.type, "string")}
    if any(texts):
        content["description"] = "\n\n".join(part for part in texts if part)
    if variable.type in _FORMATS:
        content["format"] = _FORMATS[variable.type]
    options = field.get("options")
    if isinstance(options, list | Mapping) and options and content["type"] == "string":
        content["enum"] = [to_text(option) for option in options]
    default = coerce(variable, field.get("default_value"))
    if default is not None and fits(variable, default):
        content["default"] = default
    return content


def _variable(field: Mapping[str, Any]) -> Variable:
    return Variable(key=field["keyword"], type=VariableType(field.get("type", "string")))


def block_plan(
    credential_id: int,
    company: str,
    name: str,
    fields: Sequence[Mapping[str, Any]],
    values: Mapping[str, str],
    record_url: str,
) -> BlockPlan:
    """Return a credential's document, without those of `values` that are secret now."""
    variables = {field["keyword"]: _variable(field) for field in fields if not is_secret(field)}
    shown = {
        keyword: coerce(variable, values[keyword])
        for keyword, variable in variables.items()
        if keyword in values
    }
    return BlockPlan(
        f"{_slug(company)}-{_slug(name)}-{credential_id}"[-200:].lstrip("-"),
        {key: value for key, value in shown.items() if value is not None} | {REFERENCE: record_url},
    )
