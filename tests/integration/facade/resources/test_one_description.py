"""A kind of records, and a field of one, are described once and seen everywhere."""

import json
import subprocess
import sys
from collections.abc import Mapping
from typing import Any

import pytest

from tests.support.console import form_fields
from tests.support.paths import ROOT
from tests.support.processes import clean_environment

STRING_OR_NULL = [{"type": "string"}, {"type": "null"}]


@pytest.fixture(scope="module")
def seen(tmp_path_factory: pytest.TempPathFactory) -> Mapping[str, str]:
    """What a service shows that has shelves, and icons of topics."""
    home = tmp_path_factory.mktemp("extended")
    done = subprocess.run(
        [sys.executable, "-m", "tests.support.extended_program", str(home)],
        env=clean_environment(),
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    shown: dict[str, str] = json.loads(done.stdout)
    return shown


@pytest.fixture(scope="module")
def document(seen: Mapping[str, str]) -> dict[str, Any]:
    """The OpenAPI document of that service."""
    parsed: dict[str, Any] = json.loads(seen["document"])
    return parsed


def test_a_field_is_in_the_document_of_what_is_read_and_written(document: dict[str, Any]) -> None:
    schemas = document["components"]["schemas"]
    described = {"anyOf": STRING_OR_NULL, "description": "What is drawn beside it."}
    assert schemas["Topic"]["properties"]["icon_name"] == described
    assert schemas["TopicBody"]["properties"]["icon_name"] == described


def test_a_field_is_in_lists_and_pages_by_its_title(seen: Mapping[str, str]) -> None:
    assert json.loads(seen["topics.json"])["1"]["icon_name"] == "coin"
    assert seen["topics.csv"].splitlines() == [
        "id,name,description,color,company_id,icon_name",
        "1,money,,C0C0C0,,coin",
    ]
    assert (
        '<td class="is-text" data-label="Icon"><span class="text">coin</span>'
        in (seen["topics.html"])
    )
    assert (
        '<dt title="icon_name">Icon</dt><dd><span class="text">coin</span>'
        in (seen["topic/1.html"])
    )


def test_a_field_is_a_column_of_the_terminal(seen: Mapping[str, str]) -> None:
    table = [line.split() for line in seen["topic list --columns name,icon_name"].splitlines()]
    assert table[:2] == [["name", "icon_name"], ["money", "coin"]]
    assert json.loads(seen["topic list --json"])["1"]["icon_name"] == "coin"


def test_a_kind_is_in_the_document(document: dict[str, Any]) -> None:
    shelf = document["components"]["schemas"]["Shelf"]
    assert shelf["properties"]["book_count"] == {
        "description": "How many books it holds.",
        "type": "integer",
    }
    assert {"name": "Shelves"} in document["tags"]
    assert document["paths"]["/shelves.{suffix}"]["get"]["operationId"] == "listShelves"
    assert document["paths"]["/shelf/{shelfId}.{suffix}"]["get"]["operationId"] == "getShelf"


def test_a_kind_has_lists_and_pages(seen: Mapping[str, str]) -> None:
    assert json.loads(seen["shelves.json"])["1"].keys() == {
        *("id", "label", "book_count", "created_at", "updated_at")
    }
    assert seen["shelves.csv"].splitlines() == ["id,label,book_count", "1,Poetry,3"]
    assert (
        '<td class="is-number" data-label="Books"><span class="number">3</span>'
        in (seen["shelves.html"])
    )
    assert (
        '<dt title="book_count">Books</dt><dd><span class="number">3</span>'
        in (seen["shelf/1.html"])
    )
    assert 'href="/api/v1/shelves.html" aria-current="page">Shelves</a>' in seen["shelf/1.html"]


def test_a_kind_is_written_and_each_write_is_audited(
    seen: Mapping[str, str], document: dict[str, Any]
) -> None:
    body = document["components"]["schemas"]["ShelfBody"]["properties"]
    assert body["book_count"]["description"] == "How many books it holds."
    faults = json.loads(seen["refused"])["details"]
    assert {(fault["pointer"], fault["rule"]) for fault in faults} == {
        ("/book_count", "int_parsing"),
        ("/lable", "extra_forbidden"),
    }
    entries = json.loads(seen["auditlog.json"]).values()
    written = [entry for entry in entries if entry["entity_type"] == "Shelf"]
    assert {entry["action"] for entry in written} == {"create", "update"}
    assert any(entry["changes"].get("label") == ["Prose", "Poetry"] for entry in written)


def test_a_kind_is_filtered(seen: Mapping[str, str], document: dict[str, Any]) -> None:
    assert json.loads(seen["shelves.json?label=OETR"]).keys() == {"1"}
    assert json.loads(seen["shelves.json?label=prose"]) == {}
    parameters = document["paths"]["/shelves.{suffix}"]["get"]["parameters"]
    assert "label" in {parameter.get("name") for parameter in parameters}


def test_a_kind_has_pages_and_a_form_in_the_console(seen: Mapping[str, str]) -> None:
    assert 'data-label="Books"><span class="text">3</span>' in seen["shelves"]
    assert "Poetry" in seen["shelves/1"]
    assert form_fields(seen["shelves/1/edit"])["/label"] == "Poetry"
    assert form_fields(seen["shelves/new"])["/label"] == ""
    sent = json.loads(seen["shelf/2.json"])
    assert (sent["label"], sent["book_count"]) == ("Drama", 7)


def test_a_kind_is_listed_shown_changed_completed_and_planned_in_the_terminal(
    seen: Mapping[str, str],
) -> None:
    table = [line.split() for line in seen["shelf list"].splitlines()]
    assert table[:3] == [["id", "label", "book_count"], ["2", "Drama", "7"], ["1", "Poetry", "3"]]
    assert json.loads(seen["shelf show Poetry --json"])["book_count"] == 3
    assert json.loads(seen["shelf set Poetry book_count=4 --json"])["book_count"] == 4
    assert seen["completion"] == "Poetry\n"
    (change,) = json.loads(seen["plan files --json"])["changes"]
    assert (change["kind"], change["title"], change["action"]) == ("shelf", "Essays", "create")
