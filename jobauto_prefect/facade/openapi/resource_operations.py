"""The operations that are made from the table of resources."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from pydantic import BaseModel

from jobauto_prefect.facade.http.field_types import parse_bool, parse_datetime, parse_int
from jobauto_prefect.facade.http.idempotency import REPLAYED
from jobauto_prefect.facade.models.catalog import RECORD_MODELS
from jobauto_prefect.facade.models.events import EventWithDeliveries
from jobauto_prefect.facade.models.jobs import JobWithOutput
from jobauto_prefect.facade.models.tasks import TaskWithJobs
from jobauto_prefect.facade.openapi import components
from jobauto_prefect.facade.openapi.components import (
    COMMON_ERRORS,
    FOR_LISTS,
    FOR_RECORDS,
    SIGN_IN_ERRORS,
    WRITE_ERRORS,
)
from jobauto_prefect.facade.openapi.schemas import BODIES, Json, reference
from jobauto_prefect.facade.resources.job_deletion import DELETABLE_JOBS
from jobauto_prefect.facade.resources.lists import DEFAULT_PAGE, MAX_PAGE
from jobauto_prefect.facade.resources.registry import RESOURCES, Filter, Resource
from jobauto_prefect.ledger.base import BIGGEST_ID

APPLICATION = "Application"
"""The schema of applications, which is made from that of their definitions."""

Operations = Iterator[tuple[str, str, Json]]
"""Path, method, operation."""

DETAILED: Mapping[str, type[BaseModel]] = {
    "job": JobWithOutput,
    "task": TaskWithJobs,
    "event": EventWithDeliveries,
}
"""Record kind -> model of a record alone, where it has more than in lists."""

NATURAL_KEYS: Mapping[str, str] = {
    "app": "`uuid`, else its `name` within its company or among the shared ones",
    "company": "`slug`, without one by its `name`",
    "runtemplate": "`name` within its company",
    "user": "`login`",
    "credential": "`name` within its company",
    "credential_type": "`uuid`, else its `code` within its company or among the shared ones",
    "topic": "`name` within its company or among the shared ones",
    "eventsource": "`name`",
    "calendar": "`name`",
}
REQUIRED_GROUPS: Mapping[str, Sequence[Sequence[str]]] = {
    "company": (["name"],),
    "runtemplate": (["name"], ["app_id", "app_uuid", "app"], ["company_id", "company"]),
    "job": (["runtemplate_id", "retry_of"],),
    "user": (["login"],),
    "credential": (
        ["name"],
        ["company_id", "company"],
        ["credential_type_id", "credential_type"],
    ),
    "credential_type": (["code"], ["name"]),
    "topic": (["name"],),
    "calendar": (["name"],),
    "eventrule": (["runtemplate_id"], ["event_source_id", "runtemplate_source_id"]),
    "eventsource": (["name"], ["db_database"]),
}
"""What a new record needs: a field of each group."""

WRITE_NOTES: Mapping[str, str] = {
    "app": " A definition that is older than the one there is needs `force`.",
    "job": " Without an id a run is scheduled, now or at `scheduled`. With one, `scheduled` and "
    "`note` change while it waits, and `state` `cancelled` ends it (this needs `jobs.execute`).",
}


NOUNS: Mapping[type[Any], str] = {
    resource.kind: resource.record_kind.one.lower() for resource in RESOURCES
}
"""What people call a record of a kind: `run template`."""

COLUMN_TEXTS: Mapping[str, str] = {
    "begun_or_due": "`begin` (where a job has not begun: `schedule`)",
}
"""What a filter looks at where it is no single field."""


def singular(resource: Resource) -> str:
    """Return what people call a record: `run template`."""
    return resource.record_kind.one.lower()


def plural(resource: Resource) -> str:
    """Return what people call a list of records: `run templates`."""
    return resource.record_kind.many.lower()


def to_pascal_case(words: str) -> str:
    """Turn `run templates` into `RunTemplates`."""
    return words.title().replace(" ", "")


def resource_operations() -> Operations:
    """Describe lists, records, writes and deletions of every kind."""
    for resource in RESOURCES:
        item = f"/{resource.item}/{{{resource.parameter}}}.{{suffix}}"
        yield f"/{resource.collection}.{{suffix}}", "get", _list(resource)
        yield item, "get", _read(resource)
        if resource.write is not None:
            yield f"/{resource.item}/", "post", _write(resource)
            yield item, "post", _update(resource)
        if resource.deletable:
            yield item, "delete", _delete(resource)
        if resource.item == "job":
            yield f"/{resource.collection}.{{suffix}}", "delete", _delete_list(resource)


def schema_name(resource: Resource) -> str:
    """Return what the document calls a record of this kind."""
    model = RECORD_MODELS.get(resource.item)
    return model.__name__ if model else APPLICATION


def _operation(resource: Resource, verb: str, words: str, permission: str, text: str) -> Json:
    needs = f"Needs `{permission}`." if permission else ""
    return {
        "operationId": f"{verb.split(maxsplit=1)[0].lower()}{to_pascal_case(words)}",
        "tags": [resource.record_kind.many],
        "summary": f"{verb} {words}",
        "description": f"{text} {needs}".strip(),
    }


def _list(resource: Resource) -> Json:
    record = schema_name(resource)
    how = (
        f"Newest first, {DEFAULT_PAGE} at a time unless `limit` says otherwise."
        if resource.paged
        else "All of them, ordered by id, unless `limit` says otherwise."
    )
    listed = {"type": "object", "additionalProperties": reference(record)}
    return {
        **_operation(resource, "List", plural(resource), resource.read, f"An object by id. {how}"),
        "parameters": [
            components.suffix_parameter(FOR_LISTS),
            *(_filter_parameter(name, listed) for name, listed in resource.filters.items()),
            *_paging(resource),
        ],
        "responses": {
            "200": {
                "description": f"The {plural(resource)}, by id; empty where there are none.",
                "headers": {"X-Total-Count": components.COUNT, "Link": components.NEXT},
                "content": components.media_types(listed, FOR_LISTS),
            },
            **components.error_references(*COMMON_ERRORS, *SIGN_IN_ERRORS),
        },
    }


def _delete_list(resource: Resource) -> Json:
    text = (
        "Deletes those that the filters choose and that are over and belong to no task, the newest "
        f"{MAX_PAGE} of them. At least one filter has to be said. With `state=scheduled` "
        "waiting jobs are cancelled and deleted, those of tasks too. What was chosen and stays is "
        "listed with its reason."
    )
    tried = components.query_parameter(
        "dry_run", "Only say what would be deleted.", {"type": "boolean"}
    )
    return {
        **_operation(resource, "Delete", plural(resource), f"{resource.permissions}.delete", text),
        "parameters": [
            components.suffix_parameter(FOR_RECORDS),
            *(_filter_parameter(name, listed) for name, listed in DELETABLE_JOBS.filters.items()),
            tried,
        ],
        "responses": {
            "200": {
                "description": "What is gone.",
                "content": components.media_types(reference("JobsDeleted"), FOR_RECORDS),
            },
            **components.error_references(*COMMON_ERRORS, *SIGN_IN_ERRORS, 409),
        },
    }


def _filter_parameter(name: str, listed: Filter) -> Json:
    kinds: Mapping[Any, Json] = {
        parse_int: {"type": "integer", "minimum": 0, "maximum": BIGGEST_ID},
        parse_bool: {"type": "boolean"},
        parse_datetime: {"type": "string", "format": "date-time"},
    }
    schema: Json = {"type": "string", "maxLength": 255}
    if listed.choices:
        schema = {"type": "string", "enum": list(listed.choices)}
    if listed.refers_to is not None:
        schema = components.number_or_name(NOUNS[listed.refers_to], lowest=0)
    column = COLUMN_TEXTS.get(listed.column, f"`{listed.column}`")
    ends = {"ge": f"Only those whose {column} is not before this time.",
            "lt": f"Only those whose {column} is before this time.",
            "le": f"Only those whose {column} is not after this time."}  # fmt: skip
    text = ends.get(listed.how, f"Only those with this `{listed.column}`.")
    type_schema = None if listed.refers_to else kinds.get(listed.convert)
    return components.allow_empty(components.query_parameter(name, text, type_schema or schema))


def _paging(resource: Resource) -> list[Json]:
    orders = [f"{sign}{name}" for name in resource.orders for sign in ("", "-")]
    order = components.query_parameter(
        "order",
        "The field to order by, with `-` for descending.",
        {"type": "string", "enum": orders, "default": "-id" if resource.paged else "id"},
    )
    return [
        components.allow_empty(order),
        *(components.shared_parameter(name) for name in ("Limit", "Cursor", "Offset")),
    ]


def _read(resource: Resource) -> Json:
    detailed = DETAILED.get(resource.item)
    record = detailed.__name__ if detailed else schema_name(resource)
    return {
        **_operation(
            resource, "Get", singular(resource), resource.read, resource.record_kind.one + "."
        ),
        "parameters": [
            components.path_key(resource.parameter, singular(resource)),
            components.suffix_parameter(FOR_RECORDS),
        ],
        "responses": {
            "200": {
                "description": f"The {singular(resource)}.",
                "content": components.media_types(reference(record), FOR_RECORDS),
            },
            **components.error_references(*COMMON_ERRORS, *SIGN_IN_ERRORS),
        },
    }


def _write(resource: Resource) -> Json:
    natural_key = NATURAL_KEYS.get(resource.item)
    key = f" Without an id it is known by its {natural_key}." if natural_key else ""
    needed = " and ".join(
        " or ".join(f"`{field}`" for field in group)
        for group in REQUIRED_GROUPS.get(resource.item, ())
    )
    key += f" A new one needs {needed or 'a whole definition'}."
    actions = f"{resource.permissions}.create` or `{resource.permissions}.update"
    text = (
        f"Creates or updates: an update changes only the fields given. The id may be in the query "
        f"(`{resource.parameter}`) or in the body (`id` or `{resource.item}_id`).{key}"
        f"{WRITE_NOTES.get(resource.item, '')}"
    )
    named = components.query_parameter(
        resource.parameter,
        "The record to update.",
        components.number_or_name(singular(resource)),
    )
    return {
        **_operation(resource, "Write", singular(resource), actions, text),
        "parameters": [
            named,
            *_body_parameters(resource),
            components.shared_parameter("IdempotencyKey"),
        ],
        "requestBody": components.json_body(_create_or_update(resource), required=False),
        "responses": _write_responses(resource),
    }


def _body_parameters(resource: Resource) -> list[Json]:
    if resource.item != "app":
        return []
    text = (
        "The body is a definition and nothing else: fields such as `id` and `enabled` are kept "
        "as its own. What is ours is in the query."
    )
    return [components.query_parameter("definition", text, {"type": "boolean", "default": False})]


def _create_or_update(resource: Resource) -> Json:
    """Describe the body, with what a new record needs."""
    body = reference(BODIES[resource.item])
    if resource.item not in REQUIRED_GROUPS:
        return body
    groups = [
        {"required": group}
        if len(group) == 1
        else {"anyOf": [{"required": [field]} for field in group]}
        for group in REQUIRED_GROUPS[resource.item]
    ]
    new = {"title": "A new one", "allOf": groups}
    return {"allOf": [body], "anyOf": [new, {"title": "A change of one that is there"}]}


def _update(resource: Resource) -> Json:
    changed = "JobChange" if resource.item == "job" else BODIES[resource.item]
    return {
        **_operation(
            resource, "Update", singular(resource), f"{resource.permissions}.update",
            "Changes the fields given.",
        ),
        "parameters": [
            components.path_key(resource.parameter, singular(resource)),
            components.suffix_parameter(FOR_RECORDS),
            components.shared_parameter("IdempotencyKey"),
        ],
        "requestBody": components.json_body(reference(changed), required=False),
        "responses": _write_responses(resource),
    }  # fmt: skip


def _write_responses(resource: Resource) -> Json:
    record = schema_name(resource)
    shown = [reference(record), reference("Written")]
    schema: Json = {"allOf": shown}
    if resource.item == "job":
        schema["properties"] = {"job_id": {"type": "integer", "description": "The same as `id`."}}
    return {
        "201": {
            "description": f"The {singular(resource)}, whether it is new or was there.",
            "headers": {"Location": components.LOCATION, REPLAYED: components.REPLAYED},
            "content": components.media_types(schema, FOR_RECORDS),
            "links": _links(resource),
        },
        **components.error_references(*COMMON_ERRORS, *SIGN_IN_ERRORS, *WRITE_ERRORS, 422),
    }


def _links(resource: Resource) -> Json:
    """Describe where the id of a written record leads."""
    words = to_pascal_case(singular(resource))
    links = {
        verb: _link(f"{verb}{words}", resource.parameter)
        for verb in ("get", "update", *(("delete",) if resource.deletable else ()))
    }
    for name, (operation, parameter) in LINKS.get(resource.item, {}).items():
        links[name] = _link(operation, parameter)
    for name, (operation, field) in BODY_LINKS.get(resource.item, {}).items():
        links[name] = {
            "operationId": operation,
            "requestBody": {field: "$response.body#/id"},
            "description": f"The id is the body's `{field}`.",
        }
    return links


LINKS: Mapping[str, Mapping[str, tuple[str, str]]] = {
    "app": {"definition": ("getDefinition", "appId"), "versions": ("listVersions", "appId")},
    "company": {"members": ("listMembers", "companyId"), "assign": ("assignMember", "companyId")},
    "user": {"roles": ("listRoles", "userId"), "setRoles": ("setRoles", "userId")},
    "job": {"output": ("getOutput", "jobId")},
}
"""Further operations on a record: name of the link, operation, parameter."""

BODY_LINKS: Mapping[str, Mapping[str, tuple[str, str]]] = {
    "runtemplate": {"run": ("writeJob", "runtemplate_id")},
}
"""Operations whose body names a record."""


def _link(operation: str, parameter: str) -> Json:
    return {
        "operationId": operation,
        "parameters": {parameter: "$response.body#/id"},
        "description": f"The id is the `{parameter}`.",
    }


def _delete(resource: Resource) -> Json:
    text = (
        "Takes the record away: it is gone from lists and from Prefect, is kept for history, and "
        "its name is free again. Where active records depend on it: 409, naming them."
    )
    if resource.item == "job":
        text = "Takes a job away that is over and belongs to no task."
    return {
        **_operation(
            resource, "Delete", singular(resource), f"{resource.permissions}.delete", text
        ),
        "parameters": [
            components.path_key(resource.parameter, singular(resource)),
            components.suffix_parameter(FOR_RECORDS),
        ],
        "responses": {
            "200": {
                "description": "It is gone.",
                "content": components.media_types(reference("Deleted"), FOR_RECORDS),
            },
            **components.error_references(*COMMON_ERRORS, *SIGN_IN_ERRORS, 409),
        },
    }
