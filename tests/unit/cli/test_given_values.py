"""Values for one job: on the command line, and in a file."""

from pathlib import Path

import pytest
import typer

from jobauto_prefect.cli.files.job_values import read_job_values


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "values.env"
    path.write_text(
        "# comment\n\nTARGET=/mnt/backup\nexport WHO='every one'\nPRICE=\"$HOME\\n2\"\nEMPTY=\n"
    )
    return path


def test_a_file_is_read_as_such_files_are_and_nothing_is_put_in(file: Path) -> None:
    assert read_job_values(None, file) == {
        "TARGET": "/mnt/backup",
        "WHO": "every one",
        "PRICE": "$HOME\n2",
        "EMPTY": "",
    }


def test_the_command_line_wins_over_the_file(file: Path) -> None:
    assert read_job_values(["TARGET=/tmp", "MORE=a=b"], file) | {"PRICE": ""} == {
        "TARGET": "/tmp",
        "WHO": "every one",
        "PRICE": "",
        "EMPTY": "",
        "MORE": "a=b",
    }


def test_what_is_wrong_in_a_file_is_named_by_its_line_and_not_shown(file: Path) -> None:
    file.write_text("GOOD=1\nhunter2\nALSO=2\n=hunter3\n")

    with pytest.raises(typer.BadParameter) as raised:
        read_job_values(None, file)

    assert f"{file}:2, {file}:4" in str(raised.value)
    assert "hunter" not in str(raised.value)


def test_a_file_that_is_no_text_is_said_to_be_none(tmp_path: Path) -> None:
    (tmp_path / "x").write_bytes(b"\xff\xfe=\xff")

    with pytest.raises(typer.BadParameter, match="can't be read"):
        read_job_values(None, tmp_path / "x")
