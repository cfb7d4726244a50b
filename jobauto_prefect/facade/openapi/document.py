"""The OpenAPI document of `/api/v1`, made from the table of resources and the bodies."""

from functools import cache

from jobauto_prefect import __version__
from jobauto_prefect.facade.openapi.others import SERVICE, SIGNING_IN, other_operations
from jobauto_prefect.facade.openapi.parts import error_responses, parameters
from jobauto_prefect.facade.openapi.schemas import Json, schemas
from jobauto_prefect.facade.openapi.table import table_operations
from jobauto_prefect.facade.rendering import KINDS

ABOUT = """\
Applications, companies, run templates, jobs and what belongs to them.

- **Formats.** The suffix of the path is the format of the answer: json, yaml, xml, html (a page \
for people), and csv for lists. Without a suffix the header Accept says it; the default is JSON.
- **Lists** are objects keyed by id, `{}` when empty. Readers which sort integer keys must sort by \
`id` themselves. `limit` asks for a page, the header `Link` leads to the next one.
- **Writing.** POST creates or updates and answers 201 both times, with `created`. Bodies are \
JSON, whatever their Content-Type says; members may be in the query, too, except secrets.
- **Errors** look all alike, see the schema Error.
- **Times** have an offset in answers. In requests they are ISO 8601 or `Y-m-d H:i:s`, of UTC \
where they have no offset.
- **HTTPS** is needed, except within one machine.

Permissions, paging and all else are explained in docs/rest.md.
"""


@cache
def document() -> Json:
    """The document; do not change what is returned."""
    paths: Json = {}
    for operations in (table_operations(), other_operations()):
        for path, method, operation in operations:
            paths.setdefault(path, {})[method] = operation
    _complete_links(paths)
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
        "paths": paths,
        "components": {
            "schemas": schemas(),
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


def tags() -> list[str]:
    """The sections of the document, in their order."""
    return [*(kind.many for kind in KINDS.values()), SIGNING_IN, SERVICE]


def _complete_links(paths: Json) -> None:
    """Where the operation that a link leads to has a suffix, the link says one."""
    suffixed = {
        operation["operationId"]
        for path, methods in paths.items()
        for operation in methods.values()
        if path.endswith(".{suffix}")
    }
    for operation in (one for methods in paths.values() for one in methods.values()):
        for answer in operation["responses"].values():
            for link in answer.get("links", {}).values():
                if link["operationId"] in suffixed:
                    link.setdefault("parameters", {})["suffix"] = "json"
