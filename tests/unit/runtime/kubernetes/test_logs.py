"""A log that is read over several connections comes once and whole."""

from hypothesis import given
from hypothesis import strategies as st

from jobauto_prefect.runtime.executors.kubernetes.logs import LogReader

FULL = b"".join(
    b"2026-01-01T00:00:%02d.%sZ line %d\n" % (second, fraction, number)
    for number, (second, fraction) in enumerate(
        [
            (0, b"5"),
            (0, b"5"),
            (0, b"500000001"),
            (1, b"000000001"),
            (1, b"1"),
            (1, b"1"),
            (2, b"9"),
        ]
    )
)
TEXT = b"".join(b"line %d\n" % number for number in range(7))


def given_from(since: str | None) -> bytes:
    """What a server gives from a whole second on."""
    lines = FULL.splitlines(keepends=True)
    return b"".join(line for line in lines if since is None or line[:19] >= since[:19].encode())


@given(st.lists(st.integers(0, len(FULL)), max_size=6), st.integers(1, 40))
def test_nothing_is_lost_or_doubled_wherever_connections_break(
    breaks: list[int], size: int
) -> None:
    reader, read = LogReader(), b""
    for length in [*breaks, len(FULL)]:
        reader.connected()
        sent = given_from(reader.since)[:length]
        for start in range(0, len(sent), size):
            read += reader.feed(sent[start : start + size])
    assert read == TEXT


def test_a_last_line_without_an_end_comes_at_the_end() -> None:
    reader = LogReader()
    reader.connected()
    assert reader.feed(b"2026-01-01T00:00:00Z one\n2026-01-01T00:00:01Z tw") == b"one\n"
    reader.connected()
    assert reader.feed(b"2026-01-01T00:00:00Z one\n2026-01-01T00:00:01Z two") == b""
    assert reader.finish() == b"two"
    assert reader.finish() == b""


def test_a_clock_that_is_set_back_costs_no_line() -> None:
    reader = LogReader()
    reader.connected()
    assert reader.feed(b"2026-01-01T00:00:05Z a\n2026-01-01T00:00:01Z b\n") == b"a\nb\n"


def test_a_line_of_the_node_itself_has_no_time() -> None:
    reader = LogReader()
    reader.connected()
    assert (
        reader.feed(b"unable to retrieve container logs\n")
        == b"unable to retrieve container logs\n"
    )
    assert reader.since is None
