"""Words agree with numbers."""

import pytest

from jobauto_prefect.wording import pluralize


@pytest.mark.parametrize(
    ("number", "text"),
    [(0, "0 faults"), (1, "1 fault"), (2, "2 faults"), (1.0, "1 fault"), (0.5, "0.5 faults")],
)
def test_a_noun_agrees_with_its_number(number: float, text: str) -> None:
    assert pluralize(number, "fault") == text


def test_an_odd_plural_and_none_at_all_are_said() -> None:
    assert pluralize(2, "company", "companies") == "2 companies"
    assert pluralize(0, "fault", zero="no") == "no faults"
