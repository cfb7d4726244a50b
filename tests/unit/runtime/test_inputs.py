"""Files that a job is given."""

from pathlib import Path

import pytest

from jobauto_prefect.errors import StartFailed
from jobauto_prefect.runtime.launch.input_files import input_path, write_file


def test_a_file_keeps_its_name_and_is_its_owners_alone(tmp_path: Path) -> None:
    path = input_path("INPUT_FILE", "out/invoices-1.json")
    assert path == "tmp/inputs/INPUT_FILE/invoices-1.json"
    (tmp_path / "tmp").mkdir()
    write_file(str(tmp_path), path, b"{}", None)
    file = tmp_path / path
    assert file.read_bytes() == b"{}"
    assert file.stat().st_mode & 0o777 == 0o600
    assert file.parent.stat().st_mode & 0o777 == 0o700
    write_file(str(tmp_path), input_path("OTHER", "invoices-1.json"), b"[]", None)
    assert file.read_bytes() == b"{}"


@pytest.mark.parametrize("name", ["..", "", "a/.."])
def test_a_name_that_is_none_gets_one(name: str) -> None:
    assert input_path("K", name) == "tmp/inputs/K/file"


def test_a_name_is_a_plain_word_of_a_shell() -> None:
    assert input_path("K", "out/my $(id) report's;.json") == "tmp/inputs/K/my_id_report_s_.json"
    assert input_path("K", "účet-1.2.csv") == "tmp/inputs/K/účet-1.2.csv"


@pytest.mark.parametrize("path", ["/etc/passwd", "../x", "tmp/../../x", "", "a/../b"])
def test_no_path_leads_out(tmp_path: Path, path: str) -> None:
    with pytest.raises(StartFailed, match="not a path in a job's directory"):
        write_file(str(tmp_path), path, b"", None)


def test_no_link_is_followed(tmp_path: Path) -> None:
    """Another job of the same user may put links where the worker, as root, is about to write."""
    directory, elsewhere = tmp_path / "job-1", tmp_path / "elsewhere"
    for folder in (directory / "tmp", elsewhere):
        folder.mkdir(parents=True)
    (directory / "tmp" / "inputs").symlink_to(elsewhere)
    with pytest.raises(StartFailed, match="can't be written"):
        write_file(str(directory), "tmp/inputs/K/a", b"", None)
    (directory / "tmp" / "b").symlink_to(elsewhere / "b")
    with pytest.raises(StartFailed, match="can't be written"):
        write_file(str(directory), "tmp/b", b"", None)
    assert list(elsewhere.iterdir()) == []
