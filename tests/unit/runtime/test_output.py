"""Lines from bytes, however they are cut."""

from datetime import UTC, datetime, timedelta
from xml.etree import ElementTree as ET

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jobauto_prefect.definitions.values import MASK
from jobauto_prefect.runtime.output.lines import (
    END_BYTES,
    LONGEST_LINE,
    MOST_LINES,
    LineSplitter,
    Output,
)
from jobauto_prefect.runtime.output.masking import StreamMasker

PLENTY = 10_000_000


def split(*pieces: bytes, secrets: tuple[str, ...] = ()) -> list[str]:
    splitter = LineSplitter(StreamMasker(secrets))
    return [line.text for data in (*pieces, b"") for line in splitter.feed(data, final=not data)]


def taken(output: Output) -> list[tuple[int, str, str]]:
    return [
        (seq, lines.stream, text)
        for lines in output.take(PLENTY, PLENTY)
        for seq, text in enumerate(lines.texts, start=lines.seq)
    ]


def written(output: Output, *streams: str) -> bytes:
    """The bytes that the lines of these streams hold; default: of standard output."""
    return b"".join(
        lines.raws.get(place, f"{text}\n".encode())
        for lines in output.take(PLENTY, PLENTY)
        if lines.stream in (streams or ("stdout",))
        for place, text in enumerate(lines.texts)
    )


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


PAUSES = st.lists(st.one_of(st.binary(max_size=9), st.none(), st.just(b"\r\n")), max_size=20)


@given(PAUSES)
def test_the_bytes_that_were_written_can_be_had_however_they_were_cut(
    pieces: list[bytes | None],
) -> None:
    output = Output(["no such secret"], PLENTY)
    for piece in pieces:
        if piece is None:
            output.flush_resting(seconds=0)
        elif piece:
            output.feed("stdout", piece)
    output.finish()
    assert written(output) == b"".join(piece for piece in pieces if piece)


@pytest.mark.parametrize("end", [b"", b"\n", b"\r\n", b"\n\n"])
@pytest.mark.parametrize("count", [LONGEST_LINE, LONGEST_LINE + 1, 3 * LONGEST_LINE])
def test_the_bytes_of_very_long_lines_can_be_had(count: int, end: bytes) -> None:
    output = Output([], PLENTY)
    output.feed("stdout", b"x" * count + end)
    output.finish()
    assert written(output) == b"x" * count + end


def test_batches_share_the_bytes_as_they_share_the_lines() -> None:
    output = Output([], PLENTY)
    output.feed("stdout", b"a\r\nb\nc\r\nd\x1b\n")
    batches = [batch for _ in range(4) for batch in output.take(1, PLENTY)]
    assert [dict(lines.raws) for lines in batches] == [
        {0: b"a\r\n"}, {}, {0: b"c\r\n"}, {0: b"d\x1b\n"},
    ]  # fmt: skip


LINES = {
    "of one byte": b"\n",
    "of a hundred": b"x" * 99 + b"\n",
    "of characters of several bytes": "ž🐎\n".encode(),
}


@pytest.mark.parametrize("line", LINES.values(), ids=LINES)
def test_of_long_output_beginning_and_end_are_kept_with_what_is_missing(line: bytes) -> None:
    limit, count = 200_000, 400_000 // len(line)
    output = Output([], limit)
    for _ in range(0, count, 500):
        output.feed("stdout", line * 500)
    output.feed("stdout", b"Error: no space\n")
    output.feed("stdout", b"")
    output.finish()
    lines = texts(output)
    told = f"the output is longer than {limit} bytes: its last {END_BYTES} bytes follow "
    assert output.notices == [told + "when the job has ended"]
    assert lines.count(("notice", output.notices[0])) == 1
    (gap,) = [text for _, text in lines if text.endswith("missing here")]
    output.feed("stdout", b"")
    kept = [text.encode() for stream, text in lines if stream == "stdout" and text != gap]
    assert kept[-1] == b"Error: no space"
    missing = int(gap.split()[0])
    assert limit - 20 < -(-count // 500) * 500 * len(line) + 16 - missing <= limit


def test_of_very_many_short_lines_beginning_and_end_are_kept() -> None:
    output = Output([], 10_000_000)
    for _ in range(100):
        output.feed("stdout", b"\n" * 65_536)
    output.feed("stdout", b"Error: no space\n")
    output.finish()
    assert output.notices == [
        f"the output is longer than {MOST_LINES} lines: its last {END_BYTES} bytes follow "
        "when the job has ended"
    ]
    assert output.lines < MOST_LINES + 65_536 + END_BYTES
    assert texts(output)[-1] == ("stdout", "Error: no space")


def test_output_of_just_its_limit_is_whole_without_a_word() -> None:
    output = Output(["hunter2"], 100_000)
    for _ in range(10_000):
        output.feed("stdout", b"123456789\n")
    output.finish()
    assert output.notices == []
    assert written(output) == b"123456789\n" * 10_000


def test_the_streams_come_in_their_order_and_tell_each_what_it_lacks() -> None:
    output = Output([], 90_000)
    output.feed("stderr", b"begun\n")
    output.feed("stdout", b"x\n" * 100_000)
    output.feed("stderr", b"failed\n")
    output.finish()
    lines = texts(output)
    assert lines[0] == ("stderr", "begun")
    assert lines[-1] == ("stderr", "failed")
    assert [stream for stream, text in lines if text.endswith("missing here")] == ["stdout"]


@given(st.integers(0, 40), st.integers(0, 40), st.integers(1, 7), st.booleans())
def test_a_secret_cut_by_what_is_left_out_stays_masked(
    before: int, between: int, size: int, lines: bool
) -> None:
    """Both cuts go through it, wherever they are."""
    secret = "hunter2-hunter2-and-a-tail"
    shown = "\n".join(secret) if lines else secret
    data = (b"." * before + (shown + "." * between).encode()) * 12
    output = Output([secret], 150)
    for start in range(0, len(data), size * 7):
        output.feed("stdout", data[start : start + size * 7])
    output.finish()
    kept = written(output).replace(b"\n", b"")
    assert not any(secret[at : at + 9].encode() in kept for at in range(len(secret) - 8))


def test_a_batch_is_bounded_in_lines_and_bytes_but_never_empty() -> None:
    output = Output([], PLENTY)
    output.feed("stdout", b"x" * 90 + b"\n" + b"y\n" * 10)
    batches = [output.take(5, 50) for _ in range(4)]
    numbers = [[(lines.seq, len(lines.texts)) for lines in batch] for batch in batches]
    assert numbers == [[(1, 1)], [(2, 5)], [(7, 5)], []]
    assert (output.waiting, output.waiting_bytes) == (0, 0)
