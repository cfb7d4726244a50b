"""`components/schemas`: records, bodies, and the application definition."""

import json
import re
from collections.abc import Mapping
from importlib import resources
from typing import Any

from pydantic.json_schema import GenerateJsonSchema, models_json_schema

from jobauto_prefect.definitions import schema as definition_schema
from jobauto_prefect.facade.applying import ApplyBody
from jobauto_prefect.facade.events import ReplayBody
from jobauto_prefect.facade.maintenance import MaintenanceBody
from jobauto_prefect.facade.memberships import MemberBody, RolesBody
from jobauto_prefect.facade.obligations import ExcuseBody
from jobauto_prefect.facade.openapi.answers import SHAPES
from jobauto_prefect.facade.openapi.members import about
from jobauto_prefect.facade.resources import RESOURCES
from jobauto_prefect.facade.writes.base import NEVER_NULL
from jobauto_prefect.facade.writes.calendars import CalendarBody
from jobauto_prefect.facade.writes.companies import CompanyBody
from jobauto_prefect.facade.writes.credential_types import CredentialTypeBody
from jobauto_prefect.facade.writes.credentials import CredentialBody, TopicBody
from jobauto_prefect.facade.writes.events import RuleBody, SourceBody
from jobauto_prefect.facade.writes.jobs import JobBody
from jobauto_prefect.facade.writes.templates import TemplateBody
from jobauto_prefect.facade.writes.users import UserBody
from jobauto_prefect.ledger.base import BIGGEST_ID
from jobauto_prefect.ledger.names import LOOKS

Json = dict[str, Any]
PLACE = "#/components/schemas/"

BODIES: Mapping[str, str] = {
    "company": "CompanyBody",
    "runtemplate": "TemplateBody",
    "job": "JobBody",
    "user": "UserBody",
    "credential": "CredentialBody",
    "credential_type": "CredentialTypeBody",
    "topic": "TopicBody",
    "calendar": "CalendarBody",
    "eventrule": "RuleBody",
    "eventsource": "SourceBody",
    "app": "ApplicationBody",
}
"""Record kind -> schema of what clients write."""

_MODELS = (
    ApplyBody, CalendarBody, CompanyBody, CredentialBody, CredentialTypeBody, ExcuseBody, JobBody,
    MaintenanceBody, MemberBody, ReplayBody, RolesBody, RuleBody, SourceBody, TemplateBody,
    TopicBody, UserBody,
)  # fmt: skip

TRUTH: Json = {"anyOf": [{"type": "boolean"}, {"enum": [0, 1, "0", "1", "true", "false"]}]}
_LABEL = "[A-Za-z0-9][A-Za-z0-9_.-]{0,63}"
LABELS: Json = {
    "anyOf": [
        {"type": "array", "items": {"type": "string", "pattern": f"^{_LABEL}$"}, "maxItems": 20},
        {"type": "string", "pattern": f"^({_LABEL}(,{_LABEL}){{0,19}})?$"},
        {"type": "object"},
    ]
}
TOPICS: Json = {
    "description": "The topics to attach, by name or id; in the query with commas. A whole "
    "definition's own `topics` are kept, and those there are topics for are attached.",
    "anyOf": [
        {"type": "array", "items": {"type": ["string", "integer"]}, "maxItems": 50},
        {"type": "string"},
    ],
}
KEY: Json = {
    "description": "The record to update; without it the natural key tells.",
    "anyOf": [
        {"type": "integer", "minimum": 1, "maximum": BIGGEST_ID},
        {"type": "string", "pattern": "^[1-9][0-9]{0,17}$"},
    ],
}


KEY_OR_NAME: Json = {**KEY, "anyOf": [*KEY["anyOf"], {"type": "string", "pattern": "[^0-9]"}]}
NAMED = frozenset(resource.item for resource in RESOURCES if resource.kind in LOOKS)
"""The items whose records have names."""

_LOCAL = re.compile(r'"#/definitions/(\w+)"')


def reference(name: str) -> Json:
    """A reference to one of the schemas."""
    return {"$ref": PLACE + name}


def examples() -> dict[str, Any]:
    """An example of each record and each body, by the name of its schema."""
    text = (resources.files(__package__) / "examples.json").read_text("utf-8")
    read: dict[str, Any] = json.loads(text)
    return read


class _Plain(GenerateJsonSchema):
    """Without titles, which repeat the names; where keys have a pattern, no others are allowed."""

    def dict_schema(self, schema: Any) -> Json:
        made = super().dict_schema(schema)
        if "patternProperties" in made:
            made["additionalProperties"] = False
        return made

    def field_title_should_be_set(self, schema: Any) -> bool:  # noqa: ARG002
        return False


def schemas() -> Json:
    """All of them, by name."""
    modes: list[Any] = [(model, "validation") for model in _MODELS]
    modes += [(shape, "serialization") for shape in SHAPES]
    _, generated = models_json_schema(
        modes, ref_template=f"{PLACE}{{model}}", schema_generator=_Plain
    )
    found: Json = {**generated["$defs"], **_definition_schemas(), **_application_schemas()}
    for item, name in BODIES.items():
        key = KEY_OR_NAME if item in NAMED else KEY
        found[name]["properties"] |= {"id": key, f"{item}_id": key}
    found["JobChange"] = _job_change(found["JobBody"])
    for name, schema in found.items():
        _finish(name, schema)
    for name, example in examples().items():
        found[name]["examples"] = [example]
    return dict(sorted(found.items()))


def _job_change(body: Json) -> Json:
    """What may change of a job."""
    changing = ("scheduled", "note", "state", "reason", "id", "job_id")
    return {
        **body,
        "description": "`scheduled` and `note` of a job that waits; or `state` to cancel it.",
        "properties": {name: dict(body["properties"][name]) for name in changing},
        "dependentRequired": {"reason": ["state"]},
    }


def _finish(name: str, schema: Json) -> None:
    """Say what each member means, and what is not worth saying."""
    if name.startswith("Definition"):
        return
    schema.pop("title", None)
    for member, said in schema.get("properties", {}).items():
        if "$ref" not in said and "default" in said and said["default"] is None:
            del said["default"]
        if name in BODIES.values() and member in NEVER_NULL:
            said["anyOf"] = [each for each in said["anyOf"] if each != {"type": "null"}]
        meaning = about(name, member)
        if meaning:
            said.setdefault("description", meaning)


def _definition_schemas() -> Json:
    """The parts of the definition's schema, and its members without what it requires."""
    text = json.dumps(definition_schema())
    whole: Json = json.loads(_LOCAL.sub(lambda found: f'"{PLACE}{_part_name(found[1])}"', text))
    parts = whole.pop("definitions")
    for member in ("$schema", "required"):
        del whole[member]
    named = {_part_name(name): part for name, part in parts.items()}
    return {"DefinitionMembers": whole, **named}


def _part_name(name: str) -> str:
    return f"Definition{name[:1].upper()}{name[1:]}"


def _application_schemas() -> Json:
    required = definition_schema()["required"]
    times = {
        name: {"type": "string", "format": "date-time"} for name in ("created_at", "updated_at")
    }
    ours = {
        "id": {"type": "integer"},
        "company_id": {"type": ["integer", "null"]},
        "enabled": {"type": "boolean"},
        "labels": {"type": "array", "items": {"type": "string"}},
        "topics": {"type": "array", "items": {"type": "string"}},
        "prefect_url": {"type": ["string", "null"]},
        **times,
    }
    return {
        "Application": {
            "description": "An application: the members of its definition, and ours.",
            "type": "object",
            "allOf": [reference("DefinitionMembers")],
            "required": [*required, *ours],
            "properties": ours
            | {
                "rule_selectors": {
                    "description": "What event rules can name of the ends of its jobs; only in "
                    "the record itself.",
                    "type": "array",
                    "items": reference("OfferedSelector"),
                }
            },
        },
        "ApplicationBody": {
            "description": "A whole definition, or a part of one, which is merged into the one "
            "there is. Members of an answer that are not the definition's are read over.",
            "type": "object",
            "allOf": [reference("DefinitionMembers")],
            "anyOf": [
                {"title": "A whole definition", "required": required},
                {"title": "A part of one"},
            ],
            "properties": {
                "company_id": {"anyOf": [KEY_OR_NAME, {"type": "null"}]},
                "enabled": TRUTH,
                "labels": LABELS,
                "topics": TOPICS,
                "force": {
                    **TRUTH,
                    "description": "Take a definition although its version is older.",
                },
            },
        },
    }
