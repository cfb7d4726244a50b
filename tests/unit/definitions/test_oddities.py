"""Warnings: what is legal but surely wrong."""

from typing import Any

import pytest

from jobauto_prefect.definitions import INJECTED, check, validate
from tests.support.corpus import needs_corpus, source, verdicts
from tests.support.documents import RICHEST, smallest, with_variable


def warned(document: Any) -> list[tuple[str, str]]:
    return [(warning.pointer, warning.rule) for warning in check(document).warnings]


def test_a_document_with_every_field_gets_no_warning() -> None:
    assert check(RICHEST).warnings == ()


@pytest.mark.parametrize(
    ("member", "meant"),
    [
        ("exitcodes", "exitCodes"),
        ("returnCodes", "exitCodes"),
        ("exit_codes", "exitCodes"),
        ("topics", "tags"),
        ("cmdparams", "cmdparamsTemplate"),
        ("Homepage", "homepage"),
        ("enviroment", "environment"),
        ("ociImage", "ociimage"),
    ],
)
def test_a_field_close_to_a_known_one_is_pointed_out(member: str, meant: str) -> None:
    warnings = check(smallest(**{member: {}})).warnings
    assert [(each.pointer, each.rule) for each in warnings] == [(f"/{member}", "unknown-member")]
    assert f"'{meant}'" in warnings[0].message


@pytest.mark.parametrize("member", ["setup", "deploy", "multiflexi", "repository", "code", "x"])
def test_fields_of_ones_own_get_no_warning(member: str) -> None:
    assert warned(smallest(**{member: ""})) == []


def test_a_misspelt_field_of_a_variable_or_of_an_output_is_pointed_out() -> None:
    assert warned(with_variable(deval=1)) == [("/environment/KEY/deval", "unknown-member")]
    produces = {"out": {"format": "json", "pattern": ["x"]}}
    assert warned(smallest(produces=produces)) == [("/produces/out/pattern", "unknown-member")]


def test_a_target_that_is_no_environment_key_is_pointed_out() -> None:
    consumes = {
        "in": {
            "format": "json",
            "target": "NOWHERE",
            "fields": {"a": {"target": "KEY"}, "b": {"target": "Key"}},
        }
    }
    assert warned(with_variable() | {"consumes": consumes}) == [
        ("/consumes/in/target", "unknown-target"),
        ("/consumes/in/fields/b/target", "unknown-target"),
    ]


@pytest.mark.parametrize(
    ("members", "rule"),
    [
        ({"type": "integer", "defval": "many"}, "default-type"),
        ({"type": "integer", "defval": 1.5}, "default-type"),
        ({"type": "float", "defval": "1,5"}, "default-type"),
        ({"type": "bool", "defval": "maybe"}, "default-type"),
        ({"type": "email", "defval": "nobody"}, "default-type"),
        ({"type": "url", "defval": "example.org"}, "default-type"),
        ({"type": "set", "defval": "c", "options": ["a", "b"]}, "default-option"),
        ({"type": "set", "defval": "A", "options": {"a": "A"}}, "default-option"),
        ({"type": "integer", "defval": 3, "options": ["1", "2"]}, "default-option"),
    ],
)
def test_a_default_that_fits_neither_type_nor_options_is_pointed_out(
    members: dict[str, Any], rule: str
) -> None:
    assert warned(with_variable(**members)) == [("/environment/KEY/defval", rule)]


@pytest.mark.parametrize(
    "members",
    [
        {"type": "integer", "defval": "60"},
        {"type": "integer", "defval": ""},
        {"type": "bool", "defval": "False"},
        {"type": "bool", "defval": True, "options": {"true": "Yes", "false": "No"}},
        {"type": "float", "defval": 3},
        {"type": "email", "defval": "a@example.org, b@example.org"},
        {"type": "url", "defval": "https://example.org"},
        {"type": "url", "defval": "{KEY}"},
        {"type": "set", "defval": None, "options": ["a"]},
        {"type": "set", "defval": "a", "options": ["a"]},
        {"type": "integer", "defval": "2", "options": [1, 2]},
        {"type": "set", "defval": "{JOBAUTO_JOB_ID}", "options": ["a"]},
        {"type": "password", "defval": "anything"},
        {"defval": {"any": "thing"}},
    ],
)
def test_a_fitting_default_gets_no_warning(members: dict[str, Any]) -> None:
    assert warned(with_variable(**members)) == []


def test_a_warning_about_a_default_does_not_repeat_it() -> None:
    document = with_variable(type="integer", defval="hunter2")
    assert "hunter2" not in check(document).warnings[0].message


def test_exit_codes_that_no_process_has_or_that_are_there_twice_are_pointed_out() -> None:
    codes = {code: {"description": "x", "severity": "info"} for code in ("255", "256", "1", "01")}
    codes["9" * 5000] = {"description": "x"}
    assert warned(smallest(exitCodes=codes)) == [
        ("/exitCodes/256", "exit-code"),
        ("/exitCodes/01", "exit-code"),
        (f"/exitCodes/{'9' * 5000}", "exit-code"),
    ]


def test_success_declared_without_a_severity_is_pointed_out() -> None:
    document = smallest(exitCodes={"0": {"description": "Fine"}, "1": {"description": "Not"}})
    assert warned(document) == [("/exitCodes/0", "success-without-severity")]


@pytest.mark.parametrize("name", [*sorted(INJECTED)[:3], "KEY"])
def test_a_placeholder_of_a_known_name_gets_no_warning(name: str) -> None:
    document = with_variable() | {"cmdparamsTemplate": f"-a ${{{name}}} {{{name}}}"}
    assert warned(document) == []


def test_a_placeholder_that_names_nothing_is_pointed_out() -> None:
    document = with_variable() | {
        "cmdparamsTemplate": '${KEY} ${key} {NOTHING} {"json": 1} a{2,3} b{2} ${JOBAUTO_X}',
        "artifacts": [
            {"name": "a", "path": "x{2}{ABC}.json", "type": "file"},
            {"name": "b", "path": "${KEYS}.json", "type": "file"},
        ],
    }
    assert [(each.pointer, each.message.split("'")[1]) for each in check(document).warnings] == [
        ("/cmdparamsTemplate", "key"),
        ("/cmdparamsTemplate", "JOBAUTO_X"),
        ("/cmdparamsTemplate", "NOTHING"),
        ("/artifacts/1/path", "KEYS"),
    ]


@pytest.mark.parametrize(
    ("version", "warns"),
    [("3.4.0", False), ("3.4", False), ("1.0", False), ("3.4.1", True), ("4", True), ("new", True)],
)
def test_only_a_newer_or_unreadable_schema_version_gets_a_warning(
    version: str, warns: bool
) -> None:
    expected = [("/schemaVersion", "schema-version")] if warns else []
    assert warned(smallest(schemaVersion=version)) == expected


def test_an_invalid_document_gets_its_warnings_too_with_their_lines() -> None:
    warnings = validate(
        '{\n"topics": 1,\n"consumes": 7, "exitCodes": [], "artifacts": {}}'
    ).warnings
    assert [(each.pointer, each.line) for each in warnings] == [("/topics", 2)]


@needs_corpus
def test_real_valid_definitions_get_the_warnings_they_deserve_and_no_others() -> None:
    found = {
        (entry["file"].split("__")[1], warning.pointer, warning.rule)
        for entry in verdicts()
        if entry["verdict"] == "valid"
        for warning in validate(source(entry["file"])).warnings
    }
    assert {(pointer, rule) for _, pointer, rule in found} == {
        ("/exitcodes", "unknown-member"),
        ("/cmdparams", "unknown-member"),
        ("/topics", "unknown-member"),
        ("/environment/LOCALIZE/defval", "default-option"),
        ("/exitCodes/400", "exit-code"),
    }
