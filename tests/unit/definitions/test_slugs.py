"""Slugs of names, and the codes the published dialect shows."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jobauto_prefect.definitions.records.names import (
    CODE,
    LONGEST,
    append_number,
    code_of,
    parse_company_ids,
    slug_of,
)


@pytest.mark.parametrize(
    ("name", "slug"),
    [
        ("Acme Ltd.", "acme-ltd"),
        ("Účetní s.r.o.", "ucetni-s-r-o"),
        ("  --A__b/ß&C--", "a-b-c"),
        ("東京", ""),
        ("x" * 200, "x" * 64),
        ("a" * 63 + " b", "a" * 63),
    ],
)
def test_a_slug_is_the_name_in_small_ascii_letters(name: str, slug: str) -> None:
    assert slug_of(name) == slug


def test_a_number_keeps_the_length() -> None:
    assert append_number("acme", 2) == "acme-2"
    assert append_number("x" * 64, 10) == "x" * 61 + "-10"
    assert append_number("x" * 60 + "-xyz", 1000) == "x" * 59 + "-1000"


def test_a_code_is_a_short_slug_or_its_beginning_and_the_id() -> None:
    assert code_of("acme-limit", 7) == "acme-limit"
    assert code_of("acme-limited", 46) == "acme-li01a"
    assert code_of("acme-limited", 36**3) == "acme-l1000"


@given(st.from_regex(r"[A-Za-z0-9][A-Za-z0-9_-]{10,63}", fullmatch=True), st.integers(1, 2**31 - 1))
def test_a_code_leads_back_to_its_company(slug: str, company_id: int) -> None:
    code = code_of(slug, company_id)
    assert len(code) == CODE
    assert company_id in parse_company_ids(code)


@given(st.text())
def test_anything_is_a_name_and_may_be_asked_for_as_a_code(text: str) -> None:
    assert len(slug_of(text)) <= LONGEST
    assert all(number >= 0 for number in parse_company_ids(text))
