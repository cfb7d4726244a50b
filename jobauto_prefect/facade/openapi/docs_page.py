"""The routes of the OpenAPI document: for programs, and as a page for people."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from fastapi import Response

from jobauto_prefect.facade.auth.identity import CurrentUser
from jobauto_prefect.facade.formats import PageLink, View
from jobauto_prefect.facade.http import late_routes
from jobauto_prefect.facade.http.parameters import Json
from jobauto_prefect.facade.openapi.document import ABOUT, document, document_text, tags

Row = tuple[str, str, str]
"""Name, type and meaning of a field."""

METHOD_TONES = {"get": "live", "post": "good", "put": "good", "delete": "bad"}

router = late_routes.router(include_in_schema=False)


@dataclass(frozen=True, slots=True)
class Operation:
    """An operation, as the page shows it."""

    name: str
    method: str
    tone: str
    path: str
    summary: str
    description: str
    fields: list[Row]
    answers: list[Row]


@router.get("/api/v1/openapi.json")
def openapi(_who: CurrentUser) -> Response:
    """Send the OpenAPI document."""
    return Response(document_text(), media_type="application/json")


@router.get("/docs")
def docs(who: CurrentUser) -> Response:
    """Show the document as a page."""
    from jobauto_prefect.facade.formats.html.page import CONTENT_SECURITY_POLICY, render_page

    view = View(
        title="The REST contract",
        item="",
        data={},
        user=who.actor.name,
        related=[PageLink("OpenAPI document", "/api/v1/openapi.json")],
    )
    page = render_page(
        "contract.html",
        view,
        about=[line.replace("**", "").removeprefix("- ") for line in ABOUT.split("\n") if line],
        sections=[{"label": tag, "operations": list(_operations(tag))} for tag in tags()],
        schemas=list(_schemas()),
    )
    headers = {"Content-Security-Policy": CONTENT_SECURITY_POLICY}
    return Response(page, media_type="text/html; charset=utf-8", headers=headers)


def _operations(tag: str) -> Iterator[Operation]:
    for path, methods in document()["paths"].items():
        for method, operation in methods.items():
            if tag in operation["tags"]:
                yield Operation(
                    name=operation["operationId"],
                    method=method.upper(),
                    tone=METHOD_TONES[method],
                    path=path,
                    summary=operation["summary"],
                    description=operation["description"],
                    fields=list(_fields(operation)),
                    answers=list(_responses(operation)),
                )


def _fields(operation: Json) -> Iterator[Row]:
    for reference in operation.get("parameters", ()):
        parameter = _resolve(reference)
        kind = f"{parameter['in']}, {_type_text(parameter['schema'])}"
        yield parameter["name"], kind, parameter["description"]
    if "requestBody" in operation:
        schema = operation["requestBody"]["content"]["application/json"]["schema"]
        yield "body", _type_text(schema), "JSON."


def _responses(operation: Json) -> Iterator[Row]:
    for status, reference in operation["responses"].items():
        response = _resolve(reference)
        schema = response["content"].get("application/json", {}).get("schema", {})
        yield status, _type_text(schema), response["description"]


def _schemas() -> Iterator[Mapping[str, Any]]:
    for name, schema in document()["components"]["schemas"].items():
        fields = [
            (field, _type_text(value), value.get("description", ""))
            for field, value in schema.get("properties", {}).items()
        ]
        if fields:
            yield {
                "name": name,
                "description": schema.get("description", ""),
                "fields": fields,
            }


def _resolve(reference: Json) -> Json:
    if "$ref" not in reference:
        return reference
    _, _, kind, name = reference["$ref"].split("/")
    component: Json = document()["components"][kind][name]
    return component


def _type_text(schema: Json) -> str:
    if "$ref" in schema:
        return str(schema["$ref"].rpartition("/")[2])
    if "enum" in schema:
        return ", ".join("null" if choice is None else str(choice) for choice in schema["enum"])
    if isinstance(schema.get("additionalProperties"), dict):
        return f"object of {_type_text(schema['additionalProperties']) or 'values'}"
    if "items" in schema:
        return f"array of {_type_text(schema['items'])}"
    for word, joint in (("allOf", " and "), ("anyOf", " or ")):
        if word in schema:
            return joint.join(dict.fromkeys(_type_text(choice) for choice in schema[word]))
    kind = schema.get("type", "")
    return str(schema.get("format", kind if isinstance(kind, str) else " or ".join(kind)))
