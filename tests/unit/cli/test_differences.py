"""Definitions compared, member by member."""

import copy
from typing import Any

import pytest
from hypothesis import given

from jobauto_prefect.cli.files.differences import Difference, find_differences
from tests.support.documents import JSON_DOCUMENTS, RICHEST


def found(before: Any, after: Any) -> list[Difference]:
    return list(find_differences(before, after))


def test_each_changed_field_is_named_by_its_place() -> None:
    after = copy.deepcopy(RICHEST)
    after["version"] = "2"
    after["environment"]["NEW"] = {"type": "text"}
    del after["environment"]["LEVEL"]["hint"]
    assert sorted(found(RICHEST, after), key=lambda each: each.pointer) == [
        Difference("/environment/LEVEL/hint", "remove", before="low is enough"),
        Difference("/environment/NEW", "add", after={"type": "text"}),
        Difference("/version", "change", "1.20.0.3", "2"),
    ]


def test_an_entry_put_into_an_array_changes_no_other_entry() -> None:
    assert found({"tags": ["a", "b"]}, {"tags": ["x", "a", "b"]}) == [
        Difference("/tags/0", "add", after="x")
    ]
    assert found([{"a": 1, "b": 2}, 7], [{"a": 1, "b": 3}]) == [
        Difference("/0/b", "change", 2, 3),
        Difference("/1", "remove", before=7),
    ]


def test_the_order_of_fields_counts_below_the_top() -> None:
    assert found({"a": 1, "b": 2}, {"b": 2, "a": 1}) == []
    assert found({"e": {"A": 1, "B": 2}}, {"e": {"B": 2, "A": 1}}) == [
        Difference("/e", "order", ["A", "B"], ["B", "A"])
    ]


@pytest.mark.parametrize(("one", "other"), [(1, True), (1, 1.0), (None, ""), ({}, [])])
def test_values_that_are_written_differently_differ(one: Any, other: Any) -> None:
    assert found({"a": one}, {"a": other}) == [Difference("/a", "change", one, other)]


@given(JSON_DOCUMENTS, JSON_DOCUMENTS)
def test_a_document_differs_from_others_and_not_from_itself(before: Any, after: Any) -> None:
    assert found(before, before) == []
    assert bool(found({"x": before}, {"x": after})) == (repr(before) != repr(after))


def test_people_see_short_values_side_by_side_and_long_ones_below_each_other() -> None:
    short = Difference("/a", "change", 1, "é")
    long = Difference("/a", "change", "b" * 40, "c" * 40)
    assert list(short.lines()) == ['~ /a: 1 → "é"']
    assert [line.strip()[:4] for line in long.lines()] == ["~ /a", '- "b', '+ "c']
    assert Difference("/a", "add", after=[]).as_dict() == {
        "pointer": "/a",
        "change": "add",
        "after": [],
    }
