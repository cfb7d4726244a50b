"""What people see."""

import pytest
from rich.console import Console

from jobauto_prefect.cli.output.terminal import (
    fit_widths,
    format_duration,
    format_seconds,
    make_table,
)
from jobauto_prefect.wording import escape_controls


def test_control_characters_of_unknown_text_do_not_reach_the_terminal() -> None:
    assert escape_controls("a\x1b[2Jb\rc\td\ne") == "a\\x1b[2Jb\\x0dc\td e"
    assert escape_controls("Příliš žluťoučký") == "Příliš žluťoučký"


@pytest.mark.parametrize(
    ("count", "text"),
    [(0.04, "0.0 s"), (99.94, "99.9 s"), (100, "1 min 40 s"), (3600, "1 h 00 min")],
)
def test_lengths_of_time_are_told_in_the_units_people_use(count: float, text: str) -> None:
    assert format_seconds(count) == text


def test_a_job_that_has_not_ended_has_no_duration_yet() -> None:
    assert format_duration("2026-01-01T00:00:00+00:00", None) == ""
    assert format_duration("2026-01-01T00:00:00+00:00", "2026-01-01T00:00:01.5+00:00") == "1.5 s"


def test_on_a_narrow_terminal_the_longest_cells_are_cut() -> None:
    long = "exit code 42 (error): the answer is wrong, and that at some length"
    console = Console(width=60)
    table = make_table(("id", "state", "message"), [(12345, "succeeded", long)], width=60)
    with console.capture() as captured:
        console.print(table)

    _, row = captured.get().splitlines()

    assert row.rstrip() == "12345  succeeded  exit code 42 (error): the answer is wrong…"


def test_a_table_that_fits_is_not_cut() -> None:
    assert fit_widths([3, 20, 7], 30) == [3, 20, 7]
    assert fit_widths([3, 20, 27], 40) == [3, 18, 19]
    assert fit_widths([], 40) == []


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("a\u202etxt.exe", "a\\u202etxt.exe"),
        ("\u2066x\u2069\u200f\u061c", "\\u2066x\\u2069\\u200f\\u061c"),
        ("zero\u200bwidth\ufeff\u2028", "zero\\u200bwidth\\ufeff\\u2028"),
        ("tag\U000e0041", "tag\\U000e0041"),
        ("\x1b[31mred\tx", "\\x1b[31mred\tx"),
        ("שלום kůň 👩\u200d👧", "שלום kůň 👩\u200d👧"),
    ],
)
def test_characters_that_change_direction_or_are_invisible_are_shown_as_codes(
    text: str, shown: str
) -> None:
    assert escape_controls(text) == shown
