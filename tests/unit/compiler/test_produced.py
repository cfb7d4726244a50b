"""What a job has produced, and the selectors that name it."""

import json
from typing import Any

import pytest

from jobauto_prefect.compiler.produced import Remains, find_file, offer_of, produced
from jobauto_prefect.compiler.selectors import FoundFile, Unresolved, fault_in, resolve

INVOICES = {
    "invoices": {
        "format": "json",
        "patterns": ["invoices-[0-9]+\\.json"],
        "fields": {
            "invoice_number": {"type": "string"},
            "total": {"type": "float"},
            "customer_id": {"type": "integer", "path": "$.customer.id"},
            "first_line": {"type": "string", "path": "$.lines[0].text"},
            "missing": {"type": "string"},
        },
    }
}
DOCUMENT: dict[str, Any] = {
    "environment": {"RESULT_FILE": {}},
    "artifacts": [{"name": {"en": "Report"}, "path": "report.pdf", "type": "file"}],
    "produces": INVOICES | {"note": {"format": "text"}},
}
INVOICE = {
    "invoice_number": 7,
    "total": "12.50",
    "customer": {"id": "42"},
    "lines": [{"text": "work"}],
    "note": "thanks",
}


def left(files: dict[str, Any], result: str | None = None, stdout: str = "") -> Remains:
    return Remains(list(files), lambda path: json.dumps(files[path]).encode(), result, stdout)


def test_json_comes_from_the_artifact_that_a_pattern_matches_with_its_fields_typed() -> None:
    files = {"other.json": {}, "invoices-1.json": INVOICE}
    values = produced(INVOICES, left(files, "other.json"))
    assert values["invoice_number"] == "7"
    assert (values["total"], values["customer_id"], values["first_line"]) == (12.5, 42, "work")
    assert "missing" not in values
    assert values["invoices"]["customer_id"] == 42
    assert values["invoices"]["note"] == "thanks"


def test_without_a_matching_artifact_json_is_the_result_file() -> None:
    assert produced(INVOICES, left({"out.json": INVOICE}, "out.json"))["total"] == 12.5
    assert produced(INVOICES, left({"out.json": INVOICE})) == {}


def test_a_pattern_that_is_no_regular_expression_is_taken_for_what_it_means() -> None:
    entries = {"report": {"format": "json", "patterns": ["*.json"]}}
    assert produced(entries, left({"a.txt": 1, "b.json": [2]})) == {"report": [2]}


def test_text_and_url_are_what_was_written_and_custom_is_nothing() -> None:
    entries = {name: {"format": name} for name in ("text", "url", "custom", "file")}
    values = produced(entries, left({}, stdout="https://erp.example/7\n"))
    assert values == {"text": "https://erp.example/7", "url": "https://erp.example/7"}


def test_what_is_no_json_is_not_there() -> None:
    broken = Remains(["invoices-1.json"], lambda _path: b"{", None, "")
    assert produced(INVOICES, broken) == {}


def test_selectors_of_the_published_examples_find_it() -> None:
    values = produced(INVOICES, left({"invoices-1.json": INVOICE}))
    mapping = {
        "MIN": "invoices.total",
        "CUSTOMER": "$.invoices.customer.id",
        "ID": "customer_id",
        "LINES": "invoices.lines",
        "WHO": "=me",
    }
    assert resolve(mapping, values) == {
        "MIN": 12.5,
        "CUSTOMER": "42",
        "ID": 42,
        "LINES": [{"text": "work"}],
        "WHO": "me",
    }
    with pytest.raises(Unresolved, match=r"A \(invoices.nothing\), B \(invoices.lines\[3\]\)"):
        resolve({"A": "invoices.nothing", "B": "invoices.lines[3]"}, values)


@pytest.mark.parametrize(
    ("selector", "good"),
    [
        ("invoices", True),
        ("invoices.total", True),
        ("$.invoices.anything[0]", True),
        ("customer_id", True),
        ("=anything", True),
        ("job_id", True),
        ("@file:invoices", True),
        ("@file:Report", True),
        ("@file:report.pdf", True),
        ("@file:invoices-7.json", True),
        ("@file:RESULT_FILE", True),
        ("@file:bills", False),
        ("@file:note", False),
        ("@file:", False),
        ("bills.total", False),
        ("$.bills", False),
        ("invoices..total", False),
        ("", False),
        (7, False),
    ],
)
def test_selectors_begin_with_what_is_produced(selector: Any, good: bool) -> None:
    assert (fault_in(selector, offer_of(DOCUMENT)) is None) is good


def test_a_wrong_name_is_told_with_those_there_are() -> None:
    said = fault_in("@file:bills", offer_of(DOCUMENT))
    assert (
        said == "no event has the file bills; there are invoices, RESULT_FILE, Report, report.pdf"
    )
    assert fault_in("@file:x", offer_of({"environment": {}})) == (
        "no event has the file x; there is none"
    )


def test_a_file_is_found_by_entry_by_declared_name_and_by_its_own() -> None:
    remains = Remains(
        ["a/report.pdf", "invoices-1.json", "out.json", "invoices-2.json"],
        lambda _path: b"",
        "out.json",
        "",
        {"a/report.pdf": "Report", "invoices-2.json": "Report"},
    )
    found = {
        name: find_file(name, DOCUMENT["produces"], remains)
        for name in ("invoices", "Report", "report.pdf", "a/report.pdf", "RESULT_FILE", "nothing")
    }
    assert found == {
        "invoices": "invoices-1.json",
        "Report": "a/report.pdf",
        "report.pdf": "a/report.pdf",
        "a/report.pdf": "a/report.pdf",
        "RESULT_FILE": "out.json",
        "nothing": None,
    }
    assert find_file("invoices", INVOICES, left({"out.json": INVOICE}, "out.json")) == "out.json"
    mapping = {"INPUT": "@file:invoices"}
    values = resolve(mapping, {}, lambda name: find_file(name, INVOICES, remains))
    assert values == {"INPUT": FoundFile("invoices-1.json")}
    with pytest.raises(Unresolved, match=r"INPUT \(@file:invoices\)"):
        resolve(mapping, {})
