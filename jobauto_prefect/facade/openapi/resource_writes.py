"""The operations that write records: what a body may say, and where the answer leads."""

from collections.abc import Mapping

from jobauto_prefect.facade.http.idempotency import REPLAYED
from jobauto_prefect.facade.kinds.resource import Resource
from jobauto_prefect.facade.openapi import components
from jobauto_prefect.facade.openapi.components import (
    COMMON_ERRORS,
    FOR_RECORDS,
    SIGN_IN_ERRORS,
    WRITE_ERRORS,
)
from jobauto_prefect.facade.openapi.resource_words import (
    describe,
    schema_name,
    to_pascal_case,
)
from jobauto_prefect.facade.openapi.schemas import BODIES, Json, reference

WRITE_NOTES: Mapping[str, str] = {
    "app": " A definition that is older than the one there is needs `force`.",
    "job": " Without an id a run is scheduled, now or at `scheduled`. With one, `scheduled` and "
    "`note` change while it waits, and `state` `cancelled` ends it (this needs `jobs.execute`).",
}

LINKS: Mapping[str, Mapping[str, tuple[str, str]]] = {
    "app": {"definition": ("getDefinition", "appId"), "versions": ("listVersions", "appId")},
    "company": {"members": ("listMembers", "companyId"), "assign": ("assignMember", "companyId")},
    "user": {
        "roles": ("listRoles", "userId"),
        "setRoles": ("setRoles", "userId"),
        "tokens": ("listTokens", "userId"),
    },
    "job": {"output": ("getOutput", "jobId")},
}
"""Further operations on a record: name of the link, operation, parameter."""

BODY_LINKS: Mapping[str, Mapping[str, tuple[str, str]]] = {
    "runtemplate": {"run": ("writeJob", "runtemplate_id")},
}
"""Operations whose body names a record."""


def describe_write(resource: Resource) -> Json:
    known_by = resource.kind.known_by
    key = f" Without an id it is known by its {known_by}." if known_by else ""
    needed = " and ".join(
        " or ".join(f"`{field}`" for field in group) for group in resource.kind.required
    )
    key += f" A new one needs {needed or 'a whole definition'}."
    actions = f"{resource.kind.permissions}.create` or `{resource.kind.permissions}.update"
    text = (
        f"Creates or updates: an update changes only the fields given. The id may be in the query "
        f"(`{resource.kind.parameter}`) or in the body (`id` or `{resource.kind.item}_id`).{key}"
        f"{WRITE_NOTES.get(resource.kind.item, '')}"
    )
    named = components.query_parameter(
        resource.kind.parameter,
        "The record to update.",
        components.number_or_name(resource.kind.noun),
    )
    return {
        **describe(resource, "Write", resource.kind.noun, actions, text),
        "parameters": [
            named,
            *_body_parameters(resource),
            components.shared_parameter("IdempotencyKey"),
            components.shared_parameter("IfNoneMatch"),
        ],
        "requestBody": components.json_body(reference(BODIES[resource.kind.item]), required=False),
        "responses": _write_responses(resource) | components.error_references(412),
    }


def describe_update(resource: Resource) -> Json:
    changed = "JobChange" if resource.kind.item == "job" else BODIES[resource.kind.item]
    return {
        **describe(
            resource, "Update", resource.kind.noun, f"{resource.kind.permissions}.update",
            "Changes the fields given.",
        ),
        "parameters": [
            components.path_key(resource.kind.parameter, resource.kind.noun),
            components.suffix_parameter(FOR_RECORDS),
            components.shared_parameter("IdempotencyKey"),
        ],
        "requestBody": components.json_body(reference(changed), required=False),
        "responses": _write_responses(resource),
    }  # fmt: skip


def _body_parameters(resource: Resource) -> list[Json]:
    if resource.kind.item != "app":
        return []
    text = (
        "The body is a definition and nothing else: fields such as `id` and `enabled` are kept "
        "as its own. What is ours is in the query."
    )
    return [components.query_parameter("definition", text, {"type": "boolean", "default": False})]


def _write_responses(resource: Resource) -> Json:
    record = schema_name(resource)
    shown = [reference(record), reference("Written")]
    schema: Json = {"allOf": shown}
    if resource.kind.item == "job":
        schema["properties"] = {"job_id": {"type": "integer", "description": "The same as `id`."}}
    return {
        "201": {
            "description": f"The {resource.kind.noun}, whether it is new or was there.",
            "headers": {"Location": components.LOCATION, REPLAYED: components.REPLAYED},
            "content": components.media_types(schema, FOR_RECORDS),
            "links": _links(resource),
        },
        **components.error_references(*COMMON_ERRORS, *SIGN_IN_ERRORS, *WRITE_ERRORS, 422),
    }


def _links(resource: Resource) -> Json:
    """Describe where the id of a written record leads."""
    words = to_pascal_case(resource.kind.noun)
    links = {
        verb: _link(f"{verb}{words}", resource.kind.parameter)
        for verb in ("get", "update", *(("delete",) if resource.kind.deletable else ()))
    }
    for name, (operation, parameter) in LINKS.get(resource.kind.item, {}).items():
        links[name] = _link(operation, parameter)
    for name, (operation, field) in BODY_LINKS.get(resource.kind.item, {}).items():
        links[name] = {
            "operationId": operation,
            "requestBody": {field: "$response.body#/id"},
            "description": f"The id is the body's `{field}`.",
        }
    return links


def _link(operation: str, parameter: str) -> Json:
    return {
        "operationId": operation,
        "parameters": {parameter: "$response.body#/id"},
        "description": f"The id is the `{parameter}`.",
    }
