"""The OpenAPI document says what the service does."""

import json
import re
from typing import Any

import httpx
import pytest
from fastapi.routing import APIRoute
from jsonschema import Draft202012Validator

from jobauto_prefect.console_addresses import CONTRACT
from jobauto_prefect.facade.kinds.registry import BY_ITEM, RESOURCES
from jobauto_prefect.facade.openapi import document
from jobauto_prefect.facade.openapi.document import document_text
from jobauto_prefect.facade.openapi.schemas import BODIES, load_examples
from jobauto_prefect.facade.resources.crud import build_contract_router
from tests.support import contract_check
from tests.support.paths import ROOT

LISTS = {one.kind.item: one.kind.collection for one in RESOURCES}


def operations() -> list[tuple[str, str, dict[str, Any]]]:
    return [
        (method, path, operation)
        for path, methods in document()["paths"].items()
        for method, operation in methods.items()
    ]


def shape(path: str) -> str:
    """A path without the names of its parameters."""
    return re.sub(r"\{\w+(:path)?\}", "{}", path)


def test_the_published_document_is_the_services() -> None:
    assert (ROOT / "api" / "openapi.json").read_text() == document_text(), "run make publish"


def test_every_route_is_documented_and_nothing_else() -> None:
    routes = {
        (method.lower(), shape(route.path.removeprefix(CONTRACT)))
        for route in build_contract_router().routes
        if isinstance(route, APIRoute) and route.include_in_schema
        for method in route.methods
    }
    assert {(method, shape(path)) for method, path, _ in operations()} == routes


def test_every_operation_is_explained_and_named_once() -> None:
    tags = {tag["name"] for tag in document()["tags"]}
    names = [operation["operationId"] for _, _, operation in operations()]
    assert len(names) == len(set(names))
    for _, path, operation in operations():
        assert operation["summary"], path
        assert operation["description"].endswith("."), path
        assert set(operation["tags"]) <= tags, path
        named = {
            one.get("name", "suffix")
            for one in operation.get("parameters", ())
            if one.get("in", "path") == "path" and "Suffix" in one.get("$ref", "Suffix")
        }
        assert set(re.findall(r"\{(\w+)\}", path)) == named, path


def test_every_field_is_explained() -> None:
    unsaid = [
        f"{name}.{member}"
        for name, schema in document()["components"]["schemas"].items()
        if not name.startswith("Definition")
        for member, field in schema.get("properties", {}).items()
        if "description" not in field
    ]
    assert unsaid == []


def test_all_references_and_links_lead_somewhere() -> None:
    text = json.dumps(document())
    for reference in set(re.findall(r'"#/components/(\w+)/(\w+)"', text)):
        assert reference[1] in document()["components"][reference[0]]
    names = {operation["operationId"] for _, _, operation in operations()}
    linked = [
        link
        for _, _, operation in operations()
        for answer in operation["responses"].values()
        for link in answer.get("links", {}).values()
    ]
    assert {link["operationId"] for link in linked} <= names
    assert len(linked) > 60


@pytest.mark.parametrize("name", sorted(load_examples()))
def test_an_example_is_what_its_schema_says(name: str) -> None:
    schemas = {"components": document()["components"]}
    Draft202012Validator({"$ref": f"#/components/schemas/{name}", **schemas}).validate(
        load_examples()[name]
    )


def test_the_examples_are_what_happens(rest: httpx.Client) -> None:
    shown = load_examples()
    for item in ("app", "company", "runtemplate", "job", "user", "credential_type", "credential",
                 "topic", "calendar", "eventsource", "eventrule"):  # fmt: skip
        written = rest.post(f"/{item}/", json=shown[BODIES[item]])
        assert written.status_code == 201, (item, written.text)
        (record,) = (
            one
            for one in rest.get(f"/{LISTS[item]}.json").json().values()
            if one["id"] == written.json()["id"]
        )
        expected = shown[BY_ITEM[item].answer.__name__]
        assert {**record, **times(expected)} == expected, item


def times(record: dict[str, Any]) -> dict[str, Any]:
    # of this run, this installation and this moment
    own = ("created_at", "updated_at", "prefect_url", "waits_for")
    return {name: record[name] for name in own if name in record}


def test_the_document_and_its_page_need_credentials(rest: httpx.Client, facade_url: str) -> None:
    for path in ("/api/v1/openapi.json", "/api/openapi.json", "/docs"):
        assert httpx.get(f"{facade_url}{path}").status_code == 401
        assert rest.get(f"{facade_url}{path}").status_code == 200
    assert rest.get("/openapi.json").json() == document()


def test_the_page_shows_every_operation_and_needs_nothing_from_elsewhere(
    rest: httpx.Client, facade_url: str
) -> None:
    page = rest.get(f"{facade_url}/docs")
    assert page.headers["content-type"] == "text/html; charset=utf-8"
    assert "default-src 'none'" in page.headers["content-security-policy"]
    for _, path, operation in operations():
        assert path in page.text
        assert operation["summary"] in page.text.replace("&#39;", "'")
    assert not re.search(r"(src|href)=\"https?:", page.text)


def test_head_is_get_without_the_body_and_405_names_what_is_possible(rest: httpx.Client) -> None:
    for path in ("/ping.json", "/apps.json", "/status"):
        head, got = rest.head(path), rest.get(path)
        assert (head.status_code, head.content) == (got.status_code, b"")
        assert head.headers["content-type"] == got.headers["content-type"]
    assert rest.head("/company/1.json").status_code == 404
    for method in ("OPTIONS", "PATCH", "PUT", "TRACE", "BREW"):
        for path, allowed in (
            ("/company/1.json", {"GET", "HEAD", "POST", "DELETE"}),
            ("/company/", {"POST"}),
            ("/companies.json", {"GET", "HEAD"}),
        ):
            answer = rest.request(method, path)
            assert answer.status_code == 405, (method, path)
            assert set(answer.headers["allow"].split(", ")) == allowed


def test_an_answer_that_is_not_as_documented_is_noticed() -> None:
    """The check of every other test would fail if an answer had a member more, or less."""
    company = load_examples()["Company"]
    request = httpx.Request("GET", "http://x/api/v1/company/1.json")

    def problems(status: int, body: dict[str, Any]) -> list[str]:
        return list(
            contract_check.disagreements(httpx.Response(status, json=body, request=request))
        )

    assert problems(200, company) == []
    assert problems(200, company | {"password": "x"})
    assert problems(200, {name: value for name, value in company.items() if name != "env"})
    assert problems(418, {})
