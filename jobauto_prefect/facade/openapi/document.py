"""The OpenAPI document of `/api/v1`: made by FastAPI from the routes, then tidied."""

import json
from collections.abc import Mapping, Sequence
from functools import cache

from fastapi.openapi.utils import get_openapi
from fastapi.routing import APIRoute

from jobauto_prefect import __version__
from jobauto_prefect.console_addresses import CONTRACT
from jobauto_prefect.facade.formats import FORMATS
from jobauto_prefect.facade.http.operations import SERVICE, SIGNING_IN, Operation, error_name
from jobauto_prefect.facade.http.parameters import FOR_RECORDS, Json
from jobauto_prefect.facade.openapi.schemas import component_schemas, reference
from jobauto_prefect.facade.resources.crud import build_contract_router
from jobauto_prefect.kinds import KINDS

ABOUT = """\
Applications, companies, run templates, jobs and related records.

- **Formats.** The suffix of the path is the format of the answer: json, yaml, xml, html (a page \
for people), and csv for lists. Without a suffix, the header Accept decides; the default is JSON.
- **Lists** are objects keyed by id, `{}` when empty. If your parser reorders integer keys, sort \
by `id`. `limit` requests a page; the header `Link` has the address of the next one.
- **Writing.** POST creates or updates and answers 201 in both cases; `created` tells which. \
Bodies are JSON, whatever their Content-Type; fields other than secrets may also be in the query.
- **Errors** all have the schema Error.
- **Times** have an offset in answers. In requests they are ISO 8601 or `Y-m-d H:i:s`, in UTC \
unless they have an offset.
- **HTTPS** is required, except within one machine.

docs/rest.md explains permissions, paging and everything else.
"""


ERRORS: Mapping[int, str] = {
    400: "The request is invalid. `details` has every error with its position.",
    401: "The credentials are missing or invalid.",
    403: "You are signed in but may not do this; or the request came by plain HTTP from another "
    "machine, or from a page of another site.",
    404: "There is no such record, or you may not see it.",
    406: "The format is not supported. `details.formats` lists the supported formats.",
    409: "The record's state does not allow the request, or other records depend on the record.",
    412: "`If-None-Match` asks for a new record, but it exists already.",
    413: "The body is too large.",
    415: "The body has a content encoding other than gzip.",
    422: "The `Idempotency-Key` was used before, with a different request.",
    429: "Too many failed sign-ins to this account: try later, or use a token.",
    503: "The database is unavailable. Try again.",
}
RETRY_AFTER: Json = {
    "description": "Seconds to wait.",
    "required": True,
    "schema": {"type": "integer", "minimum": 1},
}
HEADERS: Mapping[int, Json] = {
    401: {
        "WWW-Authenticate": {
            "description": "The accepted schemes, the preferred one first.",
            "required": True,
            "schema": {"type": "string"},
        }
    },
    409: {"Retry-After": {**RETRY_AFTER, "required": False}},
    429: {"Retry-After": RETRY_AFTER},
    503: {"Retry-After": RETRY_AFTER},
}


@cache
def document() -> Json:
    """Build the document once; callers must not modify it."""
    operations = [
        each
        for each in build_contract_router().routes
        if isinstance(each, Operation) and each.include_in_schema
    ]
    routes = [each.described() for each in operations]
    paths, parameters = describe_operations(routes)
    bodies = [each.body for each in operations if each.body is not None]
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "jobauto",
            "version": __version__,
            "summary": "Job automation on Prefect.",
            "description": ABOUT,
            "license": {"name": "Apache-2.0", "identifier": "Apache-2.0"},
        },
        "servers": [
            {"url": "/api/v1", "description": "The contract."},
            {"url": "/api", "description": "The same routes."},
        ],
        "tags": [{"name": name} for name in tags()],
        "security": [{"bearer": []}, {"basic": []}],
        "paths": paths,
        "components": {
            "schemas": component_schemas(routes, bodies),
            "responses": {
                error_name(status): {
                    "description": text,
                    **({"headers": HEADERS[status]} if status in HEADERS else {}),
                    "content": {
                        FORMATS[name].media_type: (
                            {"schema": reference("Error")} if name == "json" else {}
                        )
                        for name in FOR_RECORDS
                    },
                }
                for status, text in ERRORS.items()
            },
            "parameters": parameters,
            "securitySchemes": {
                "bearer": {
                    "type": "http",
                    "scheme": "bearer",
                    "description": "A token from `jobauto token issue` or `/login`.",
                },
                "basic": {
                    "type": "http",
                    "scheme": "basic",
                    "description": "Login and password, if there is no bearer token.",
                },
            },
        },
    }


def describe_operations(routes: Sequence[APIRoute]) -> tuple[Json, Json]:
    """Let FastAPI describe the routes; return the operations and the parameters they share."""
    paths: Json = {}
    shared: Json = {}
    for path, methods in get_openapi(title="", version="", routes=routes)["paths"].items():
        for method, operation in methods.items():
            shown = _tidy_operation(path.removeprefix(CONTRACT), operation, shared)
            paths.setdefault(shown, {})[method] = operation
    _complete_links(paths)
    return paths, shared


def _tidy_operation(path: str, operation: Json, shared: Json) -> str:
    """Tidy FastAPI's description of an operation; return its path in the document."""
    if "parameters" in operation:
        given = operation["parameters"]
        in_path = sorted(
            (each for each in given if each["in"] == "path"),
            key=lambda each: path.index(f"{{{each['name']}}}"),
        )
        for each in in_path:
            name = each["schema"].get("x-shown", each["name"])
            path = path.replace(f"{{{each['name']}}}", f"{{{name}}}")
        others = [each for each in given if each["in"] != "path"]
        operation["parameters"] = [_tidy_parameter(each, shared) for each in (*in_path, *others)]
    responses = operation["responses"]
    for status, response in [*responses.items()]:
        if "$ref" in response:
            responses[status] = {"$ref": response["$ref"]}
        elif "HTTPValidationError" in repr(response):  # FastAPI's own errors are never sent
            del responses[status]
        for content in response.get("content", {}).values():
            content.get("schema", {}).pop("title", None)
    return path


def _tidy_parameter(parameter: Json, shared: Json) -> Json:
    """Return a parameter for the document; shared ones become references."""
    schema = _without_null(parameter["schema"])
    kept = {key.removeprefix("x-"): schema.pop(key) for key in [*schema] if key.startswith("x-")}
    for key in ("title", "description"):
        schema.pop(key, None)
    schema |= {"default": kept.pop("default", schema.get("default"))}
    if schema["default"] is None:
        del schema["default"]
    name, shared_name = kept.pop("shown", parameter["name"]), kept.pop("shared", None)
    tidy = {**parameter, "name": name, "schema": schema, **kept}
    if not tidy["required"]:
        del tidy["required"]
    if shared_name is None:
        return tidy
    shared[shared_name] = tidy
    return {"$ref": f"#/components/parameters/{shared_name}"}


def _without_null(schema: Json) -> Json:
    """Return the schema of an optional parameter without null, which a query can't express."""
    choices: list[Json] = [each for each in schema.get("anyOf", ()) if each != {"type": "null"}]
    if len(choices) != 1:
        return dict(schema)
    return {key: value for key, value in schema.items() if key != "anyOf"} | choices[0]


def document_text() -> str:
    """Write the text of `api/openapi.json`."""
    return json.dumps(document(), indent=2, ensure_ascii=False) + "\n"


def tags() -> list[str]:
    """Return the tags of the document, in order."""
    return [*(kind.many for kind in KINDS.values()), SIGNING_IN, SERVICE]


def _complete_links(paths: Json) -> None:
    """Add the suffix to links whose operation has one."""
    suffixed = {
        operation["operationId"]
        for path, methods in paths.items()
        for operation in methods.values()
        if path.endswith(".{suffix}")
    }
    operations = [operation for methods in paths.values() for operation in methods.values()]
    responses = [
        response for operation in operations for response in operation["responses"].values()
    ]
    for response in responses:
        for link in response.get("links", {}).values():
            if link["operationId"] in suffixed:
                link.setdefault("parameters", {})["suffix"] = "json"
