"""Objects that clients send as text."""

import re

import pytest

from jobauto_prefect.facade.http.requests import parse
from jobauto_prefect.facade.kinds.event_rules import RuleBody
from jobauto_prefect.facade.kinds.run_templates import TemplateBody
from jobauto_prefect.facade.writes.base import OBJECT_TEXT, parse_object

BLANK = OBJECT_TEXT[-1]["pattern"]


def test_the_text_of_an_object_is_the_object() -> None:
    assert parse_object('{"Stop": {}}') == {"Stop": {}}
    assert parse(RuleBody, {"env_mapping": '{"A": "=1"}'}).env_mapping == {"A": "=1"}


@pytest.mark.parametrize("text", ["", " ", "\t\r\n"])
def test_blank_text_is_an_empty_object_as_documented(text: str) -> None:
    assert re.search(BLANK, text)
    assert parse_object(text) == {}
    assert parse(RuleBody, {"env_mapping": text}).env_mapping == {}
    assert parse(TemplateBody, {"success": text}).success.configured() == {}


@pytest.mark.parametrize("text", ["\u3000", "\x0b", "null", "[]", '"x"', "{"])
def test_other_texts_are_refused_as_documented(text: str) -> None:
    assert not re.search(BLANK, text)
    with pytest.raises(ValueError, match="JSON object"):
        parse_object(text)
