"""The line of a fault, as people see it."""

from jobauto_prefect.cli.judging import excerpt
from jobauto_prefect.errors import Fault


def shown(line: str, column: int) -> list[str]:
    return list(excerpt(Fault("", "rule", "message", 2, column), ["first", line]))


def marked(line: str, column: int) -> str:
    """What stands above the mark."""
    above, mark = shown(line, column)
    return above[mark.index("^")]


def test_the_mark_is_below_the_column() -> None:
    assert shown('  "type": "colour"', 11) == [
        '     2 │   "type": "colour"',
        "       │           ^",
    ]


def test_tabs_and_control_characters_do_not_move_the_mark() -> None:
    assert marked('\t"x"', 2) == '"'
    assert marked("\x1b[2J!", 5) == "!"


def test_wide_letters_take_two_columns() -> None:
    above, mark = shown("名前!", 3)
    assert mark.index("^") == above.index("!") + 2


def test_of_a_long_line_the_part_around_the_fault_is_shown() -> None:
    above, _ = shown("a" * 5000 + "!" + "b" * 5000, 5001)
    assert len(above) < 120
    assert marked("a" * 5000 + "!" + "b" * 5000, 5001) == "!"


def test_a_fault_without_a_place_has_no_line() -> None:
    assert list(excerpt(Fault("", "file", "is gone"), [])) == []
