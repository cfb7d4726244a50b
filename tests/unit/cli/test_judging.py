"""Files judged, and the line of a fault as people see it."""

import json
from pathlib import Path

import pytest

from jobauto_prefect.cli.files.validation_report import excerpt, print_verdicts, validate_file
from jobauto_prefect.errors import Fault
from tests.support.documents import smallest


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


def test_of_a_long_line_the_part_around_the_error_is_shown() -> None:
    above, _ = shown("a" * 5000 + "!" + "b" * 5000, 5001)
    assert len(above) < 120
    assert marked("a" * 5000 + "!" + "b" * 5000, 5001) == "!"


def test_an_error_without_a_place_has_no_line() -> None:
    assert list(excerpt(Fault("", "file", "is gone"), [])) == []


DEFINITION = smallest(name="Probe")


def test_records_are_judged_as_what_they_say_and_counted_by_their_kinds(tmp_path: Path) -> None:
    (tmp_path / "probe.json").write_text(json.dumps(DEFINITION))
    (tmp_path / "acme.yaml").write_text(
        "kind: company\nslug: acme\nname: Acme\n---\n"
        "kind: runtemplate\ncompany: acme\napp: Probe\nname: One\ninterv: sometimes\n"
    )

    probe, acme = validate_file(tmp_path / "probe.json"), validate_file(tmp_path / "acme.yaml")

    assert (probe.faults, probe.as_dict()["definitions"], probe.as_dict()["records"]) == ((), 1, {})
    assert acme.as_dict()["definitions"] == 0
    assert acme.as_dict()["records"] == {"company": 1, "runtemplate": 1}
    (fault,) = acme.faults
    assert (fault.pointer, fault.line) == ("/interv", 9)


def test_what_is_there_is_said_with_the_findings(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "acme.yaml").write_text("kind: company\nslug: acme\nname: Acme\n")

    print_verdicts([validate_file(tmp_path / "acme.yaml")])

    summary = "no definitions and 1 record (company: 1) in 1 file: no errors, no warnings\n"
    assert capsys.readouterr().out == summary


def test_a_kind_that_there_is_not_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "x.yaml").write_text("kind: firm\nslug: acme\n")

    (fault,) = validate_file(tmp_path / "x.yaml").faults

    assert fault.rule == "kind"
