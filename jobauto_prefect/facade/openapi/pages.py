"""The document for programs, and as a page for people."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from fastapi import APIRouter, Response

from jobauto_prefect.facade.auth import Person
from jobauto_prefect.facade.openapi.document import ABOUT, document, tags
from jobauto_prefect.facade.openapi.published import published
from jobauto_prefect.facade.openapi.schemas import Json
from jobauto_prefect.facade.rendering import CONTENT_SECURITY_POLICY, Link, View, render_page

Row = tuple[str, str, str]
"""What it is called, its kind, and what it means."""

TONES = {"get": "live", "post": "good", "put": "good", "delete": "bad"}

router = APIRouter(include_in_schema=False)


@dataclass(frozen=True, slots=True)
class Operation:
    """What may be done, as the page shows it."""

    name: str
    method: str
    tone: str
    path: str
    summary: str
    description: str
    fields: list[Row]
    answers: list[Row]


@router.get("/api/v1/openapi.json")
def openapi(_who: Person) -> Response:
    """The OpenAPI document."""
    return Response(published(), media_type="application/json")


@router.get("/docs")
def docs(who: Person) -> Response:
    """The document as a page."""
    view = View(
        title="The REST contract",
        item="",
        data={},
        user=who.actor.name,
        related=[Link("OpenAPI document", "/api/v1/openapi.json")],
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
        for method, said in methods.items():
            if tag in said["tags"]:
                yield Operation(
                    name=said["operationId"],
                    method=method.upper(),
                    tone=TONES[method],
                    path=path,
                    summary=said["summary"],
                    description=said["description"],
                    fields=list(_fields(said)),
                    answers=list(_answers(said)),
                )


def _fields(operation: Json) -> Iterator[Row]:
    for one in operation.get("parameters", ()):
        said = _resolved(one)
        kind = f"{said['in']}, {_kind(said['schema'])}"
        yield said["name"], kind, said["description"]
    if "requestBody" in operation:
        schema = operation["requestBody"]["content"]["application/json"]["schema"]
        yield "body", _kind(schema), "JSON."


def _answers(operation: Json) -> Iterator[Row]:
    for status, answer in operation["responses"].items():
        said = _resolved(answer)
        schema = said["content"].get("application/json", {}).get("schema", {})
        yield status, _kind(schema), said["description"]


def _schemas() -> Iterator[Mapping[str, Any]]:
    for name, schema in document()["components"]["schemas"].items():
        members = [
            (member, _kind(said), said.get("description", ""))
            for member, said in schema.get("properties", {}).items()
        ]
        if members:
            yield {
                "name": name,
                "description": schema.get("description", ""),
                "members": members,
            }


def _resolved(said: Json) -> Json:
    if "$ref" not in said:
        return said
    _, _, kind, name = said["$ref"].split("/")
    found: Json = document()["components"][kind][name]
    return found


def _kind(schema: Json) -> str:
    """What a value is, in a few words."""
    if "$ref" in schema:
        return str(schema["$ref"].rpartition("/")[2])
    if "enum" in schema:
        return ", ".join("null" if one is None else str(one) for one in schema["enum"])
    if isinstance(schema.get("additionalProperties"), dict):
        return f"object of {_kind(schema['additionalProperties']) or 'values'}"
    if "items" in schema:
        return f"array of {_kind(schema['items'])}"
    for word, joint in (("allOf", " and "), ("anyOf", " or ")):
        if word in schema:
            return joint.join(dict.fromkeys(_kind(one) for one in schema[word]))
    kind = schema.get("type", "")
    return str(schema.get("format", kind if isinstance(kind, str) else " or ".join(kind)))
