"""What is known of a JSON text, and of a path into it, before anything is made of them."""

import json
from typing import Any

import pytest

from jobauto_prefect.definitions.storable import MAX_VALUES, has_many_values
from jobauto_prefect.definitions.validation.json_paths import most_steps

TEXT = '[],{"a": \\"'


@pytest.mark.parametrize(
    ("document", "expected"),
    [
        ([0] * (MAX_VALUES + 1), True),
        ([[]] * (MAX_VALUES + 1), True),
        ({str(number): number for number in range(3 * MAX_VALUES)}, True),
        ([0] * (MAX_VALUES - 1), False),
        ({str(number): "" for number in range(MAX_VALUES - 1)}, False),
        ([TEXT * 500] * 500, False),
        (TEXT * MAX_VALUES, False),
        ("\\" * MAX_VALUES, False),
    ],
)
def test_a_text_of_many_values_is_known_by_its_marks(document: Any, expected: bool) -> None:
    assert has_many_values(json.dumps(document).encode()) is expected


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
