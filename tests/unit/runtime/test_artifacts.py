"""Artifacts come from the job's own directory, whatever the job does."""

import os
import stat
from pathlib import Path

import pytest

from jobauto_prefect.runtime.output.artifacts import (
    DEEPEST,
    MOST_ARTIFACTS,
    MOST_FILES,
    Artifact,
    Collector,
)
from jobauto_prefect.runtime.protocol import ArtifactPattern

PLENTY = 10_000_000


def declared(path: str, name: str = "it", kind: str = "file") -> ArtifactPattern:
    return ArtifactPattern(name=name, path=path, type=kind)


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    """A job's directory, with a secret beside it."""
    (tmp_path / "secret").write_text("secret")
    job = tmp_path / "job"
    (job / "tmp").mkdir(parents=True)
    return job


def collect(
    directory: Path, *paths: str, result: str | None = None, limit: int = PLENTY
) -> tuple[list[Artifact], list[str]]:
    collector = Collector(str(directory), os.getuid(), limit)
    found = list(collector.artifacts(result, [declared(path) for path in paths]))
    return found, collector.notices


def paths(directory: Path, *patterns: str, result: str | None = None) -> list[str]:
    return [artifact.path for artifact in collect(directory, *patterns, result=result)[0]]


def fill(directory: Path, *names: str) -> None:
    for name in names:
        (directory / name).parent.mkdir(parents=True, exist_ok=True)
        (directory / name).write_text(name)


def test_a_literal_path_wins_over_its_meaning_as_an_expression(directory: Path) -> None:
    fill(directory, "a.b", "axb")
    assert paths(directory, "a.b") == ["a.b"]
    (directory / "a.b").unlink()
    assert paths(directory, "a.b") == ["axb"]


def test_an_expression_matches_the_whole_relative_path(directory: Path) -> None:
    fill(directory, "report_1.json", "report_22.json", "x_report_1.json", "sub/report_3.json")
    assert paths(directory, r"report_\d+\.json$") == ["report_1.json", "report_22.json"]
    assert paths(directory, r".*/report_\d\.json") == ["sub/report_3.json"]


def test_the_pattern_with_escaped_values_is_the_expression(directory: Path) -> None:
    fill(directory, "a+b_1", "aab_1")
    pattern = ArtifactPattern(name="", path=r"a+b_\d", pattern=r"a\+b_\d", type="text/plain")
    (found,) = Collector(str(directory), os.getuid(), PLENTY).artifacts(None, [pattern])
    assert (found.path, found.name, found.type) == ("a+b_1", "a+b_1", "text/plain")


def test_the_result_file_is_collected_once(directory: Path) -> None:
    fill(directory, "out.json")
    found, _ = collect(directory, r".*\.json", result="out.json")
    assert [(one.path, one.name, one.content) for one in found] == [
        ("out.json", "RESULT_FILE", b"out.json")
    ]
    assert [one.name for one in collect(directory, "out.json", result="out.json")[0]] == ["it"]


def test_absolute_paths_count_where_they_are_inside(directory: Path) -> None:
    fill(directory, "sub/out.json")
    assert paths(directory, result=str(directory / "sub/out.json")) == ["sub/out.json"]
    found, notices = collect(directory, result=str(directory.parent / "secret"))
    assert found == []
    assert "outside of the job's directory" in notices[0]


def test_a_folder_stands_for_the_files_in_it_but_temporary_ones(directory: Path) -> None:
    fill(directory, "a", "sub/b", "sub/deep/c", "tmp/d")
    assert paths(directory, ".") == ["a", "sub/b", "sub/deep/c"]
    assert paths(directory, "sub") == ["sub/b", "sub/deep/c"]
    assert paths(directory, "tmp/d") == ["tmp/d"]
    assert paths(directory, ".*") == ["a", "sub/b", "sub/deep/c"]


def test_what_is_not_there_is_no_news(directory: Path) -> None:
    assert collect(directory, "nothing", "(", "", result="missing") == ([], [])


@pytest.mark.parametrize("path", ["../secret", "sub/../../secret", "/etc/passwd"])
def test_no_path_leads_out(directory: Path, path: str) -> None:
    fill(directory, "sub/x")
    found, notices = collect(directory, path)
    assert found == []
    assert len(notices) == 1


@pytest.mark.parametrize("path", ["link", "sub/secret", ".*", "."])
def test_no_link_leads_out(directory: Path, path: str) -> None:
    (directory / "link").symlink_to("../secret")
    (directory / "sub").symlink_to("..")
    assert paths(directory, path) == []


def test_a_directory_that_is_itself_a_link_is_not_followed(directory: Path) -> None:
    (directory / "tmp").rmdir()
    directory.rmdir()
    directory.symlink_to(directory.parent)
    assert paths(directory, "secret", ".*") == []


def test_a_link_in_the_place_of_a_found_file_is_not_followed(directory: Path) -> None:
    """The job swaps files while they are taken."""
    fill(directory, "a", "b")
    artifacts = Collector(str(directory), os.getuid(), PLENTY).artifacts(None, [declared(".*")])
    assert next(artifacts).path == "a"
    (directory / "b").unlink()
    (directory / "b").symlink_to("../secret")
    assert list(artifacts) == []


def test_hard_links_are_not_followed(directory: Path) -> None:
    os.link(directory.parent / "secret", directory / "leak")
    found, notices = collect(directory, "leak")
    assert found == []
    assert "hard link" in notices[0]


@pytest.mark.skipif(os.getuid() != 0, reason="root can make files of others")
def test_a_file_of_somebody_else_is_left(directory: Path) -> None:
    fill(directory, "a")
    os.chown(directory / "a", 12345, 12345)
    found, notices = collect(directory, "a")
    assert found == []
    assert "another user" in notices[0]


def test_what_is_no_file_is_left_and_holds_nobody_up(directory: Path) -> None:
    os.mkfifo(directory / "fifo")
    (directory / "null").symlink_to("/dev/zero")
    os.mknod(directory / "socket", stat.S_IFSOCK | 0o600)
    for name in ("fifo", "null", "socket", ".*"):
        assert paths(directory, name, result=name) == []


def test_artifacts_are_bounded_together(directory: Path) -> None:
    for name, size in (("a", 600), ("b", 600), ("c", 300)):
        (directory / name).write_bytes(b"x" * size)
    found, notices = collect(directory, "[abc]", limit=1000)
    assert [one.path for one in found] == ["a", "c"]
    assert notices == [
        "not kept: b is too large: the artifacts of a job may have 1000 bytes in total"
    ]


def test_a_huge_sparse_file_costs_nothing(directory: Path) -> None:
    with (directory / "huge").open("wb") as file:
        file.truncate(1 << 40)
    found, notices = collect(directory, "huge")
    assert found == []
    assert "too large" in notices[0]


def test_an_expression_that_never_ends_is_given_up(directory: Path) -> None:
    fill(directory, "x" * 60)
    found, notices = collect(directory, "(x|xx)+!")
    assert found == []
    assert notices == ["not kept: (x|xx)+! takes too long as a regular expression"]


def test_any_file_name_becomes_readable_text(directory: Path) -> None:
    Path(os.fsdecode(os.fsencode(directory) + b"/bad\xff\n.json")).write_text("x")
    assert paths(directory, r"bad[\S\s]*\.json") == ["bad\ufffd\ufffd.json"]


def test_what_may_not_be_read_is_said(directory: Path) -> None:
    fill(directory, "a")
    found, notices = collect(directory, result=None)
    assert (found, notices) == ([], [])
    collector = Collector(str(directory / "gone"), os.getuid(), PLENTY)
    assert list(collector.artifacts(None, [declared(".*")])) == []
    assert collector.notices == ["not kept: . can't be read (No such file or directory)"]


def test_more_files_than_a_job_may_keep_are_told_together(directory: Path) -> None:
    fill(directory, *(f"{number:04}" for number in range(MOST_ARTIFACTS + 7)))
    found, notices = collect(directory, "[0-9]+")
    assert len(found) == MOST_ARTIFACTS
    assert notices == [
        "not kept: 7 files beyond the 1000 artifacts that a job may have: "
        "1000, 1001, 1002, 1003, 1004, …"
    ]


def test_what_is_not_looked_at_is_told(directory: Path) -> None:
    deep = "/".join("d" * (DEEPEST + 1))
    fill(directory, f"{deep}/file")
    assert collect(directory, "file") == ([], [f"not kept: {deep} is more than 32 folders deep"])
    fill(directory, *(str(number) for number in range(MOST_FILES)))
    assert collect(directory, "file") == (
        [],
        ["not kept: d comes after 10000 files, and was not searched"],
    )


def test_a_path_that_no_ledger_can_hold_is_told(directory: Path) -> None:
    path = "/".join(["x" * 250] * 5)
    fill(directory, path)
    found, notices = collect(directory, ".*")
    assert found == []
    assert notices == [f"not kept: {path[:100]}… has a path of more than 1000 bytes"]
