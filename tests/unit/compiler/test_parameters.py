"""Environment keys as flow parameters."""

import keyword
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jobauto_prefect.compiler import ParameterSchema, parameters
from jobauto_prefect.compiler.parameters import override_parameters, parameter_name
from jobauto_prefect.definitions import check, parse
from tests.support.documents import RICHEST, smallest, with_variable

KEYS = st.from_regex(r"[A-Z0-9_]{1,12}", fullmatch=True)


def compiled(language: str = "en", **members: Any) -> ParameterSchema:
    """The parameters of a definition with the one key KEY."""
    document = with_variable(**members)
    assert check(document).valid
    return parameters(parse(document), language)


def key(**members: Any) -> dict[str, Any]:
    """The property of the one key KEY, without what every property has."""
    content = dict(compiled(**members).schema["properties"]["KEY"])
    assert content.pop("title") == "Key"
    assert content.pop("description") == "`KEY`"
    assert content.pop("position") == 0
    return content


def choice(*values: Any, kind: str = "string", title: str = "text") -> dict[str, Any]:
    return {"title": title, "type": kind, "enum": list(values)}


def test_parameters_are_in_the_order_of_the_definition_and_no_form_asks_for_jobauto() -> None:
    environment: dict[str, Any] = {name: {} for name in ("Z", "A", "9", "M")}
    schema = parameters(parse(smallest(environment=environment))).schema
    assert list(schema["properties"]) == ["Z", "A", "p_9", "M"]
    assert [each["position"] for each in schema["properties"].values()] == [0, 1, 2, 3]
    assert schema["title"] == "Parameters"
    assert schema["type"] == "object"


def test_passwords_are_no_parameters() -> None:
    document = smallest(environment={"A": {"type": "password", "defval": "x"}, "B": {}})
    result = parameters(parse(document))
    assert result.parameter_keys == {"B": "B"}
    assert "A" not in result.schema["properties"]
    assert result.defaults == {}


@pytest.mark.parametrize(
    ("name", "parameter"),
    [("FOO", "FOO"), ("F1_", "F1_"), ("1FOO", "p_1FOO"), ("_FOO", "p__FOO"), ("_", "p__")],
)
def test_a_key_that_python_cannot_name_travels_with_a_prefix(name: str, parameter: str) -> None:
    result = parameters(parse(with_variable(name, type="integer", defval="7")))
    assert result.parameter_keys == {parameter: name}
    assert result.defaults == {parameter: 7}
    assert f"`{name}`" in result.schema["properties"][parameter]["description"]


@given(st.lists(KEYS, unique=True, max_size=20))
def test_every_legal_key_has_a_parameter_of_its_own_that_python_can_name(keys: list[str]) -> None:
    names = [parameter_name(each) for each in keys]
    assert len(set(names)) == len(keys)
    for name in names:
        assert name.isidentifier()
        assert not keyword.iskeyword(name)
        assert not name.startswith("_")
        assert name != "jobauto"


def test_a_required_key_is_required_also_with_a_default() -> None:
    assert compiled(required=True).schema["required"] == ["KEY"]
    assert compiled(required=True, defval="").schema["required"] == ["KEY"]
    assert compiled(required=True, defval="x").schema["required"] == ["KEY"]
    assert compiled(required=False).schema["required"] == []


@pytest.mark.parametrize(
    ("members", "expected"),
    [
        ({}, {"type": "string"}),
        ({"type": "string", "required": True}, {"type": "string"}),
        ({"type": "text"}, {"type": "string"}),
        ({"type": "email"}, {"type": "string", "format": "email"}),
        ({"type": "url"}, {"type": "string", "format": "uri"}),
        ({"type": "file-path"}, {"type": "string", "format": "file-path"}),
        ({"type": "integer"}, {"type": "integer"}),
        ({"type": "float"}, {"type": "number"}),
        ({"type": "bool"}, {"type": "boolean"}),
        (
            {"type": "integer", "required": True, "defval": "60"},
            {"type": "integer", "default": 60},
        ),
        ({"type": "bool", "defval": "False"}, {"type": "boolean"}),
        ({"type": "bool", "defval": "1", "required": True}, {"type": "boolean", "default": True}),
        ({"type": "integer", "defval": "60"}, {"type": "integer"}),
        ({"type": "string", "defval": "a"}, {"type": "string"}),
        (
            {"type": "integer", "required": True, "defval": "many"},
            {
                "anyOf": [
                    {"title": "whole number", "type": "integer"},
                    {"title": "text", "type": "string"},
                ],
                "default": "many",
            },
        ),
        (
            {"type": "email", "required": True, "defval": "nobody"},
            {"type": "string", "default": "nobody"},
        ),
        (
            {"type": "url", "required": True, "defval": "{BASE}/x"},
            {"type": "string", "default": "{BASE}/x"},
        ),
        ({"defval": {"a": [1]}, "required": True}, {"type": "string", "default": '{"a": [1]}'}),
    ],
)
def test_each_type_becomes_what_suits_a_form(
    members: dict[str, Any], expected: dict[str, Any]
) -> None:
    assert key(**members) == expected


@pytest.mark.parametrize(
    ("members", "expected"),
    [
        (
            {"type": "set", "required": True, "options": ["a", "b"]},
            {"type": "string", "enum": ["a", "b"]},
        ),
        (
            {"type": "set", "required": True, "options": ["a", "b"], "defval": "c"},
            {"type": "string", "enum": ["a", "b", "c"], "default": "c"},
        ),
        ({"type": "set", "options": ["a", "", "a"]}, {"type": "string", "enum": ["a", None]}),
        (
            {"type": "set", "options": ["a", "b"], "defval": "b"},
            {"type": "string", "enum": ["a", "b", None]},
        ),
        (
            {"type": "integer", "required": True, "options": ["1", 2], "defval": 2},
            {"type": "integer", "enum": [1, 2], "default": 2},
        ),
        (
            {"type": "integer", "options": ["1", "many"], "defval": "1"},
            {
                "anyOf": [
                    choice(1, kind="integer", title="whole number"),
                    choice("many"),
                ],
            },
        ),
        (
            {"type": "bool", "options": {"true": "true", "false": "false"}, "defval": "1"},
            {"type": "boolean"},
        ),
        ({"type": "set", "options": []}, {"type": "string"}),
        ({"type": "set", "options": {}, "defval": "", "required": True}, {"type": "string"}),
        ({"type": "set", "options": [""]}, {"type": "string"}),
    ],
)
def test_options_become_choices_that_include_the_default(
    members: dict[str, Any], expected: dict[str, Any]
) -> None:
    assert key(**members) == expected


def test_description_hint_and_labels_are_shown_in_the_asked_language() -> None:
    members = {
        "type": "set",
        "description": {"en": "What", "cs": "Co"},
        "hint": "e.g. a",
        "options": {"a": {"en": "First", "cs": "První"}, "b": "b"},
    }
    english = compiled("en", **members).schema["properties"]["KEY"]
    assert english["title"] == "What"
    assert english["description"] == "e.g. a\n\na: First\n\n`KEY`"
    czech = compiled("cs", **members).schema["properties"]["KEY"]
    assert czech["title"] == "Co"
    assert czech["description"] == "e.g. a\n\na: První\n\n`KEY`"


@pytest.mark.parametrize(
    ("description", "title", "rest"),
    [
        ("", "Days back", ""),
        ("days to look back:", "Days to look back", ""),
        ("Days back. None is all.", "Days back", "None is all."),
        ("Days back\nNone is all.", "Days back", "None is all."),
        ("e" * 81, "Days back", "e" * 81),
        ("Folder (např. Účty)", "Folder (např. Účty)", ""),
        ("Days, e.g. 5. Článek", "Days, e.g. 5. Článek", ""),
        ("Dny zpět. Články", "Dny zpět", "Články"),
        ("Short. " + "E" * 100, "Short", "E" * 100),
    ],
)
def test_a_title_is_the_first_sentence_or_the_words_of_the_key(
    description: str, title: str, rest: str
) -> None:
    environment = {"DAYS_BACK": {"description": description}}
    shown = parameters(parse(smallest(environment=environment))).schema["properties"]["DAYS_BACK"]
    assert (shown["title"], shown["description"]) == (
        title,
        f"{rest}\n\n`DAYS_BACK`" if rest else "`DAYS_BACK`",
    )


def test_parameters_that_would_be_called_alike_are_told_apart_by_their_keys() -> None:
    environment = {"A": {"description": "Login"}, "B": {"description": "login."}, "C": {}}
    properties = parameters(parse(smallest(environment=environment))).schema["properties"]
    assert [each["title"] for each in properties.values()] == ["Login (A)", "Login (B)", "C"]


def test_the_choices_of_an_array_need_no_explanation() -> None:
    key(type="set", options=["a", "b"])


def test_a_schema_says_which_values_a_deployment_may_hold() -> None:
    optional = compiled(type="set", options=["a"], defval="a")
    assert optional.accepts("KEY", "a")
    assert not optional.accepts("KEY", "b")
    required = compiled(type="integer", required=True)
    assert required.accepts("KEY", 1)
    assert not required.accepts("KEY", None)
    assert not required.accepts("KEY", "1")


def test_a_runs_own_values_are_typed_and_hold_no_secret_and_nothing_prefect_can_not_keep() -> None:
    kinds = {"N": "integer", "F": "float", "B": "bool", "1S": "string", "P": "password"}
    environment = {name: {"type": kind} for name, kind in kinds.items()}
    definition = parse(smallest(environment={**environment, "LONG": {}, "NUL": {}, "OTHER": {}}))
    given = {"N": "7", "F": "many", "B": "yes", "1S": "", "P": "hidden", "UNHEARD": "x"}
    refused = {"LONG": "x" * 60_000, "NUL": "a\0b"}
    assert override_parameters(definition, given | refused) == {
        "N": 7,
        "F": "many",
        "B": True,
        "p_1S": "",
    }


def test_compiling_again_gives_the_same_and_an_independent_schema() -> None:
    definition = parse(RICHEST)
    first, second = parameters(definition), parameters(definition)
    assert first == second
    next(iter(first.schema["properties"].values()))["position"] = 99
    assert second == parameters(definition)
