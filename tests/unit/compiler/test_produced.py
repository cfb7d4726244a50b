"""What a job has produced, and the selectors that name it."""

import json
import re
from dataclasses import replace
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
    SelectorScope,
    UnresolvedSelector,
    Unusable,
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
    assert found.values["x"] == []


@pytest.mark.parametrize(
    ("path", "document"),
    [
        ("$.lines[*].text", {"lines": []}),
        ("$.lines[*]", {"lines": {}}),
        ("$.lines[0:5]", {"lines": []}),
        ("$.lines[?@.qty > 1].text", {"lines": [{"qty": 1, "text": "a"}]}),
        ("$.orders[*].lines[*].text", {"orders": [{"lines": []}, {"lines": []}]}),
    ],
)
def test_a_path_that_has_nothing_to_choose_from_finds_an_empty_list(
    path: str, document: Any
) -> None:
    assert resolve({"A": path}, {"context": document}) == {"A": []}


@pytest.mark.parametrize(
    "document",
    [{}, {"lines": None}, {"lines": "text"}, {"lines": [{"name": "a"}]}, {"lines": [{}, []]}, None],
)
def test_a_path_to_what_is_missing_finds_no_list(document: Any) -> None:
    with pytest.raises(UnresolvedSelector, match=re.escape("A ($.lines[*].text)")):
        resolve({"A": "$.lines[*].text"}, {"context": document})


@pytest.mark.parametrize("digits", ["1" * 399, "1" * 5000, "1e400", "12.0"])
def test_a_number_of_any_size_is_judged(digits: str) -> None:
    entries = {"it": {"format": "json", "fields": {"n": {"type": "integer"}}}}
    written = JobOutputs(["x"], lambda _path: f'{{"n": {digits}}}'.encode(), "x", "")
    rules = [fault.rule for fault in read_outputs(entries, written).findings]
    assert rules == (["type"] if digits in ("1" * 5000, "1e400") else [])


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
    ("stdout", "text"),
    [("42\n", "42"), ("  a\r\n\n", "  a\r\n"), ("\x1b[1m", "\x1b[1m"), ("\n", ""), ("", None)],
)
def test_one_final_newline_is_taken_off_a_text(stdout: str, text: str | None) -> None:
    assert (
        read_outputs({"it": {"format": "text"}}, left({}, stdout=stdout)).values.get("it") == text
    )


@pytest.mark.parametrize("kind", ["text", "url"])
def test_what_is_not_whole_is_no_text(kind: str) -> None:
    outputs = replace(left({}, stdout="rest"), missing="7 bytes are missing here")
    value = read_outputs({"it": {"format": kind}}, outputs).values["it"]
    assert value == Unusable("not all of standard output was kept: 7 bytes are missing here")


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
        ("\x1b[1mhttps://erp.example/7\x1b[0m\r\n", "https://erp.example/7"),
        ("https://erp.example/7\0x\n", "https://erp.example/7\0x"),
        ("\udcffsee https://erp.example/7\n", "\udcffsee https://erp.example/7"),
    ],
)
def test_a_url_is_the_one_that_was_printed(stdout: str, url: str | None) -> None:
    values = read_outputs({"it": {"format": "url"}}, left({}, stdout=stdout)).values
    assert values.get("it") == url


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (b"{", "invoices-1.json is not JSON"),
        (b"", "invoices-1.json is not JSON"),
        (b"[" * 100_000, "invoices-1.json is nested deeper than 64 levels"),
        ("{}".encode("utf-16"), "invoices-1.json is not UTF-8"),
        (None, "it left no file"),
    ],
)
def test_what_is_no_json_is_not_there_and_that_is_said_where_it_has_fields(
    content: bytes | None, reason: str
) -> None:
    paths = [] if content is None else ["invoices-1.json"]
    found = read_outputs(INVOICES, JobOutputs(paths, lambda _path: content or b"", None, ""))
    assert found.values == {}
    assert [(fault.pointer, fault.rule) for fault in found.findings] == [
        ("/produces/invoices", "not-produced")
    ]
    assert f"invoices was not produced: {reason}" in found.findings[0].message
    fieldless = {"invoices": INVOICES["invoices"] | {"fields": {}}}
    assert not read_outputs(
        fieldless, JobOutputs(paths, lambda _path: content or b"", None, "")
    ).findings


def test_a_byte_order_mark_is_passed_over() -> None:
    outputs = JobOutputs(["x.json"], lambda _path: b'\xef\xbb\xbf{"a": 1}', "x.json", "")
    assert read_outputs({"it": {"format": "json"}}, outputs).values == {"it": {"a": 1}}


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


def test_a_key_of_a_changes_context_is_suggested_where_no_column_has_the_name() -> None:
    changes = SelectorScope(["recordid", "context"])

    fault = selector_fault("customer", changes)
    assert fault is not None
    assert fault.endswith("; a key of its context is $.customer")
    assert selector_fault("$.customer", changes) is None
    ends = SelectorScope(["recordid"], closed=True)
    assert selector_fault("customer", ends) == "no event has the field customer; there are recordid"


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
