"""The operations of the table of resources."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from jobauto_prefect.facade.clearing import CLEARED
from jobauto_prefect.facade.idempotency import REPLAYED
from jobauto_prefect.facade.lists import LARGEST_PAGE, PAGE
from jobauto_prefect.facade.openapi import parts
from jobauto_prefect.facade.openapi.parts import (
    ANYWHERE,
    FOR_LISTS,
    FOR_RECORDS,
    SIGNED_IN,
    WRITING,
)
from jobauto_prefect.facade.openapi.schemas import BODIES, Json, reference
from jobauto_prefect.facade.rendering import KINDS
from jobauto_prefect.facade.resources import RESOURCES, Filter, Resource, instant, integer, truth
from jobauto_prefect.ledger.base import BIGGEST_ID

Operations = Iterator[tuple[str, str, Json]]
"""Path, method, operation."""

RECORDS: Mapping[str, tuple[str, str]] = {
    "app": ("Application", "Application"),
    "company": ("Company", "Company"),
    "runtemplate": ("RunTemplate", "RunTemplate"),
    "job": ("JobWithOutput", "Job"),
    "user": ("User", "User"),
    "credential": ("Credential", "Credential"),
    "credential_type": ("CredentialType", "CredentialType"),
    "topic": ("Topic", "Topic"),
    "calendar": ("Calendar", "Calendar"),
    "task": ("TaskWithJobs", "Task"),
    "auditlog": ("AuditEntry", "AuditEntry"),
    "event": ("EventWithDeliveries", "Event"),
    "eventrule": ("EventRule", "EventRule"),
    "eventsource": ("EventSource", "EventSource"),
}
"""Record kind -> schema of a record alone, and in lists."""

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
NEEDED: Mapping[str, Sequence[Sequence[str]]] = {
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
"""What a new record needs: of each group one."""

MORE: Mapping[str, str] = {
    "app": " A definition that is older than the one there is needs `force`.",
    "job": " Without an id a run is scheduled, now or at `scheduled`. With one, `scheduled` and "
    "`note` change while it waits, and `state` `cancelled` ends it (this needs `jobs.execute`).",
}


NOUNS: Mapping[type[Any], str] = {
    resource.kind: KINDS[resource.item].one.lower() for resource in RESOURCES
}
"""What people call a record of a kind: `run template`."""

MEANT: Mapping[str, str] = {
    "begun_or_due": "`begin` (where a job has not begun: `schedule`)",
}
"""What filters look at that is no single member."""


def one(resource: Resource) -> str:
    """What people call a record: `run template`."""
    return KINDS[resource.item].one.lower()


def many(resource: Resource) -> str:
    """What people call its list: `run templates`."""
    return KINDS[resource.item].many.lower()


def pascal(words: str) -> str:
    """`run templates` -> `RunTemplates`."""
    return words.title().replace(" ", "")


def table_operations() -> Operations:
    """Lists, records, writes and deletions of every kind."""
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
            yield f"/{resource.collection}.{{suffix}}", "delete", _clear(resource)


def _operation(resource: Resource, verb: str, words: str, permission: str, text: str) -> Json:
    needs = f"Needs `{permission}`." if permission else ""
    return {
        "operationId": f"{verb.split(maxsplit=1)[0].lower()}{pascal(words)}",
        "tags": [KINDS[resource.item].many],
        "summary": f"{verb} {words}",
        "description": f"{text} {needs}".strip(),
    }


def _list(resource: Resource) -> Json:
    _, record = RECORDS[resource.item]
    how = (
        f"Newest first, {PAGE} at a time unless `limit` says otherwise."
        if resource.paged
        else "All of them, ordered by id, unless `limit` says otherwise."
    )
    listed = {"type": "object", "additionalProperties": reference(record)}
    return {
        **_operation(resource, "List", many(resource), resource.read, f"An object by id. {how}"),
        "parameters": [
            parts.suffix(FOR_LISTS),
            *(_filter(name, one) for name, one in resource.filters.items()),
            *_paging(resource),
        ],
        "responses": {
            "200": {
                "description": f"The {many(resource)}, by id; empty where there are none.",
                "headers": {"X-Total-Count": parts.COUNT, "Link": parts.NEXT},
                "content": parts.content(listed, FOR_LISTS),
            },
            **parts.errors(*ANYWHERE, *SIGNED_IN),
        },
    }


def _clear(resource: Resource) -> Json:
    text = (
        "Deletes those that the filters choose and that are over and belong to no task, the newest "
        f"{LARGEST_PAGE} of them. At least one filter has to be said. With `state=scheduled` "
        "waiting jobs are cancelled and deleted, those of tasks too. What was chosen and stays is "
        "listed with its reason."
    )
    tried = parts.query("dry_run", "Only say what would be deleted.", {"type": "boolean"})
    return {
        **_operation(resource, "Delete", many(resource), f"{resource.permissions}.delete", text),
        "parameters": [
            parts.suffix(FOR_RECORDS),
            *(_filter(name, one) for name, one in CLEARED.filters.items()),
            tried,
        ],
        "responses": {
            "200": {
                "description": "What is gone.",
                "content": parts.content(reference("JobsDeleted"), FOR_RECORDS),
            },
            **parts.errors(*ANYWHERE, *SIGNED_IN, 409),
        },
    }


def _filter(name: str, one: Filter) -> Json:
    kinds: Mapping[Any, Json] = {
        integer: {"type": "integer", "minimum": 0, "maximum": BIGGEST_ID},
        truth: {"type": "boolean"},
        instant: {"type": "string", "format": "date-time"},
    }
    schema: Json = {"type": "string", "maxLength": 255}
    if one.choices:
        schema = {"type": "string", "enum": list(one.choices)}
    if one.refers_to is not None:
        schema = parts.number_or_name(NOUNS[one.refers_to], lowest=0)
    column = MEANT.get(one.column, f"`{one.column}`")
    ends = {"ge": f"Only those whose {column} is not before this time.",
            "lt": f"Only those whose {column} is before this time.",
            "le": f"Only those whose {column} is not after this time."}  # fmt: skip
    text = ends.get(one.how, f"Only those with this `{one.column}`.")
    known = None if one.refers_to else kinds.get(one.convert)
    return parts.optional(parts.query(name, text, known or schema))


def _paging(resource: Resource) -> list[Json]:
    orders = [f"{sign}{name}" for name in resource.orders for sign in ("", "-")]
    order = parts.query(
        "order",
        "The member to order by, with `-` for descending.",
        {"type": "string", "enum": orders, "default": "-id" if resource.paged else "id"},
    )
    return [parts.optional(order), *(parts.shared(name) for name in ("Limit", "Cursor", "Offset"))]


def _read(resource: Resource) -> Json:
    record, _ = RECORDS[resource.item]
    return {
        **_operation(resource, "Get", one(resource), resource.read, KINDS[resource.item].one + "."),
        "parameters": [parts.key(resource.parameter, one(resource)), parts.suffix(FOR_RECORDS)],
        "responses": {
            "200": {
                "description": f"The {one(resource)}.",
                "content": parts.content(reference(record), FOR_RECORDS),
            },
            **parts.errors(*ANYWHERE, *SIGNED_IN),
        },
    }


def _write(resource: Resource) -> Json:
    known = NATURAL_KEYS.get(resource.item)
    key = f" Without an id it is known by its {known}." if known else ""
    needed = " and ".join(
        " or ".join(f"`{member}`" for member in group) for group in NEEDED.get(resource.item, ())
    )
    key += f" A new one needs {needed or 'a whole definition'}."
    actions = f"{resource.permissions}.create` or `{resource.permissions}.update"
    text = (
        f"Creates or updates: an update changes only the members given. The id may be in the query "
        f"(`{resource.parameter}`) or in the body (`id` or `{resource.item}_id`).{key}"
        f"{MORE.get(resource.item, '')}"
    )
    named = parts.query(
        resource.parameter,
        "The record to update.",
        parts.number_or_name(one(resource)),
    )
    return {
        **_operation(resource, "Write", one(resource), actions, text),
        "parameters": [named, *_about_body(resource), parts.shared("IdempotencyKey")],
        "requestBody": parts.body(_new_or_known(resource), required=False),
        "responses": _written(resource),
    }


def _about_body(resource: Resource) -> list[Json]:
    if resource.item != "app":
        return []
    text = (
        "The body is a definition and nothing else: members such as `id` and `enabled` are kept "
        "as its own. What is ours is in the query."
    )
    return [parts.query("definition", text, {"type": "boolean", "default": False})]


def _new_or_known(resource: Resource) -> Json:
    """The body, with what it needs where the record is new."""
    body = reference(BODIES[resource.item])
    if resource.item not in NEEDED:
        return body
    groups = [
        {"required": group}
        if len(group) == 1
        else {"anyOf": [{"required": [one]} for one in group]}
        for group in NEEDED[resource.item]
    ]
    new = {"title": "A new one", "allOf": groups}
    return {"allOf": [body], "anyOf": [new, {"title": "A change of one that is there"}]}


def _one_of(group: Sequence[str]) -> Json:
    each = [{"required": [member]} for member in group]
    return each[0] if len(each) == 1 else {"anyOf": each}


def _update(resource: Resource) -> Json:
    changed = "JobChange" if resource.item == "job" else BODIES[resource.item]
    return {
        **_operation(
            resource, "Update", one(resource), f"{resource.permissions}.update",
            "Changes the members given.",
        ),
        "parameters": [
            parts.key(resource.parameter, one(resource)),
            parts.suffix(FOR_RECORDS),
            parts.shared("IdempotencyKey"),
        ],
        "requestBody": parts.body(reference(changed), required=False),
        "responses": _written(resource),
    }  # fmt: skip


def _written(resource: Resource) -> Json:
    _, record = RECORDS[resource.item]
    shown = [reference(record), reference("Written")]
    schema: Json = {"allOf": shown}
    if resource.item == "job":
        schema["properties"] = {"job_id": {"type": "integer", "description": "The same as `id`."}}
    return {
        "201": {
            "description": f"The {one(resource)}, whether it is new or was there.",
            "headers": {"Location": parts.LOCATION, REPLAYED: parts.REPLAYED},
            "content": parts.content(schema, FOR_RECORDS),
            "links": _links(resource),
        },
        **parts.errors(*ANYWHERE, *SIGNED_IN, *WRITING, 422),
    }


def _links(resource: Resource) -> Json:
    """Where one can go with the id of a record that was written."""
    words = pascal(one(resource))
    found = {
        verb: _link(f"{verb}{words}", resource.parameter)
        for verb in ("get", "update", *(("delete",) if resource.deletable else ()))
    }
    for name, (operation, parameter) in FURTHER.get(resource.item, {}).items():
        found[name] = _link(operation, parameter)
    for name, (operation, member) in USES.get(resource.item, {}).items():
        found[name] = {
            "operationId": operation,
            "requestBody": {member: "$response.body#/id"},
            "description": f"The id is the body's `{member}`.",
        }
    return found


FURTHER: Mapping[str, Mapping[str, tuple[str, str]]] = {
    "app": {"definition": ("getDefinition", "appId"), "versions": ("listVersions", "appId")},
    "company": {"members": ("listMembers", "companyId"), "assign": ("assignMember", "companyId")},
    "user": {"roles": ("listRoles", "userId"), "setRoles": ("setRoles", "userId")},
    "job": {"output": ("getOutput", "jobId")},
}
"""Further operations on a record: name of the link, operation, parameter."""

USES: Mapping[str, Mapping[str, tuple[str, str]]] = {
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
        **_operation(resource, "Delete", one(resource), f"{resource.permissions}.delete", text),
        "parameters": [parts.key(resource.parameter, one(resource)), parts.suffix(FOR_RECORDS)],
        "responses": {
            "200": {
                "description": "It is gone.",
                "content": parts.content(reference("Deleted"), FOR_RECORDS),
            },
            **parts.errors(*ANYWHERE, *SIGNED_IN, 409),
        },
    }
