"""The operations that are made from the table of resources."""

from collections.abc import Iterator, Mapping
from typing import Any

from jobauto_prefect.definitions.kinds import KINDS
from jobauto_prefect.facade.http.field_types import parse_bool, parse_datetime, parse_int
from jobauto_prefect.facade.kinds.registry import RESOURCES
from jobauto_prefect.facade.kinds.resource import Filter, Resource
from jobauto_prefect.facade.openapi import components
from jobauto_prefect.facade.openapi.components import (
    COMMON_ERRORS,
    FOR_LISTS,
    FOR_RECORDS,
    SIGN_IN_ERRORS,
)
from jobauto_prefect.facade.openapi.resource_words import (
    describe,
    schema_name,
)
from jobauto_prefect.facade.openapi.resource_writes import describe_update, describe_write
from jobauto_prefect.facade.openapi.schemas import Json, reference
from jobauto_prefect.facade.resources.job_deletion import DELETABLE_JOBS
from jobauto_prefect.facade.resources.lists import DEFAULT_PAGE, MAX_PAGE
from jobauto_prefect.facade.resources.natural_keys import OWNED
from jobauto_prefect.ledger.base import BIGGEST_ID

Operations = Iterator[tuple[str, str, Json]]
"""Path, method, operation."""

COLUMN_TEXTS: Mapping[str, str] = {
    "begun_or_due": "`begin` (where a job has not begun: `schedule`)",
}
"""What a filter looks at where it is no single field."""


def resource_operations() -> Operations:
    """Describe lists, records, writes and deletions of every kind."""
    for resource in RESOURCES:
        item = f"/{resource.kind.item}/{{{resource.kind.parameter}}}.{{suffix}}"
        yield f"/{resource.kind.collection}.{{suffix}}", "get", _list(resource)
        yield item, "get", _read(resource)
        if resource.write is not None:
            yield f"/{resource.kind.item}/", "post", describe_write(resource)
            yield item, "post", describe_update(resource)
        if resource.kind.deletable:
            yield item, "delete", _delete(resource)
        if resource.kind.item == "job":
            yield f"/{resource.kind.collection}.{{suffix}}", "delete", _delete_list(resource)


def _list(resource: Resource) -> Json:
    record = schema_name(resource)
    how = (
        f"Newest first, {DEFAULT_PAGE} at a time unless `limit` says otherwise."
        if resource.kind.paged
        else "All of them, ordered by id, unless `limit` says otherwise."
    )
    listed = {"type": "object", "additionalProperties": reference(record)}
    return {
        **describe(
            resource, "List", resource.kind.nouns, resource.kind.read, f"An object by id. {how}"
        ),
        "parameters": [
            components.suffix_parameter(FOR_LISTS),
            *(_filter_parameter(name, listed) for name, listed in resource.filters.items()),
            *_paging(resource),
        ],
        "responses": {
            "200": {
                "description": f"The {resource.kind.nouns}, by id; empty where there are none.",
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
        **describe(
            resource, "Delete", resource.kind.nouns, f"{resource.kind.permissions}.delete", text
        ),
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
    if listed.several:
        words = "|".join(listed.choices)
        schema = {"type": "string", "pattern": f"^({words})(,({words}))*$"}
    if listed.refers_to:
        schema = components.number_or_name(KINDS[listed.refers_to].noun, lowest=0)
    column = COLUMN_TEXTS.get(listed.column, f"`{listed.column}`")
    texts = {
        "ge": f"Only those whose {column} is not before this time.",
        "lt": f"Only those whose {column} is before this time.",
        "le": f"Only those whose {column} is not after this time.",
        "contains": f"Only those with this in their {column}, in whatever case.",
        "has": f"Only those with this among their {column}.",
    }
    text = texts.get(listed.how, f"Only those with this `{listed.column}`.")
    if listed.several:
        text = f"Only those with this `{listed.column}`, or with some of them, with commas."
    type_schema = None if listed.refers_to else kinds.get(listed.convert)
    return components.allow_empty(components.query_parameter(name, text, type_schema or schema))


def _paging(resource: Resource) -> list[Json]:
    orders = [f"{sign}{name}" for name in resource.orders for sign in ("", "-")]
    order = components.query_parameter(
        "order",
        "The field to order by, with `-` for descending.",
        {"type": "string", "enum": orders, "default": "-id" if resource.kind.paged else "id"},
    )
    return [
        components.allow_empty(order),
        *(components.shared_parameter(name) for name in ("Limit", "Cursor", "Offset")),
    ]


def _read(resource: Resource) -> Json:
    detailed = resource.detail
    record = detailed.__name__ if detailed else schema_name(resource)
    several = (409,) if resource.record in OWNED else ()  # companies may have one of that name
    return {
        **describe(
            resource, "Get", resource.kind.noun, resource.kind.read, resource.kind.one + "."
        ),
        "parameters": [
            components.path_key(resource.kind.parameter, resource.kind.noun),
            components.suffix_parameter(FOR_RECORDS),
        ],
        "responses": {
            "200": {
                "description": f"The {resource.kind.noun}.",
                "content": components.media_types(reference(record), FOR_RECORDS),
            },
            **components.error_references(*COMMON_ERRORS, *SIGN_IN_ERRORS, *several),
        },
    }


def _delete(resource: Resource) -> Json:
    text = (
        "Takes the record away: it is gone from lists and from Prefect, is kept for history, and "
        "its name is free again. Where active records depend on it: 409, naming them."
    )
    if resource.kind.item == "job":
        text = "Takes a job away that is over and belongs to no task."
    return {
        **describe(
            resource, "Delete", resource.kind.noun, f"{resource.kind.permissions}.delete", text
        ),
        "parameters": [
            components.path_key(resource.kind.parameter, resource.kind.noun),
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
