"""Fault reports: places, sentences, limits."""

import json
import math
import sys
import time
from datetime import date
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jobauto_prefect.definitions import check, read_keys, validate
from jobauto_prefect.definitions.findings import child
from jobauto_prefect.definitions.storable import MAX_DEPTH, MAX_VALUES
from jobauto_prefect.definitions.validation.positions import locate
from jobauto_prefect.definitions.validation.report import MAX_BYTES
from jobauto_prefect.errors import Fault, InvalidDefinition
from tests.support.documents import RICHEST, smallest, with_variable

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=20,
)

FAULTY = """{
  "$schema": "https://example.org/s.json",
  "name": {"en": "Faulty", "xx": "?"},
  "description": "Wrong in several places",
  "executable": 7,
  "environment": {
    "lower": {"type": "strng"},
    "SECRET": {"type": "password", "defval": "hunter2hunter2", "required": "hunter2hunter2"}
  },
  "exitCodes": {
    "0": {"severity": "fine"}
  }
}
"""


def only(report_faults: tuple[Fault, ...]) -> Fault:
    assert len(report_faults) == 1, report_faults
    return report_faults[0]


def test_every_error_has_pointer_rule_sentence_line_and_column() -> None:
    assert [fault.as_dict() for fault in validate(FAULTY).faults] == [
        {
            "pointer": "/name",
            "rule": "additionalProperties",
            "message": "'xx' is not a language code of the format",
            "line": 3,
            "column": 28,
        },
        {
            "pointer": "/executable",
            "rule": "type",
            "message": "must be text, not a number",
            "line": 5,
            "column": 17,
        },
        {
            "pointer": "/environment",
            "rule": "pattern",
            "message": "the key 'lower' has other characters than"
            " upper-case letters, digits and underscore",
            "line": 7,
            "column": 5,
        },
        {
            "pointer": "/environment/lower/type",
            "rule": "enum",
            "message": "'strng' is not one of string, file-path, email, url, integer, float, bool,"
            " password, set, text; did you mean 'string'?",
            "line": 7,
            "column": 23,
        },
        {
            "pointer": "/environment/SECRET/required",
            "rule": "type",
            "message": "must be true or false, not text",
            "line": 8,
            "column": 76,
        },
        {
            "pointer": "/exitCodes/0",
            "rule": "required",
            "message": "the key 'description' is missing",
            "line": 11,
            "column": 10,
        },
        {
            "pointer": "/exitCodes/0/severity",
            "rule": "enum",
            "message": "'fine' is not one of success, info, warning, error, critical",
            "line": 11,
            "column": 23,
        },
    ]


def test_a_document_read_already_has_the_same_errors_without_places() -> None:
    read = check(json.loads(FAULTY)).faults
    assert [(each.pointer, each.rule, each.message) for each in read] == [
        (each.pointer, each.rule, each.message) for each in validate(FAULTY).faults
    ]
    assert {(each.line, each.column) for each in read} == {(None, None)}


def test_no_message_repeats_a_value_of_a_password_or_a_long_text() -> None:
    document = with_variable(
        type="password", defval="hunter2", options="hunter2", required="hunter2"
    )
    document |= smallest(uuid="x" * 500, ociimage="y " * 500, version="z" * 500, tags="q" * 500)
    document["environment"] = {"KEY": {"type": "w" * 500}, "PASS": document["environment"]}
    document["k" * 500] = 1
    document["kubernetes"] = {"helm": {"chart": "c " * 500, "releaseName": "R" * 500, "s" * 500: 1}}
    for fault in check(document).faults:
        assert "hunter2" not in fault.message
        assert len(fault.message) < 260


def test_a_valid_report_gives_the_definition_and_an_invalid_one_raises_every_error() -> None:
    assert check(RICHEST).definition().executable == "true"
    with pytest.raises(InvalidDefinition) as raised:
        validate(FAULTY).definition()
    assert raised.value.faults == validate(FAULTY).faults


def test_a_report_is_ready_for_json() -> None:
    report = validate(FAULTY)
    assert json.loads(json.dumps(report.as_dict())) == {
        "valid": False,
        "faults": [fault.as_dict() for fault in report.faults],
        "warnings": [warning.as_dict() for warning in report.warnings],
    }


@pytest.mark.parametrize(
    ("source", "rule", "line", "column"),
    [
        ("", "syntax", 1, 1),
        ('{\n  "name": }', "syntax", 2, 11),
        ('{"a": 1,}', "syntax", 1, 8 if sys.version_info >= (3, 13) else 9),
        ("{'a': 1}", "syntax", 1, 2),
        ('{"a": "line\nbreak"}', "syntax", 1, 12),
        (b'{"a":\n "\xff"}', "encoding", 2, 3),
        (b'\xef\xbb\xbf{"a":\n "\xff"}', "encoding", 2, 3),
        ('{"a": "\ud800"}', "encoding", 1, 8),
        (" " * (MAX_BYTES + 1), "size", None, None),
    ],
)
def test_a_text_that_cannot_be_read_has_one_error_with_its_place(
    source: str | bytes, rule: str, line: int | None, column: int | None
) -> None:
    report = validate(source)
    fault = only(report.faults)
    assert (fault.pointer, fault.rule, fault.line, fault.column) == ("", rule, line, column)
    assert report.document is None
    assert report.warnings == ()


def test_a_byte_order_mark_does_no_harm() -> None:
    assert validate(b"\xef\xbb\xbf" + json.dumps(RICHEST).encode()).valid


def test_a_repeated_key_is_an_error_at_its_second_place() -> None:
    source = json.dumps(smallest(), indent=1).replace(
        '"environment": {}', '"environment": {\n "A/B": {},\n "A/B": {}}'
    )
    fault = next(each for each in validate(source).faults if each.rule == "duplicate")
    assert (fault.pointer, fault.message) == ("/environment", "the key 'A/B' occurs twice")
    assert source.splitlines()[fault.line - 1] == ' "A/B": {}}'  # type: ignore[operator]


@pytest.mark.parametrize("number", ["NaN", "Infinity", "-Infinity", "1e999", "9" * 5000])
def test_a_number_that_json_does_not_have_is_an_error(number: str) -> None:
    source = json.dumps(with_variable(defval="HERE"), indent=1).replace('"HERE"', number)
    fault = only(validate(source).faults)
    assert (fault.pointer, fault.rule) == ("/environment/KEY/defval", "number")
    assert number in source.splitlines()[fault.line - 1]  # type: ignore[operator]


@pytest.mark.parametrize("number", [math.nan, math.inf, 10**400])
def test_such_a_number_is_an_error_in_a_document_read_already(number: float) -> None:
    fault = only(check(with_variable(defval=[number])).faults)
    assert (fault.pointer, fault.rule) == ("/environment/KEY/defval/0", "number")


@pytest.mark.parametrize("text", ["a\x00b", "\ud83d"])
def test_a_character_that_no_database_keeps_is_an_error(text: str) -> None:
    fault = only(validate(json.dumps(smallest(author=text))).faults)
    assert (fault.pointer, fault.rule) == ("/author", "text")
    assert only(check(smallest(**{f"x{text}": 1})).faults).rule == "text"


def test_depth_is_limited_to_the_same_level_in_text_and_document() -> None:
    def nested(levels: int) -> dict[str, Any]:
        value: Any = 1
        for _ in range(levels):
            value = [value]
        return with_variable(defval=value)

    fitting, too_deep = nested(MAX_DEPTH - 3), nested(MAX_DEPTH - 2)
    assert check(fitting).valid
    assert validate(json.dumps(fitting)).valid
    assert only(check(too_deep).faults).rule == "depth"
    assert only(validate(json.dumps(too_deep)).faults).rule == "depth"


@pytest.mark.parametrize("levels", [100, 9_000])
def test_depth_is_limited_however_deep_python_reads(levels: int) -> None:
    assert only(validate("[" * levels + "]" * levels).faults).rule == "depth"


def test_a_document_that_contains_itself_is_refused() -> None:
    document = smallest()
    document["again"] = document
    assert {fault.rule for fault in check(document).faults} == {"depth"}
    document["more"] = [document, document]
    assert "size" in {fault.rule for fault in check(document).faults}


def test_a_document_of_too_many_values_is_refused() -> None:
    fault = only(check(smallest(extra=[0] * (MAX_VALUES + 1))).faults)
    assert (fault.pointer, fault.rule) == ("", "size")


def test_what_yaml_has_and_json_has_not_is_an_error() -> None:
    document = smallest(exitCodes={0: {"description": "x"}}, author=date(2026, 1, 1))
    faults = [(each.pointer, each.rule) for each in check(document).faults]
    assert ("/exitCodes", "key") in faults
    assert ("/author", "json") in faults


@pytest.mark.parametrize(
    "source",
    [
        '"' + '\\"' * 500_000,
        "{" * 50 + '"a' * 200_000,
        json.dumps({"environment": {f"k{number}": 7 for number in range(40_000)}}),
        json.dumps(smallest(homepage="http://" + "a@" * 200_000 + "[")),
        json.dumps(smallest(ociimage="a:" * 200_000 + "!")),
        json.dumps(smallest(version="1." * 200_000)),
        json.dumps(smallest(**{"exitCode" * 50_000: 1})),
    ],
    ids=["quotes", "strings", "faults", "uri", "image", "version", "member"],
)
def test_no_text_within_the_size_limit_takes_long(source: str) -> None:
    started = time.process_time()
    assert len(source) < MAX_BYTES
    assert len(validate(source).faults) <= 1000
    assert time.process_time() - started < 20, "a regular expression or a loop explodes"


@given(JSON)
def test_every_value_of_a_json_text_is_found_where_it_stands(value: Any) -> None:
    text = json.dumps(value, indent=1)
    positions = locate(text)

    def look(pointer: str, expected: Any) -> None:
        found, _ = json.JSONDecoder().raw_decode(text, positions.offset(pointer))
        assert found == expected
        if isinstance(expected, dict | list):
            steps = expected.items() if isinstance(expected, dict) else enumerate(expected)
            for step, item in steps:
                look(child(pointer, step), item)

    look("", value)


@given(JSON)
def test_any_json_at_all_gets_a_report_and_never_an_error(value: Any) -> None:
    for document in (value, {**RICHEST, "environment": value}, {**RICHEST, "exitCodes": value}):
        assert check(document).valid == validate(json.dumps(document)).valid


@given(st.text() | st.binary())
def test_any_text_at_all_gets_a_report_and_never_an_error(source: str | bytes) -> None:
    assert not validate(source).valid


def test_keys_are_read_without_validating_them() -> None:
    assert read_keys(FAULTY.encode()) == json.loads(FAULTY)


@pytest.mark.parametrize("text", ["", "[]", FAULTY.replace('"xx"', '"en"'), '{"name": 1e999}'])
def test_unreadable_keys_are_refused_with_every_fault(text: str) -> None:
    with pytest.raises(InvalidDefinition) as refused:
        read_keys(text.encode())
    assert refused.value.faults == validate(text).faults
