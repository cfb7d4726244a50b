"""Changed documents keep what somebody wrote."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jobauto_prefect.cli.files.upgrade import rewrite
from jobauto_prefect.definitions import upgrade
from tests.support.corpus import needs_corpus, source, verdicts
from tests.support.documents import JSON_DOCUMENTS

TEXT = """{
   "name" : "a\\/b",
   "tags" : ["x",   "y"],
   "old" : {"a" : 1, "b": 2},
   "new" : 1.50
}

"""


def change(text: str, **members: Any) -> str:
    return rewrite(text, json.loads(text) | members)


def test_what_is_the_same_keeps_its_text() -> None:
    assert change(TEXT) == TEXT
    assert change(TEXT, new=2) == TEXT.replace("1.50", "2")


def test_what_is_on_one_line_stays_on_one_line() -> None:
    assert change(TEXT, old={"a": True}) == TEXT.replace('{"a" : 1, "b": 2}', '{"a" : true}')


def test_what_is_new_has_the_indentation_colons_and_escapes_of_the_rest() -> None:
    added = change(TEXT, more={"url": "https://é/", "list": [1]})
    lines = [
        '   "more" : {',
        '      "url" : "https:\\/\\/é\\/",',
        '      "list" : [',
        "         1",
        "      ]",
        "   }",
    ]
    assert added == TEXT.replace("1.50", "1.50,\n" + "\n".join(lines))


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ('{"a":1}', '{"a":1,"b":[2,3]}'),
        ('{"a": 1}', '{"a": 1, "b": [2, 3]}'),
        ('{\r\n\t"a": 1\r\n}\r\n', '{\r\n\t"a": 1,\r\n\t"b": [\r\n\t\t2,\r\n\t\t3\r\n\t]\r\n}\r\n'),
        ('\ufeff{"a": 1}', '\ufeff{"a": 1, "b": [2, 3]}'),
        ("{}", '{"b": [2, 3]}'),
    ],
    ids=["dense", "one line", "CRLF and tabs", "byte order mark", "empty"],
)
def test_the_style_of_a_text_is_kept(text: str, expected: str) -> None:
    document = json.loads(text.removeprefix("\ufeff")) | {"b": [2, 3]}
    assert rewrite(text, document) == expected


def test_letters_are_escaped_only_where_the_text_does_so() -> None:
    assert change('{"a": "\\u00e9"}', b="ü") == '{"a": "\\u00e9", "b": "\\u00fc"}'
    assert change('{"a": "é"}', b="ü") == '{"a": "é", "b": "ü"}'


@given(JSON_DOCUMENTS, JSON_DOCUMENTS, st.sampled_from([None, 2, "\t"]))
def test_a_rewritten_text_says_what_it_is_to_say(
    before: Any, after: Any, indent: int | str | None
) -> None:
    written = json.loads(rewrite(json.dumps(before, indent=indent), after))
    assert json.dumps(written) == json.dumps(after)


@needs_corpus
@pytest.mark.parametrize(
    "name", [entry["file"] for entry in verdicts() if entry["verdict"] != "not-json"]
)
def test_an_upgraded_file_differs_only_in_the_lines_that_changed(name: str) -> None:
    text = source(name).decode()
    done = upgrade(json.loads(text))
    new = rewrite(text, done.document)
    assert json.dumps(json.loads(new)) == json.dumps(done.document)
    kept = set(text.splitlines()) & set(new.splitlines())
    if len(done.changes) < 10:
        assert len(kept) >= len(set(text.splitlines())) - 3 * len(done.changes)
    if not done.changes:
        assert new == text
