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
    ("written", "shown"),
    [
        (rb'{"a": "\ud83d"}', "\ufffd"),
        (rb'{"a": "x\u0000y"}', "x\ufffdy"),
        (b'{"a": 1e400}', "1e400"),
        (b'{"a": NaN}', "NaN"),
        (b'{"a": 12.50}', "12.50"),
        (b'{"a": -%s}' % (b"1" * 5000), f"-{'1' * (LONGEST_VALUE - 2)}…"),
        (b'\xef\xbb\xbf{"a": 1}', "1"),
    ],
)
def test_what_is_shown_can_be_kept(written: bytes, shown: str) -> None:
    assert values_in(written) == {"a": shown}


def test_a_name_that_cannot_be_kept_is_shown_otherwise() -> None:
    assert values_in(rb'{"\ud83d\u0000": 1}') == {"\ufffd\ufffd": "1"}


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"[1]",
        b"{",
        b"\xff\xfe{",
        b'{"a": ' * 20_000,
        b'{"a": "%s"}' % (b"x" * 70_000),
    ],
    ids=["nothing", "a list", "a fault", "no text", "deep", "a large file"],
)
def test_other_files_say_nothing(content: bytes) -> None:
    assert values_in(content) == {}
