"""People's regular expressions end in time, whatever they are."""

import pytest

from jobauto_prefect.compiler.events.job_outputs import (
    JobOutputs,
    find_file,
    read_outputs,
    selector_scope,
)
from jobauto_prefect.definitions import PatternMatcher, VariableType, pattern_of
from jobauto_prefect.definitions.patterns import LONGEST
from jobauto_prefect.definitions.values import _FITTING

ENDLESS = "(x|xx)+!"
PATH = "x" * 60


def test_the_paths_that_a_pattern_matches_whole_come_in_their_order() -> None:
    paths = ["a.json", "b.json.old", "c.json"]
    assert list(PatternMatcher().matching(pattern_of(r".*\.json"), paths)) == ["a.json", "c.json"]
    assert list(PatternMatcher().matching(pattern_of("*.json"), paths)) == ["a.json", "c.json"]
    assert list(PatternMatcher().matching("(", paths)) == []


def test_what_is_longer_than_a_pattern_matches_nothing() -> None:
    assert list(PatternMatcher().matching("x" * (LONGEST + 1), ["x" * (LONGEST + 1)])) == []


def test_all_patterns_together_have_an_end() -> None:
    matcher = PatternMatcher(seconds=0.2)
    for _ in range(1000):
        with pytest.raises(TimeoutError):
            list(matcher.matching(ENDLESS, [PATH]))
    with pytest.raises(TimeoutError):
        list(matcher.matching("a", ["a"]))


def test_a_definition_of_endless_patterns_finds_nothing() -> None:
    entries = {str(one): {"format": "json", "patterns": [ENDLESS] * 10} for one in range(10)}
    left = JobOutputs([PATH], lambda _path: b"{}", None, "", matcher=PatternMatcher(seconds=0.2))
    assert read_outputs(entries, left).values == {}
    assert find_file("0", entries, left) is None


def test_a_rule_names_a_file_that_no_endless_pattern_finds() -> None:
    entries = {"out": {"patterns": [ENDLESS]}}
    offer = selector_scope({"environment": {}, "produces": entries})
    assert not offer.is_file(PATH)
    assert offer.is_file("x!")


def test_a_long_text_that_is_no_address_is_told_at_once() -> None:
    is_address = _FITTING[VariableType.EMAIL]
    assert is_address("a@b")
    assert not is_address("a:" * 1_000_000)
