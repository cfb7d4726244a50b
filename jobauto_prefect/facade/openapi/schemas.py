"""`components/schemas`: records, bodies, and the application definition."""

import json
import re
from collections.abc import Iterable, Mapping
from functools import cache
from importlib import resources
from typing import Any

from fastapi.routing import APIRoute
from pydantic import BaseModel, TypeAdapter
from pydantic.json_schema import GenerateJsonSchema

from jobauto_prefect.definitions import schema as definition_schema
from jobauto_prefect.facade.answers import Error
from jobauto_prefect.facade.http.operations import SCHEMAS
from jobauto_prefect.facade.http.parameters import Json
from jobauto_prefect.facade.kinds.registry import RESOURCES
from jobauto_prefect.facade.writes.base import NEVER_NULL
from jobauto_prefect.kinds import KINDS
from jobauto_prefect.ledger.base import BIGGEST_ID

BODIES: Mapping[str, str] = {
    resource.kind.item: resource.body.__name__ for resource in RESOURCES if resource.body
}
"""Kind -> name of the schema of its body."""

KEY: Json = {
    "description": "The record to update; without it, the natural key identifies the record.",
    "anyOf": [
        {"type": "integer", "minimum": 1, "maximum": BIGGEST_ID},
        {"type": "string", "pattern": "^[1-9][0-9]{0,17}$"},
    ],
}


KEY_OR_NAME: Json = {**KEY, "anyOf": [*KEY["anyOf"], {"type": "string", "pattern": "[^0-9]"}]}
_LOCAL = re.compile(r'"#/definitions/(\w+)"')


def reference(name: str) -> Json:
    """Return a reference to a schema."""
    return {"$ref": SCHEMAS + name}


@cache
def load_examples() -> dict[str, Any]:
    """Load the examples of records and bodies, by schema; callers must not modify them."""
    text = (resources.files(__package__) / "examples.json").read_text("utf-8")
    examples: dict[str, Any] = json.loads(text)
    return examples


class _SchemaGenerator(GenerateJsonSchema):
    """Omits titles, which repeat the names; allows no keys beside those with a pattern."""

    def dict_schema(self, schema: Any) -> Json:
        made = super().dict_schema(schema)
        if "patternProperties" in made:
            made["additionalProperties"] = False
        return made

    def field_title_should_be_set(self, schema: Any) -> bool:  # noqa: ARG002
        return False


def component_schemas(routes: Iterable[APIRoute], bodies: Iterable[type[BaseModel]]) -> Json:
    """Return the schemas of answers and bodies, by name."""
    answered: dict[Any, None] = {
        field.field_info.annotation: None
        for route in routes
        for field in route.response_fields.values()
    }
    inputs: list[Any] = [(each, "validation", TypeAdapter(each)) for each in dict.fromkeys(bodies)]
    inputs += [(each, "serialization", TypeAdapter(each)) for each in (*answered, Error)]
    _, generated = TypeAdapter.json_schemas(
        inputs, ref_template=f"{SCHEMAS}{{model}}", schema_generator=_SchemaGenerator
    )
    made: Json = {**generated["$defs"], **_definition_schemas()}
    required = {"type": "object", "required": definition_schema()["required"]}
    made["Application"]["allOf"] = [reference("DefinitionMembers"), required]
    body = made["ApplicationBody"]
    # Client generators take the only part of an allOf for the whole.
    body["allOf"] = [reference("DefinitionMembers"), {"type": "object"}]
    del body["additionalProperties"], body["properties"]["company"]
    for item, name in BODIES.items():
        key = KEY_OR_NAME if KINDS[item].named else KEY
        made[name]["properties"] |= {"id": key, f"{item}_id": key}
    for resource in RESOURCES:
        if resource.change is not None:
            change = resource.change(made[BODIES[resource.kind.item]])
            made[f"{resource.answer.__name__}Change"] = change
    for name, schema in made.items():
        _tidy(name, schema)
    for name, example in load_examples().items():
        made[name]["examples"] = [example]
    return dict(sorted(made.items()))


def _tidy(name: str, schema: Json) -> None:
    """Remove redundant keywords."""
    if name.startswith("Definition"):
        return
    schema.pop("title", None)
    for field, value in schema.get("properties", {}).items():
        value.pop("title", None)  # a label of pages
        if "$ref" not in value and "default" in value and value["default"] is None:
            del value["default"]
        if name in BODIES.values() and field in NEVER_NULL:
            value["anyOf"] = [each for each in value["anyOf"] if each != {"type": "null"}]


def _definition_schemas() -> Json:
    """Return the schemas of the definition's parts, and of its members without `required`."""
    text = json.dumps(definition_schema())
    definition: Json = json.loads(
        _LOCAL.sub(lambda match: f'"{SCHEMAS}{_part_name(match[1])}"', text)
    )
    parts = definition.pop("definitions")
    for keyword in ("$schema", "required", "title"):
        del definition[keyword]
    # Client generators make a class only of a schema that is nothing but an object.
    texts = parts["localized"]
    parts["localized"] = {
        **{word: texts.pop(word) for word in ("title", "description")},
        "anyOf": [{"type": "string"}, {**texts, "type": "object"}],
    }
    named = {_part_name(name): part for name, part in parts.items()}
    # Client generators name an object after its place, and these occur in several.
    for name, member in definition["properties"].items():
        if member.get("type") == "object":
            named[_part_name(name)] = member
            definition["properties"][name] = reference(_part_name(name))
    return {"DefinitionMembers": definition, **named}


def _part_name(name: str) -> str:
    return f"Definition{name[:1].upper()}{name[1:]}"
