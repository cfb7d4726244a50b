"""Lines from bytes, however they are cut."""

from datetime import UTC, datetime, timedelta
from xml.etree import ElementTree as ET

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jobauto_prefect.definitions.mask import MASK
from jobauto_prefect.runtime.output.lines import LONGEST_LINE, LineSplitter, Output
from jobauto_prefect.runtime.output.masking import StreamMasker

PLENTY = 10_000_000


def split(*pieces: bytes, secrets: tuple[str, ...] = ()) -> list[str]:
    splitter = LineSplitter(StreamMasker(secrets))
    return [line for piece in pieces for line in splitter.feed(piece)] + splitter.feed(
        b"", final=True
    )


def taken(output: Output) -> list[tuple[int, str, str]]:
    return [
        (seq, lines.stream, text)
        for lines in output.take(PLENTY, PLENTY)
        for seq, text in enumerate(lines.texts, start=lines.seq)
    ]


def texts(output: Output) -> list[tuple[str, str]]:
    return [(stream, text) for _, stream, text in taken(output)]


@pytest.mark.parametrize(
    ("written", "lines"),
    [
        (b"", []),
        (b"\n", [""]),
        (b"a\n\nb", ["a", "", "b"]),
        (b"a\r\nb\r\n", ["a", "b"]),
        (b"10%\r20%\n", ["10%␍20%"]),
        ("žluť\n".encode(), ["žluť"]),
        (b"\xff\xfe\x00\x1b[31m\t\x7f\n", ["\ufffd\ufffd␀␛[31m\t␡"]),
        (b"half \xc5", ["half \ufffd"]),
    ],
)
def test_bytes_become_readable_lines(written: bytes, lines: list[str]) -> None:
    assert split(written) == lines


def test_a_character_may_be_cut_anywhere() -> None:
    data = "ž🐎\n".encode()
    for cut in range(len(data)):
        assert split(data[:cut], data[cut:]) == ["ž🐎"]


def test_a_very_long_line_becomes_pieces_and_stays_complete() -> None:
    lines = split(*[b"x" * 10_000] * 20, b"\nnext\n")
    assert "".join(lines[:-1]) == "x" * 200_000
    assert lines[-1] == "next"
    assert max(map(len, lines)) == LONGEST_LINE


@pytest.mark.parametrize("count", [LONGEST_LINE, 2 * LONGEST_LINE])
def test_a_line_of_just_the_longest_length_leaves_no_empty_line(count: int) -> None:
    assert [len(line) for line in split(b"x" * count, b"\n", b"\n")] == [
        *[LONGEST_LINE] * (count // LONGEST_LINE),
        0,
    ]


@given(st.lists(st.binary(max_size=6)), st.booleans())
def test_every_line_can_be_stored_in_postgresql_and_xml(pieces: list[bytes], joined: bool) -> None:
    for line in split(b"".join(pieces) if joined else b"", *pieces):
        assert "\0" not in line
        assert "\n" not in line
        line.encode()
        element = ET.Element("line")
        element.text = line
        assert ET.fromstring(ET.tostring(element)).text in (line, None)


WORDS = st.lists(
    st.sampled_from([b"hunt", b"er2", b"\n", b"x", b"line", b"hunter2line\nz", b"\xc5"])
)


@given(WORDS)
def test_cutting_changes_nothing(pieces: list[bytes]) -> None:
    secrets = ("hunter2", "line\nz")
    assert split(*pieces, secrets=secrets) == split(b"".join(pieces), secrets=secrets)


@given(WORDS, st.integers(0, 20))
def test_secrets_are_masked_across_pieces_and_lines(around: list[bytes], cut: int) -> None:
    text = b"".join([*around, b"hunter2\n", b"-line\nz-"])
    lines = split(text[:cut], text[cut:], secrets=("hunter2", "line\nz"))
    assert "hunter2" not in "\n".join(lines)
    assert "line\nz" not in "\n".join(lines)
    assert MASK in "".join(lines)


def test_a_prompt_without_a_newline_appears_and_ends_once() -> None:
    output = Output([], PLENTY)
    output.feed("stdout", b"name? ")
    output.flush_resting(seconds=60)
    assert texts(output) == []
    output.flush_resting(seconds=0)
    output.flush_resting(seconds=0)
    assert texts(output) == [("stdout", "name? ")]
    output.feed("stdout", b"\nok\n")
    output.feed("stdout", b"")
    assert texts(output) == [("stdout", "ok")]


def test_the_beginning_of_a_secret_does_not_appear_as_a_prompt() -> None:
    output = Output(["hunter2"], PLENTY)
    output.feed("stdout", b"it is hunt")
    output.flush_resting(seconds=0)
    output.feed("stdout", b"er2\n")
    assert texts(output) == [("stdout", "it is "), ("stdout", MASK)]


def test_a_line_that_ends_as_a_secret_begins_appears_whole_when_the_output_rests() -> None:
    moments = iter(datetime(2026, 5, 4, 12, 0, second, tzinfo=UTC) for second in range(60))
    output = Output(["hunter2-and-more"], PLENTY, lambda: next(moments))
    output.feed("stdout", b"first\nwealth\n")
    written = next(moments)
    output.flush_resting(seconds=0)
    parts = output.take(PLENTY, PLENTY)
    assert [text for lines in parts for text in lines.texts] == ["first", "wealth"]
    assert {lines.at for lines in parts} == {written - timedelta(seconds=1)}
    output.feed("stdout", b"next\n")
    assert texts(output) == [("stdout", "next")]


def test_lines_of_both_streams_are_numbered_in_one_row() -> None:
    output = Output([], PLENTY)
    output.feed("stdout", b"a\n")
    output.feed("stderr", b"b\nc")
    output.notice("n")
    output.feed("stderr", b"")
    assert taken(output) == [
        (1, "stdout", "a"),
        (2, "stderr", "b"),
        (3, "notice", "n"),
        (4, "stderr", "c"),
    ]
    assert output.lines == 4


@pytest.mark.parametrize("line", [b"\n", b"x" * 100 + b"\n"])
def test_output_is_bounded_with_one_notice(line: bytes) -> None:
    output = Output([], 10_000)
    for _ in range(1000):
        output.feed("stdout", line)
    output.feed("stdout", b"")
    lines = texts(output)
    assert lines[-1] == ("notice", "the output is longer than 10000 bytes; the rest is not kept")
    assert len(lines) < 200
    assert [stream for stream, _ in lines].count("notice") == 1
    assert output.notices == [lines[-1][1]]


def test_a_batch_is_bounded_in_lines_and_bytes_but_never_empty() -> None:
    output = Output([], PLENTY)
    output.feed("stdout", b"x" * 90 + b"\n" + b"y\n" * 10)
    batches = [output.take(5, 50) for _ in range(4)]
    numbers = [[(lines.seq, len(lines.texts)) for lines in batch] for batch in batches]
    assert numbers == [[(1, 1)], [(2, 5)], [(7, 5)], []]
    assert (output.waiting, output.waiting_bytes) == (0, 0)
