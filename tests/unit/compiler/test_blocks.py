"""Block types and blocks: what Prefect refuses is replaced, what is secret is left out."""

import re
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from jobauto_prefect.compiler.blocks import REFERENCE, TypeFacts, block_plan, block_type_plan

FIELDS: list[dict[str, Any]] = [
    {"keyword": "HOST", "name": {"en": "Host", "cs": "Stroj"}, "hint": "a.example"},
    {"keyword": "PORT", "type": "integer", "default_value": "3306"},
    {"keyword": "MODE", "type": "set", "options": {"a": "A", "b": "B"}},
    {"keyword": "PIN", "type": "secret", "default_value": "0000"},
]


def facts(name: str = "Bank", code: str = "Bank", **more: Any) -> TypeFacts:
    given_ = {"description": None, "logo": None, "homepage": None, "fields": FIELDS}
    return TypeFacts(type_id=7, code=code, name=name, language="cs", **(given_ | more))


def test_the_form_has_titles_types_and_choices_and_no_secret_field() -> None:
    properties = block_type_plan(facts()).schema["properties"]
    assert properties["HOST"] == {"title": "Stroj", "type": "string", "description": "a.example"}
    assert (properties["PORT"]["type"], properties["PORT"]["default"]) == ("integer", 3306)
    assert properties["MODE"]["enum"] == ["a", "b"]
    assert set(properties) == {"HOST", "PORT", "MODE", REFERENCE}


def test_values_of_fields_that_are_secret_by_now_are_in_no_block() -> None:
    values = {"HOST": "db", "PORT": "1", "PIN": "1234", "GONE": "x"}
    plan = block_plan(3, "acme", "Main", FIELDS, values, "http://x/3")
    assert plan.data == {"HOST": "db", "PORT": 1, REFERENCE: "http://x/3"}


@given(st.text(min_size=1, max_size=300), st.text(min_size=1, max_size=300))
def test_names_are_ones_that_prefect_takes(name: str, company: str) -> None:
    kind = block_type_plan(facts(name))
    assert re.fullmatch(r"[^/%&<>]+", kind.name)
    assert not kind.name.lower().startswith("prefect")
    assert re.fullmatch(r"[a-z0-9-]+", kind.slug)
    assert re.fullmatch(r"[a-z0-9-]+", block_plan(3, company, name, [], {}, "").name)


def test_what_is_no_address_is_no_logo() -> None:
    assert block_type_plan(facts(logo="Bank.svg")).logo_url is None
    assert block_type_plan(facts(logo="data:image/png;base64,x")).logo_url is not None
