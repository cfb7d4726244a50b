"""Words agree with numbers."""

import re

import pytest

from jobauto_prefect.wording import pluralize
from tests.support.paths import ROOT

PACKAGE = ROOT / "jobauto_prefect"
BY_HAND = re.compile(r"""\(s\)["' ]|["']s["'] if|["']{2} if \w+ == 1 else ["']s["']""")


@pytest.mark.parametrize(
    ("number", "text"),
    [(0, "0 faults"), (1, "1 fault"), (2, "2 faults"), (1.0, "1 fault"), (0.5, "0.5 faults")],
)
def test_a_noun_agrees_with_its_number(number: float, text: str) -> None:
    assert pluralize(number, "fault") == text


def test_an_odd_plural_and_none_at_all_are_said() -> None:
    assert pluralize(2, "company", "companies") == "2 companies"
    assert pluralize(0, "fault", zero="no") == "no faults"


def test_nobody_else_makes_plurals() -> None:
    made = [
        path.name
        for path in PACKAGE.rglob("*.py")
        if path.name != "wording.py" and BY_HAND.search(path.read_text())
    ]
    assert made == []
