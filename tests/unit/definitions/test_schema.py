"""The schema itself, and the rules a mutation hardly meets."""

import re
from typing import Any

import pytest
from jsonschema import Draft7Validator

from jobauto_prefect.definitions import check, schema
from jobauto_prefect.definitions.validation.messages import SENTENCES
from jobauto_prefect.definitions.validation.record_files import RECORD_KINDS, record_schema
from tests.support.documents import smallest, with_variable
from tests.support.paths import ROOT

CODES = (
    "en cs sk de fr es it pl nl pt sv fi da no hu ro bg el tr hr sl et lt lv ru uk ja zh ko ar he"
    " hi"
)
LANGUAGES = CODES.split()
TYPES = "string file-path email url integer float bool password set text"


def nodes(value: Any) -> list[dict[str, Any]]:
    """Every object of the schema."""
    children = value.values() if isinstance(value, dict) else value
    below = [node for child in children if isinstance(child, dict | list) for node in nodes(child)]
    return [value, *below] if isinstance(value, dict) else below


def rules(document: Any) -> list[tuple[str, str]]:
    return [(fault.pointer, fault.rule) for fault in check(document).faults]


@pytest.mark.spec("2.1.1")
def test_the_published_schema_is_the_one_in_the_package() -> None:
    published = ROOT / "schemas" / "application.schema.json"
    packaged = ROOT / "jobauto_prefect" / "definitions" / "schemas" / "application.schema.json"
    assert published.read_bytes() == packaged.read_bytes()


@pytest.mark.spec("2.1.1")
def test_the_schema_is_a_draft_07_schema() -> None:
    Draft7Validator.check_schema(schema())
    assert schema()["$schema"] == "http://json-schema.org/draft-07/schema#"


def test_every_field_has_a_title_and_a_description_for_editors() -> None:
    fields = [
        (name, field)
        for node in nodes(schema())
        for name, field in node.get("properties", {}).items()
        if isinstance(field, dict) and name not in LANGUAGES and field != {"const": True}
    ]
    assert len(fields) > 70
    for name, field in fields:
        content = (
            schema()["definitions"][field["$ref"].split("/")[-1]] if "$ref" in field else field
        )
        assert content.get("title"), name
        assert content.get("description"), name


def test_every_pattern_means_the_whole_text_in_python_as_in_javascript() -> None:
    patterns = [node["pattern"] for node in nodes(schema()) if isinstance(node.get("pattern"), str)]
    assert len(patterns) > 10
    for pattern in patterns:
        assert pattern.startswith("^")
        assert pattern.endswith(r"$(?!\n)")
        assert not re.search(r"\\[wdsbWDSBAZz]", pattern), "these mean other things elsewhere"


def test_every_rule_of_the_schemas_has_a_sentence() -> None:
    structure = {"title", "description", "default", "items", "properties", "propertyNames"}
    structure |= {"$schema", "$ref", "definitions", "allOf", "if", "then", "const"}
    own = {"required", "additionalProperties"}
    schemas = [schema(), *map(record_schema, RECORD_KINDS)]
    names = {key for one in schemas for node in nodes(one) for key in node} - structure - own
    keywords = names & set(Draft7Validator.VALIDATORS)
    assert keywords == SENTENCES.keys()


@pytest.mark.parametrize("language", LANGUAGES)
def test_a_text_may_be_in_any_language_of_the_format(language: str) -> None:
    assert check(smallest(name={language: "x"})).valid


@pytest.mark.parametrize("code", ["EN", "en-GB", "xx", "hy", ""])
def test_no_other_language_code_is_allowed(code: str) -> None:
    assert rules(smallest(name={code: "x"})) == [("/name", "additionalProperties")]


def test_a_text_by_language_needs_one_language_at_least() -> None:
    assert rules(smallest(title={})) == [("/title", "minProperties")]


@pytest.mark.parametrize("kind", TYPES.split())
def test_every_type_of_the_format_is_accepted(kind: str) -> None:
    assert check(with_variable(type=kind)).valid


@pytest.mark.parametrize("category", ["API", "Database", "Behavior", "Security", "Other"])
def test_every_category_of_the_format_is_accepted(category: str) -> None:
    assert check(with_variable(category=category)).valid


@pytest.mark.spec("9.2")
def test_a_definition_is_judged_by_this_version_whatever_its_schema_version_says() -> None:
    for version in ("1.0.0", "3.4.0", "9.9", "whatever"):
        document = smallest(schemaVersion=version, ociimage="")
        assert rules(document) == [("/ociimage", "pattern")]


@pytest.mark.spec("2.1.3")
def test_every_missing_field_is_an_error_of_its_own() -> None:
    messages = [fault.message for fault in check({}).faults]
    assert messages == [
        f"the key {name!r} is missing"
        for name in ("$schema", "name", "description", "executable", "environment")
    ]


@pytest.mark.spec("2.1.60")
def test_an_enabled_release_needs_chart_and_name() -> None:
    def with_helm(**helm: Any) -> dict[str, Any]:
        return smallest(kubernetes={"helm": helm})

    assert check(with_helm(enabled=False)).valid
    assert check(with_helm()).valid
    assert [fault.message for fault in check(with_helm(enabled=True)).faults] == [
        "the key 'chart' is missing",
        "the key 'releaseName' is missing",
    ]
    assert check(with_helm(enabled=True, chart="a/b", releaseName="r")).valid
