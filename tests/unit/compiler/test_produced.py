"""What a job has produced, and the selectors that name it."""

import json
from typing import Any

import pytest

from jobauto_prefect.compiler.events.job_outputs import (
    JobOutputs,
    find_file,
    read_outputs,
    selector_scope,
)
from jobauto_prefect.compiler.events.selectors import (
    FoundFile,
    Produced,
    UnresolvedSelector,
    resolve,
    selector_fault,
)
from jobauto_prefect.definitions import to_text

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


def left(files: dict[str, Any], result: str | None = None, stdout: str = "") -> JobOutputs:
    return JobOutputs(list(files), lambda path: json.dumps(files[path]).encode(), result, stdout)


def test_json_comes_from_the_artifact_that_a_pattern_matches_with_its_fields() -> None:
    files = {"other.json": {}, "invoices-1.json": INVOICE}
    values = read_outputs(INVOICES, left(files, "other.json")).values
    assert values["invoice_number"] == 7
    assert (values["total"], values["customer_id"], values["first_line"]) == ("12.50", "42", "work")
    assert "missing" not in values
    assert values["invoices"] == Produced(
        INVOICE,
        {"invoice_number": 7, "total": "12.50", "customer_id": "42", "first_line": "work"},
    )


@pytest.mark.spec("2.1.38")
def test_what_is_not_as_declared_is_said_and_stays_what_it_is() -> None:
    found = read_outputs(INVOICES, left({"invoices-1.json": INVOICE}))
    assert [(fault.pointer, fault.rule) for fault in found.findings] == [
        ("/produces/invoices/fields/invoice_number", "type"),
        ("/produces/invoices/fields/total", "type"),
        ("/produces/invoices/fields/customer_id", "type"),
        ("/produces/invoices/fields/missing", "not-produced"),
    ]
    messages = " ".join(fault.message for fault in found.findings)
    assert "12.50" not in messages
    assert "42" not in messages
    good = {"invoice_number": "7", "total": 3, "customer": {"id": 42.0}, "missing": ""}
    declared = read_outputs(INVOICES, left({"invoices-1.json": good | {"lines": [{"text": ""}]}}))
    assert declared.findings == []


@pytest.mark.spec("2.1.40")
@pytest.mark.parametrize(
    ("path", "value"),
    [
        ("$.items[*].id", [1, 2]),
        ("$['name']", "Zed"),
        ("$..id", [1, 2]),
        ("$.items[-1:].id", 2),
        ("$.items[-1].id", 2),
        ("$.items[0:1].id", 1),
        ("$.items[0:-1].id", [1]),
        ("$.items[?@.id > 1].id", [2]),
        ("$.items[?match(@.name, 'a.*')].name", ["ab"]),
        ("$.items", [{"id": 1, "name": "ab"}, {"id": 2, "name": "b"}]),
        ("$", {"items": [{"id": 1, "name": "ab"}, {"id": 2, "name": "b"}], "name": "Zed"}),
    ],
)
def test_a_path_is_a_json_path_of_rfc_9535(path: str, value: Any) -> None:
    document = {"items": [{"id": 1, "name": "ab"}, {"id": 2, "name": "b"}], "name": "Zed"}
    entries = {"list": {"format": "json", "fields": {"x": {"type": "integer", "path": path}}}}
    found = read_outputs(entries, left({"out.json": document}, "out.json"))
    assert found.values["x"] == value
    selector = "$.list" + path.removeprefix("$")
    assert resolve({"A": selector, "B": "list.x"}, found.values) == {"A": value, "B": value}


def test_a_pattern_in_a_filter_has_its_time() -> None:
    entries = {
        "list": {
            "format": "json",
            "fields": {"x": {"type": "string", "path": "$[?match(@, '(a|aa)+b')]"}},
        }
    }
    found = read_outputs(entries, left({"out.json": ["a" * 60]}, "out.json"))
    assert [fault.rule for fault in found.findings] == ["not-produced"]


def test_numbers_keep_their_digits() -> None:
    written = '{"total": 12.50, "big": 123456789012345678901234567890, "tiny": 1e-400, "n": [1.0]}'
    entries = {"x": {"format": "json", "fields": {"total": {"type": "float"}}}}
    left = JobOutputs(["x.json"], lambda _path: written.encode(), "x.json", "")
    found = read_outputs(entries, left)
    values = resolve(
        {"WHOLE": "x", "TOTAL": "x.total", "N": "$.x.n", "T": "$.x.tiny"}, found.values
    )
    assert {key: to_text(value) for key, value in values.items()} == {
        "WHOLE": written,
        "TOTAL": "12.50",
        "N": "[1.0]",
        "T": "1e-400",
    }


def test_without_a_matching_artifact_json_is_the_result_file() -> None:
    assert (
        read_outputs(INVOICES, left({"out.json": INVOICE}, "out.json")).values["total"] == "12.50"
    )
    assert read_outputs(INVOICES, left({"out.json": INVOICE})).values == {}


def test_a_pattern_that_is_no_regular_expression_is_taken_for_what_it_means() -> None:
    entries = {"report": {"format": "json", "patterns": ["*.json"]}}
    assert read_outputs(entries, left({"a.txt": 1, "b.json": [2]})).values == {"report": [2]}


def test_text_is_what_was_written_and_custom_is_nothing() -> None:
    entries = {name: {"format": name} for name in ("text", "custom", "file", "url")}
    assert read_outputs(entries, left({}, stdout="done\n")).values == {"text": "done"}


@pytest.mark.parametrize(
    ("stdout", "url"),
    [
        ("https://erp.example/7\n", "https://erp.example/7"),
        (
            "asking https://api.example\nhttps://erp.example/7\ndone at https://x\n",
            "https://erp.example/7",
        ),
        (
            "asking https://api.example\nsee https://erp.example/7?a=1, please\n",
            "https://erp.example/7?a=1",
        ),
        ("it is at <s3://bucket/7>.\n", "s3://bucket/7"),
        ("done\n", None),
    ],
)
def test_a_url_is_the_one_that_was_printed(stdout: str, url: str | None) -> None:
    values = read_outputs({"it": {"format": "url"}}, left({}, stdout=stdout)).values
    assert values.get("it") == url


def test_what_is_no_json_is_not_there() -> None:
    broken = JobOutputs(["invoices-1.json"], lambda _path: b"{", None, "")
    assert read_outputs(INVOICES, broken).values == {}
    deep = JobOutputs(["invoices-1.json"], lambda _path: b"[" * 100_000, None, "")
    assert read_outputs(INVOICES, deep).values == {}


def test_selectors_of_the_published_examples_find_it() -> None:
    values = read_outputs(INVOICES, left({"invoices-1.json": INVOICE})).values
    mapping = {
        "MIN": "invoices.total",
        "CUSTOMER": "$.invoices.customer.id",
        "ID": "customer_id",
        "FIELD": "$.invoices.customer_id",
        "WHOLE": "$.invoices",
        "LINES": "invoices.lines",
        "WHO": "=me",
    }
    assert resolve(mapping, values) == {
        "MIN": "12.50",
        "CUSTOMER": "42",
        "ID": "42",
        "FIELD": "42",
        "WHOLE": INVOICE,
        "LINES": [{"text": "work"}],
        "WHO": "me",
    }
    with pytest.raises(
        UnresolvedSelector, match=r"A \(invoices.nothing\), B \(invoices.lines\[3\]\)"
    ):
        resolve({"A": "invoices.nothing", "B": "invoices.lines[3]"}, values)


@pytest.mark.parametrize(
    ("selector", "good"),
    [
        ("invoices", True),
        ("invoices.total", True),
        ("$.invoices.anything[0]", True),
        ("$['invoices'].lines[*].id", True),
        ("$..id", True),
        ("$.invoices[", False),
        ("$..a..b..c", False),
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
    assert (selector_fault(selector, selector_scope(DOCUMENT)) is None) is good


def test_a_wrong_name_is_told_with_those_there_are() -> None:
    fault = selector_fault("@file:bills", selector_scope(DOCUMENT))
    assert (
        fault == "no event has the file bills; there are invoices, RESULT_FILE, Report, report.pdf"
    )
    assert selector_fault("@file:x", selector_scope({"environment": {}})) == (
        "no event has the file x; there is none"
    )


def test_a_file_is_found_by_entry_by_declared_name_and_by_its_own() -> None:
    remains = JobOutputs(
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
    with pytest.raises(UnresolvedSelector, match=r"INPUT \(@file:invoices\)"):
        resolve(mapping, {})
