"""What a job's files say, for people."""

import json

import pytest

from jobauto_prefect.runtime.output.artifacts import (
    LONGEST_VALUE,
    MOST_VALUES,
    Artifact,
    plain_values,
)
from jobauto_prefect.runtime.output.masking import Masker

SECRET = "s3cret-word"


def values_in(content: bytes) -> dict[str, str]:
    file = Artifact("result.json", "Result", "file", content)
    return dict(plain_values(file, Masker([SECRET])))


def test_the_plain_values_of_an_object_are_shown_as_text() -> None:
    values = {
        "count": 3,
        "share": 0.5,
        "ok": True,
        "none": None,
        "who": "Áda",
        "all": [1],
        "in": {},
    }
    found = values_in(json.dumps(values).encode())
    assert found == {"count": "3", "share": "0.5", "ok": "true", "none": "null", "who": "Áda"}


def test_secrets_are_masked_in_names_and_values() -> None:
    found = values_in(json.dumps({"login": f"x{SECRET}y", SECRET: 1}).encode())
    assert found == {"login": "x********y", "********": "1"}


def test_a_secret_is_masked_before_a_long_value_is_cut() -> None:
    text = "x" * (LONGEST_VALUE - 5) + SECRET
    shown = values_in(json.dumps({"text": text}).encode())["text"]
    assert len(shown) == LONGEST_VALUE
    assert SECRET[:4] not in shown


def test_of_many_values_the_first_ones_are_shown() -> None:
    many = {f"v{number}": number for number in range(MOST_VALUES + 1)}
    assert list(values_in(json.dumps(many).encode())) == list(many)[:MOST_VALUES]


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"[1]",
        b"{",
        b"\xff\xfe{",
        b'{"a": ' * 20_000,
        b'{"a": %s}' % (b"1" * 5000),
        b'{"a": "%s"}' % (b"x" * 70_000),
    ],
    ids=["nothing", "a list", "a fault", "no text", "deep", "a huge number", "a large file"],
)
def test_other_files_say_nothing(content: bytes) -> None:
    assert values_in(content) == {}
