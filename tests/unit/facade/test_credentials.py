"""What an Authorization header says."""

import base64

import pytest
from starlette.datastructures import Headers

from jobauto_prefect.errors import Unauthorized
from jobauto_prefect.facade.auth.headers import decode_basic, is_possible_login, parse_authorization


def _headers(*values: str) -> Headers:
    return Headers(raw=[(b"authorization", value.encode("latin-1")) for value in values])


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ("Bearer x", ("bearer", "x")),
        ("BASIC  x ", ("basic", "x")),
        ("Bearer", ("bearer", "")),
        ("Bearer a b", ("bearer", "a b")),
        ("", ("", "")),
    ],
)
def test_scheme_and_credentials_are_read(value: str, expected: tuple[str, str]) -> None:
    assert parse_authorization(_headers(value)) == expected


def test_no_header_says_nothing_and_two_are_refused() -> None:
    assert parse_authorization(_headers()) == ("", "")
    with pytest.raises(Unauthorized):
        parse_authorization(_headers("Bearer x", "Basic y"))


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("eva:kůň:heslo 1", ("eva", "kůň:heslo 1")),
        ("eva:", ("eva", "")),
        (":x", ("", "x")),
    ],
)
def test_a_password_may_hold_colons_and_any_letters(text: str, expected: tuple[str, str]) -> None:
    assert decode_basic(base64.b64encode(text.encode()).decode()) == expected


def test_browsers_that_send_latin_1_are_understood() -> None:
    sent = base64.b64encode("eva:zluté".encode("latin-1")).decode()
    assert decode_basic(sent) == ("eva", "zluté")


@pytest.mark.parametrize("credentials", ["", "!!", "ZXZh", "ZXZhOng", "/////w==", "\xe9"])
def test_what_is_no_basic_header_is_refused(credentials: str) -> None:
    with pytest.raises(Unauthorized, match="can't be read"):
        decode_basic(credentials)


def test_a_login_has_letters_that_databases_take() -> None:
    assert is_possible_login("eva")
    assert is_possible_login("žofie@example.com")
    for text in ("", "eva\0", "eva\n", "\ud800", "x" * 251):
        assert not is_possible_login(text)
