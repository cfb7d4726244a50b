"""Typed values, environment text, localized text."""

import json
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jobauto_prefect.definitions import (
    Option,
    Variable,
    VariableType,
    check,
    coerce,
    default_value,
    fits,
    parse,
    pick_text,
    to_text,
)
from tests.support.documents import RICHEST, smallest, with_variable

TYPES = st.sampled_from(VariableType)
RAW = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text()
    | st.from_regex(r"[+-]?[0-9]{0,20}\.?[0-9]{0,20}(e[0-9]{1,4})?", fullmatch=True),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=5,
)


def variable(kind: str, default: Any = None) -> Variable:
    return Variable(key="KEY", type=VariableType(kind), default=default)


@pytest.mark.parametrize(
    ("kind", "raw", "expected"),
    [
        *[("bool", raw, True) for raw in (True, "true", "True", "YES", "on", "1", 1, " t ", "y")],
        *[("bool", raw, False) for raw in (False, "false", "No", "off", "0", 0, "f", "n")],
        ("bool", "maybe", "maybe"),
        ("bool", 2, "2"),
        ("integer", "60", 60),
        ("integer", " 60 ", 60),
        ("integer", 60.0, 60),
        ("integer", "6e1", 60),
        ("integer", "-0", 0),
        ("integer", "007", 7),
        ("integer", "1.5", "1.5"),
        ("integer", "many", "many"),
        ("integer", True, "true"),
        ("integer", "12345678901234567890", "12345678901234567890"),
        ("integer", "9" * 5000, "9" * 5000),
        ("integer", "1e999", "1e999"),
        ("integer", "٣", "٣"),
        ("float", "1.50", 1.5),
        ("float", 3, 3.0),
        ("float", ".5", 0.5),
        ("float", "nan", "nan"),
        ("float", "inf", "inf"),
        ("float", "0.1000000000000000000001", "0.1000000000000000000001"),
        ("string", 5, "5"),
        ("string", True, "true"),
        ("text", [1, "á"], '[1, "á"]'),
        ("set", 5, "5"),
        ("url", "https://example.org", "https://example.org"),
    ],
)
def test_a_raw_value_is_read_as_its_type(kind: str, raw: Any, expected: Any) -> None:
    value = coerce(variable(kind), raw)
    assert value == expected
    assert type(value) is type(expected)


@given(TYPES, st.sampled_from([None, "", "  ", "\n"]))
def test_nothing_and_empty_text_are_none_in_every_type(kind: VariableType, raw: Any) -> None:
    assert coerce(Variable(key="K", type=kind), raw) is None


@given(TYPES, RAW)
def test_a_coerced_value_is_stable_and_of_its_type_or_the_text_it_was(
    kind: VariableType, raw: Any
) -> None:
    asked = Variable(key="K", type=kind)
    value = coerce(asked, raw)
    assert coerce(asked, value) == value
    assert coerce(asked, to_text(value)) == value
    if not fits(asked, value):
        assert value == to_text(raw)


@given(st.sampled_from(["integer", "float"]), RAW)
def test_a_coerced_number_is_exactly_the_number_that_was_written(kind: str, raw: Any) -> None:
    value = coerce(variable(kind), raw)
    if isinstance(value, int | float):
        assert Decimal(repr(value)) == Decimal(to_text(raw).strip())
        assert json.loads(json.dumps(value)) == value


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (True, "true"),
        (False, "false"),
        (None, ""),
        (5, "5"),
        (5.0, "5"),
        (-0.5, "-0.5"),
        (10**20, "100000000000000000000"),
        ("as it is\n", "as it is\n"),
        ([1, True, None], "[1, true, null]"),
        ({"č": 1}, '{"č": 1}'),
    ],
)
def test_a_typed_value_becomes_environment_text(value: Any, expected: str) -> None:
    assert to_text(value) == expected


def test_an_empty_default_is_none() -> None:
    assert default_value(variable("integer", "")) is None
    assert default_value(variable("integer", "3")) == 3


def test_options_are_read_in_both_forms() -> None:
    def options(raw: Any) -> tuple[Option, ...]:
        return parse(with_variable(options=raw)).environment["KEY"].options

    assert options({"a": "A", "b": {"cs": "Bé"}, "c": 1, "d": {}}) == (
        Option("a", "A"),
        Option("b", {"cs": "Bé"}),
        Option("c", "1"),
        Option("d", "{}"),
    )
    assert options(["a", 1, True, {"value": 5, "label": {"en": "Five"}}, {"value": "x"}]) == (
        Option("a", "a"),
        Option("1", "1"),
        Option("true", "true"),
        Option("5", {"en": "Five"}),
        Option("x", "x"),
    )


def test_a_definition_says_everything_its_document_says() -> None:
    definition = parse(RICHEST)
    assert definition.name == {"cs": "Všechno"}
    assert list(definition.environment) == ["LEVEL", "1FOO", "_"]
    assert definition.environment["LEVEL"].required
    assert definition.environment["_"].type is VariableType.STRING
    assert definition.exit_codes[75].retry
    assert definition.exit_codes[75].severity == "error"
    assert definition.exit_codes[0].severity.fulfils
    assert definition.artifacts[0].path == "r.json"
    assert definition.emits.keys() == {"rich.done"}
    assert definition.document == RICHEST


def test_what_a_document_leaves_out_is_empty() -> None:
    definition = parse(smallest())
    assert [definition.environment, definition.exit_codes, definition.produces] == [{}, {}, {}]
    assert (definition.artifacts, definition.tags, definition.command_template) == ((), (), "")
    assert definition.uuid is definition.version is None


def test_exit_codes_no_process_can_return_are_left_out() -> None:
    codes = {"007": {"description": "x"}, "9" * 6000: {"description": "y"}}
    document = smallest(exitCodes=codes)
    assert check(document).valid
    assert parse(document).exit_codes.keys() == {7}


TEXTS = {"de": "Hallo", "cs": "Ahoj", "en": "Hello", "no": "Hei", "sk": ""}


@pytest.mark.parametrize(
    ("language", "expected"),
    [
        ("cs", "Ahoj"),
        ("CS", "Ahoj"),
        ("cs-CZ", "Ahoj"),
        ("cs_CZ.UTF-8", "Ahoj"),
        ("nb-NO", "Hei"),
        ("fr", "Hello"),
        ("sk", "Hello"),
        ("", "Hello"),
    ],
)
def test_a_text_is_found_in_the_asked_language_then_its_base_then_english(
    language: str, expected: str
) -> None:
    assert pick_text(TEXTS, language) == expected


def test_without_english_the_first_text_of_the_document_is_taken() -> None:
    assert pick_text({"pl": "", "de": "Hallo", "cs": "Ahoj"}, "fr") == "Hallo"
    assert pick_text({"pl": ""}, "fr") == ""
    assert pick_text("plain", "fr") == "plain"
