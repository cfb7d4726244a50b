"""YAML that is written is read as what it was."""

import json
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from jobauto_prefect.facade.apply.yaml_parser import YamlError, dump_all, load_all

TEXTS = st.text(st.characters(codec="utf-8", exclude_categories=["Cs", "Cc"])) | st.sampled_from(
    ["no", "on", "y", "~", "null", "12:30", "1e5", "0x1f", "007", "2026-01-01", "<<", "a\nb\n", ""]
)
NUMBERS = st.integers(-(2**53), 2**53) | st.floats(allow_nan=False, allow_infinity=False)
VALUES = st.recursive(
    st.none() | st.booleans() | NUMBERS | TEXTS,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(TEXTS, inner, max_size=4),
    max_leaves=12,
)
RECORDS = st.lists(st.dictionaries(TEXTS, VALUES, min_size=1, max_size=4), min_size=1, max_size=3)


@given(RECORDS)
def test_json_values_come_back_as_they_were(records: list[dict[str, Any]]) -> None:
    read = [content for content, _ in load_all(dump_all(records))]

    assert json.dumps(read) == json.dumps(records)


@pytest.mark.parametrize("text", ["no", "on", "12:30", "1e5", "007", "2026-01-01", "0x1f"])
def test_other_readers_take_texts_for_texts_too(text: str) -> None:
    assert list(yaml.safe_load_all(dump_all([{"value": text}]))) == [{"value": text}]


def test_texts_of_several_lines_are_readable() -> None:
    assert dump_all([{"note": "one\ntwo\n"}]) == "---\nnote: |\n  one\n  two\n"


@pytest.mark.parametrize(
    ("first", "grown"),
    [("[x, x, x, x, x, x, x, x, x, x]", "[{}]"), ("{x: 1, y: 2}", "{{<<: [{}]}}")],
)
def test_aliases_and_merges_that_grow_without_end_are_refused(first: str, grown: str) -> None:
    lines = [f"a0: &a0 {first}"]
    lines += [f"a{n}: &a{n} {grown.format(', '.join([f'*a{n - 1}'] * 10))}" for n in range(1, 12)]

    with pytest.raises(YamlError, match="more than 1000000 values"):
        list(load_all("\n".join(lines)))


def test_what_holds_itself_is_refused() -> None:
    with pytest.raises(YamlError, match="for a value that contains it"):
        list(load_all("a: &a [1, *a]"))


def test_aliases_within_reason_are_written_out() -> None:
    ((content, _),) = load_all("a: &a [1, 2]\nb: *a\n")

    assert content == {"a": [1, 2], "b": [1, 2]}


def test_a_key_beside_a_merged_mapping_overrides_it_where_it_stands() -> None:
    ((content, places),) = load_all("- &base {name: One, note: x}\n- <<: *base\n  name: Two\n")

    assert content[1] == {"name": "Two", "note": "x"}
    assert places["/1/name"] == (3, 9)


def test_a_key_that_is_twice_beside_a_merged_mapping_is_an_error() -> None:
    with pytest.raises(YamlError, match="twice"):
        list(load_all("- &base {a: 1}\n- {<<: *base, b: 1, b: 2}\n"))


@pytest.mark.parametrize(
    ("value", "message"),
    [
        ("9" * 5000, "is a number of 5000 digits"),
        ("!!int abc", "is not a value for the tag !!int: 'abc'"),
        ('!!int ""', "is not a value for the tag !!int: ''"),
        ("!!float 1:30.5", "is not a value for the tag !!float"),
        ("!!bool maybe", "is not a value for the tag !!bool"),
        ("!!timestamp 2020-13-45", "has the tag !!timestamp, which JSON has no type for"),
        ('!!binary "aGk="', "has the tag !!binary"),
        ("!!set {a, b}", "has the tag !!set"),
        ("!custom x", "has the tag !custom"),
        (r'"\U00110000"', "has an escape sequence that is not a character"),
        (r'"\UFFFFFFFF"', "has an escape sequence that is not a character"),
    ],
    ids=lambda text: text[:20],
)
@pytest.mark.parametrize("place", ["a: {}\n", "? {}\n: a\n"], ids=["value", "key"])
def test_what_is_no_value_of_json_is_an_error_with_its_line(
    value: str, message: str, place: str
) -> None:
    with pytest.raises(YamlError) as refused:
        list(load_all("first: 1\n" + place.replace("{}", value)))

    assert message in str(refused.value)
    assert refused.value.line == 2


def test_a_tag_says_of_which_type_of_json_a_word_is() -> None:
    ((content, _),) = load_all("[!!str 5, !!int 5, !!float 5, !!bool TRUE, !!null ~, !!map {}]")

    assert content == ["5", 5, 5.0, True, None, {}]
    assert isinstance(content[2], float)
