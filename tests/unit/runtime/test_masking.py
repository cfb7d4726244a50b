"""Masking of known values in texts and in streams."""

import base64
import html
import json
import shlex
import subprocess
from collections.abc import Callable
from urllib.parse import quote, quote_plus
from xml.sax import saxutils

import markupsafe
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from jobauto_prefect.definitions.values import MASK
from jobauto_prefect.runtime.output.masking import Masker, StreamMasker
from jobauto_prefect.runtime.output.secret_forms import is_too_short

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


WRAPPED = {
    "76": lambda data: base64.encodebytes(data).decode(),
    "64, as openssl": lambda data: wrapped(base64.b64encode(data).decode(), 64),
    "76, CRLF": lambda data: base64.encodebytes(data).decode().replace("\n", "\r\n"),
}


def wrapped(text: str, width: int) -> str:
    return "".join(text[n : n + width] + "\n" for n in range(0, len(text), width))


@pytest.mark.parametrize("encode", WRAPPED.values(), ids=list(WRAPPED))
@pytest.mark.parametrize("length", [12, 58, 200])
def test_base64_with_line_breaks_is_masked_at_every_alignment(
    encode: Callable[[bytes], str], length: int
) -> None:
    secret = "".join(chr(ord("!") + n * 37 % 90) for n in range(length))
    for before in range(60):
        text = encode(b"x" * before + secret.encode() + b"y" * 40)
        for cut in (0, before + 3, 77):
            shown = streamed([secret], [text[:cut], text[cut:]])
            left = "".join(shown.replace(MASK, "").split()).rstrip("=")
            assert len(left) <= (before + 40) * 8 / 6 + 2
            assert shown.count(MASK) == 1


def test_base64_as_the_program_of_that_name_writes_it_is_masked() -> None:
    secret = "s3cret-" * 20
    encode = ["base64"]
    written = subprocess.run(encode, input=secret, capture_output=True, text=True, check=True)
    assert "\n" in written.stdout.strip()
    assert len(streamed([secret], list(written.stdout)).replace(MASK, "")) <= 5


@pytest.mark.parametrize("locale", ["C.UTF-8", "C"])
def test_what_bash_quotes_with_printf_is_masked(locale: str) -> None:
    odd = [
        "pass word", "it's", 'say "x"', "a$b`c\\", "x;y|z&", "{a,b}", "[a-z]*?", "~home", "a=~b",
        "#abc", "<in>(out)", "!1^2", "žluťoučký kůň", "tab\there", "bell\aesc\x1b[0m", "two\nlines",
        "\x01\x7f'x",
    ]  # fmt: skip
    run = ["bash", "-c", r'printf "%q\n" "$@"', "bash", *odd]
    written = subprocess.run(
        run, env={"LC_ALL": locale}, capture_output=True, text=True, check=True
    )
    for secret, line in zip(odd, written.stdout.splitlines(), strict=True):
        assert Masker([secret]).mask(line).strip("$'\\") == MASK, line


def test_what_bash_says_of_commands_it_runs_is_masked() -> None:
    secret = "it's a $secret"
    run = ["bash", "-xc", 'true "$1"', "bash", secret]
    trace = subprocess.run(run, capture_output=True, text=True, check=True).stderr
    assert Masker([secret]).mask(trace) == f"+ true '{MASK}'\n"


MARKED = '<p w="it\'s">&/é'


@pytest.mark.parametrize(
    "form",
    [
        html.escape(MARKED), html.escape(MARKED, quote=False), str(markupsafe.escape(MARKED)),
        saxutils.escape(MARKED), saxutils.escape(MARKED, {'"': "&quot;", "'": "&apos;"}),
        html.escape(MARKED).replace("&#x27;", "&#039;"),
        json.dumps(MARKED)[1:-1].replace("/", r"\/"),
        json.dumps(MARKED)[1:-1].translate({ord(char): f"\\u{ord(char):04x}" for char in "<>&"}),
        json.dumps(MARKED)[1:-1].replace("e9", "E9"),
        MARKED.encode().hex(), MARKED.encode().hex().upper(),
        wrapped(MARKED.encode().hex(), 10)[:-1],
        shlex.quote(MARKED)[1:-1],
    ],
)  # fmt: skip
def test_escaped_forms_are_masked(form: str) -> None:
    for cut in range(len(form)):
        assert streamed([MARKED], [f"x={form[:cut]}", f"{form[cut:]};"]).split() == [f"x={MASK};"]


def test_short_secrets_do_not_blacken_text_of_several_lines() -> None:
    assert Masker(["1234"]).mask("at 12\n34 of 1234") == f"at 12\n34 of {MASK}"


def test_a_line_that_rests_appears_and_what_follows_of_a_secret_is_masked() -> None:
    masker = StreamMasker(["hunter2-and-more"])
    assert masker.feed("wealth\n") == "wealt"
    assert masker.release_line_end() == "h\n"
    assert masker.release_line_end() == ""
    assert masker.feed("unter2-and-mor") == ""
    assert masker.release_line_end() == ""
    assert masker.feed("e, after all\n") == f"{MASK}, after all\n"


def test_what_only_rests_is_not_released() -> None:
    masker = StreamMasker(["hunter2-and-more"])
    assert masker.feed("hun") + masker.release_line_end() == ""
    assert masker.feed("ter2-\n") + masker.release_line_end() == ""
    assert masker.feed("and-more") == MASK


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
        assert secret not in text or is_too_short(secret) or secret.strip() in MASK
