"""The OpenAPI document of `/api/v1`, made from the table of resources and the bodies."""

import json
from functools import cache

from jobauto_prefect import __version__
from jobauto_prefect.definitions.kinds import KINDS
from jobauto_prefect.facade.openapi.components import error_responses, parameters
from jobauto_prefect.facade.openapi.record_operations import record_operations
from jobauto_prefect.facade.openapi.resource_operations import resource_operations
from jobauto_prefect.facade.openapi.schemas import Json, component_schemas
from jobauto_prefect.facade.openapi.service_operations import (
    SERVICE,
    SIGNING_IN,
    service_operations,
)

ABOUT = """\
Applications, companies, run templates, jobs and what belongs to them.

- **Formats.** The suffix of the path is the format of the answer: json, yaml, xml, html (a page \
for people), and csv for lists. Without a suffix the header Accept says it; the default is JSON.
- **Lists** are objects keyed by id, `{}` when empty. Readers which sort integer keys must sort by \
`id` themselves. `limit` asks for a page, the header `Link` leads to the next one.
- **Writing.** POST creates or updates and answers 201 both times, with `created`. Bodies are \
JSON, whatever their Content-Type says; fields may be in the query, too, except secrets.
- **Errors** look all alike, see the schema Error.
- **Times** have an offset in answers. In requests they are ISO 8601 or `Y-m-d H:i:s`, of UTC \
where they have no offset.
- **HTTPS** is needed, except within one machine.

Permissions, paging and all else are explained in docs/rest.md.
"""


@cache
def document() -> Json:
    """Make the document once; do not change it."""
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
            {"url": "/api", "description": "The same."},
        ],
        "tags": [{"name": name} for name in tags()],
        "security": [{"bearer": []}, {"basic": []}],
        "paths": paths(),
        "components": {
            "schemas": component_schemas(),
            "responses": error_responses(),
            "parameters": parameters(),
            "securitySchemes": {
                "bearer": {
                    "type": "http",
                    "scheme": "bearer",
                    "description": "A token: of `jobauto token issue`, or of `/login`.",
                },
                "basic": {
                    "type": "http",
                    "scheme": "basic",
                    "description": "Login and password, where there is no bearer token.",
                },
            },
        },
    }


@cache
def paths() -> Json:
    """Describe the operations, by path and method; do not change what is returned."""
    described: Json = {}
    for operations in (resource_operations(), service_operations(), record_operations()):
        for path, method, operation in operations:
            described.setdefault(path, {})[method] = operation
    _complete_links(described)
    return described


def document_text() -> str:
    """Write the text of `api/openapi.json`."""
    return json.dumps(document(), indent=2, ensure_ascii=False) + "\n"


def tags() -> list[str]:
    """List the sections of the document, in their order."""
    return [*(kind.many for kind in KINDS.values()), SIGNING_IN, SERVICE]


def _complete_links(paths: Json) -> None:
    """Give links a suffix where the operation they lead to has one."""
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
