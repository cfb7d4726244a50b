"""What is known of a JSON text, and of a path into it, before anything is made of them."""

import json
import sys
from collections.abc import Callable
from typing import Any

import pytest

from jobauto_prefect.definitions.storable import (
    MAX_VALUES,
    has_many_values,
    unstorable,
    write_exact,
)
from jobauto_prefect.definitions.validation.json_paths import most_steps
from jobauto_prefect.definitions.validation.report import MOST_VALUES, check, validate

TEXT = '[],{"a": \\"'


@pytest.mark.parametrize(
    ("make", "expected"),
    [
        (lambda: [0] * (MAX_VALUES + 1), True),
        (lambda: [[]] * (MAX_VALUES + 1), True),
        (lambda: {str(number): number for number in range(3 * MAX_VALUES)}, True),
        (lambda: [0] * (MAX_VALUES - 1), False),
        (lambda: {str(number): "" for number in range(MAX_VALUES - 1)}, False),
        (lambda: [TEXT * 500] * 500, False),
        (lambda: TEXT * MAX_VALUES, False),
        (lambda: "\\" * MAX_VALUES, False),
    ],
)
def test_a_text_of_many_values_is_known_by_its_marks(
    make: Callable[[], Any], expected: bool
) -> None:
    assert has_many_values(json.dumps(make()).encode()) is expected


@pytest.mark.parametrize("path", ["$.a.b", "$.lines[*].id", "$.lines[?@.price > 10].id", "$[-1:]"])
def test_a_plain_path_takes_a_step_per_value_and_selector(path: str) -> None:
    assert most_steps(path, 1000) <= 5000


@pytest.mark.parametrize(
    "path",
    [
        "$..[?count(@..[*,*,*,*])>9999999]",
        "$[?@.a == $..b]",
        "$.lines[?search(@.name, 'a+')]",
        "$[*,*,*,*,*]",
    ],
)
def test_a_path_that_looks_at_everything_again_takes_many(path: str) -> None:
    assert most_steps(path, 1000) >= 1_000_000


def calls_of(work: Callable[[Any], Any], value: Any) -> int:
    """How many functions written in Python are called."""
    calls = [0]

    def count(_frame: Any, event: str, _argument: Any) -> None:
        calls[0] += event == "call"

    sys.setprofile(count)
    try:
        work(value)
    finally:
        sys.setprofile(None)
    return calls[0]


@pytest.mark.parametrize("work", [lambda value: list(unstorable(value)), write_exact])
@pytest.mark.parametrize("value", [7, "text", None, 1.5, True])
def test_many_values_are_judged_and_written_without_a_call_for_each(
    work: Callable[[Any], Any], value: Any
) -> None:
    """A body has 100,000, and while one thread reads it all others wait for the interpreter."""
    assert calls_of(work, {"values": [value] * 1000, "more": {"n": value}}) < 1100
    assert calls_of(lambda values: list(unstorable(values)), [value] * 1000) < 20


def test_a_definition_of_many_values_is_refused_before_it_is_judged() -> None:
    document = {"tags": ["x"] * MOST_VALUES}
    for report in (validate(json.dumps(document)), check(document)):
        assert [fault.rule for fault in report.faults] == ["size"]
    assert "size" not in {fault.rule for fault in check({"tags": ["x"] * 900}).faults}
