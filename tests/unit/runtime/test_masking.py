"""Masking of known values in texts and in streams."""

import base64
import json
from collections.abc import Callable
from urllib.parse import quote, quote_plus

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from jobauto_prefect.runtime.masking import MASK, Masker, StreamMasker

LETTERS = st.text(alphabet="ab\nc ", max_size=40)
SECRETS = st.lists(st.text(alphabet="ab\nc ", min_size=4, max_size=9), max_size=4)


def streamed(secrets: list[str], pieces: list[str]) -> str:
    masker = StreamMasker(secrets)
    return "".join(masker.feed(piece) for piece in pieces) + masker.feed("", final=True)


def test_secrets_are_masked_longest_first_and_short_ones_are_left() -> None:
    masker = Masker(["abcd", "abcdef", "xyz"])
    assert masker.mask("abcdef abcd abcde xyz") == f"{MASK} {MASK} {MASK}e xyz"


def test_what_any_of_two_overlapping_secrets_covers_is_masked() -> None:
    assert Masker(["abcd", "cdef"]).mask("-abcdef-") == f"-{MASK}-"


def test_a_secret_with_newlines_is_masked_whole_and_line_by_line() -> None:
    key = "-----BEGIN KEY-----\nMIIBVwIBADANBgkq\nab\n-----END KEY-----\n"
    masker = Masker([key])
    assert masker.mask(f"<{key}>") == f"<{MASK}\n>"
    assert masker.mask("key: MIIBVwIBADANBgkq") == f"key: {MASK}"


def test_white_space_around_a_secret_does_not_hide_it() -> None:
    assert Masker(["hunter2\n"]).mask("it is hunter2.") == f"it is {MASK}."


def test_the_beginning_of_a_secret_is_held_back_until_it_is_known() -> None:
    masker = StreamMasker(["hunter2"])
    assert masker.feed("password: hun") == "password: "
    assert masker.feed("ter2 ok") == f"{MASK} ok"
    assert masker.feed("hun") == ""
    assert masker.feed("gry") == "hungry"
    assert masker.feed("hun") + masker.feed("", final=True) == "hun"


ODD = 'p/w +"ž?&x'


@pytest.mark.parametrize(
    "form",
    [
        quote(ODD, safe=""), quote(ODD), quote_plus(ODD), quote(ODD, safe="").lower(),
        json.dumps(ODD)[1:-1], json.dumps(ODD, ensure_ascii=False)[1:-1],
    ],
)  # fmt: skip
def test_the_forms_in_which_programs_print_a_secret_are_masked(form: str) -> None:
    assert Masker([ODD]).mask(f"x={form};") == f"x={MASK};"


@pytest.mark.parametrize("encode", [base64.b64encode, base64.urlsafe_b64encode])
@given(before=st.binary(max_size=4), after=st.binary(max_size=4), cut=st.integers(0, 40))
def test_base64_of_a_text_around_a_secret_does_not_tell_it(
    encode: Callable[[bytes], bytes], before: bytes, after: bytes, cut: int
) -> None:
    secret = "hunter2+~~~"
    text = encode(before + secret.encode() + after).decode()
    shown = streamed([secret], [text[:cut], text[cut:]])
    assert MASK in shown
    left = shown.replace(MASK, "").rstrip("=")
    # Around the mask only digits are left that the neighbours have a part in.
    assert len(left) <= (len(before) + len(after)) * 8 / 6 + 2


def test_a_long_chain_of_overlapping_secrets_is_not_kept_in_memory() -> None:
    masker = StreamMasker(["aaaa"])
    assert "".join(masker.feed("a" * 1000) for _ in range(100)) == MASK
    assert len(masker._held) < 1000


@given(SECRETS, st.lists(LETTERS))
@example(["abcd", "cdef"], ["abcd", "ef"])
@example(["aaaa"], ["aaa", "aaaaa", "a"])
def test_pieces_give_what_the_whole_text_gives(secrets: list[str], pieces: list[str]) -> None:
    assert streamed(secrets, pieces) == Masker(secrets).mask("".join(pieces))


@given(SECRETS, LETTERS, LETTERS)
def test_no_secret_survives(secrets: list[str], before: str, after: str) -> None:
    for secret in secrets:
        text = Masker(secrets).mask(before + secret + after)
        assert secret not in text or secret.strip() in MASK
