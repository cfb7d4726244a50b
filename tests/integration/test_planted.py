"""The scan for planted secrets finds them wherever they were left, and fails the session."""

import base64
import os
import sqlite3
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import httpx
import psycopg
import pytest

from tests.support.databases import database
from tests.support.paths import ROOT
from tests.support.secrets import SECRET, check, leaks

LEAVES_A_LOG = """
from tests.support.secrets import secret

def test_that_leaves_a_log(tmp_path):
    (tmp_path / "service.log").write_text("password=" + SAID)
"""


@pytest.fixture
def outside() -> Iterator[Path]:
    """A folder that the scan of this very session does not see."""
    with tempfile.TemporaryDirectory() as folder:
        yield Path(folder)


def in_base64(before: str) -> str:
    return base64.b64encode(f"{before}{SECRET}:".encode()).decode()


@pytest.mark.parametrize(
    "text",
    [SECRET, in_base64(""), in_base64("a"), in_base64("ab"), f"%7B{SECRET}%7D"],
    ids=["plain", "base64", "base64 after one byte", "base64 after two bytes", "address"],
)
def test_every_form_is_found_in_files_tables_and_what_is_not_in_the_tables_yet(
    outside: Path, text: str
) -> None:
    (outside / "a" / "logs").mkdir(parents=True)
    (outside / "a" / "logs" / "service.log").write_text(f"said: {text}\n")
    for mode in ("delete", "wal"):
        with closing(sqlite3.connect(outside / f"{mode}.db", isolation_level=None)) as made:
            made.execute(f"PRAGMA journal_mode = {mode}")
            made.execute("CREATE TABLE entry (text)")
            made.execute("PRAGMA wal_checkpoint(truncate)")
            made.execute("INSERT INTO entry VALUES (?)", (text,))
            found = {each.partition(":")[0] for each in leaks(outside)}
        (outside / f"{mode}.db").unlink()
        expected = {"delete": "delete.db", "wal": "wal.db-wal"}
        assert found == {"a/logs/service.log", expected[mode]}


def test_job_directories_are_left_out_and_nothing_else_is_taken_for_a_secret(outside: Path) -> None:
    for folder in ("worker/work/w1/job-1", "job"):
        (outside / folder).mkdir(parents=True)
        (outside / folder / "result.json").write_text(SECRET)
    (outside / "other.log").write_text("s3cret-word")
    assert list(leaks(outside)) == []


def test_a_table_of_postgresql_is_found_but_not_the_content_of_an_artifact(tmp_path: Path) -> None:
    def write(url: str, kind: str, value: str | bytes) -> None:
        with psycopg.connect(url) as connection:
            connection.execute(f"CREATE TABLE entry (value {kind})".encode())
            connection.execute("INSERT INTO entry VALUES (%s)", (value,))

    with (
        pytest.raises(AssertionError, match="a table has a secret"),
        database("postgresql", tmp_path) as url,
    ):
        write(url, "text", f"said {SECRET}")
    with database("postgresql", tmp_path) as url:
        write(url, "bytea", SECRET.encode())


@pytest.mark.parametrize(
    ("address", "is_meant"),
    [
        ("/api/v1/apps.json", False),
        ("/api/v1/credential/1/reveal.json", True),
        ("/api/block_documents/1?include_secrets=true", True),
        ("/internal/v1/claims", True),
    ],
)
def test_an_answer_with_a_secret_fails_the_test_that_asked(address: str, is_meant: bool) -> None:
    asked = httpx.Request("GET", f"http://127.0.0.1{address}")
    answer = httpx.Response(200, json={"PIN": SECRET}, request=asked)
    if is_meant:
        check(answer)
        return
    with pytest.raises(AssertionError, match="says a secret"):
        check(answer)


TWO = ("-n", "2", "--dist", "loadfile")


@pytest.mark.parametrize(
    ("workers", "text", "code"),
    [((), 'secret("x")', 1), (TWO, 'secret("x")', 1), ((), '"nothing"', 0)],
    ids=["one process", "two processes", "no secret"],
)
def test_a_session_that_leaves_a_secret_fails_and_says_where(
    outside: Path, workers: tuple[str, ...], text: str, code: int
) -> None:
    (outside / "pytest.ini").write_text("[pytest]\n")
    (outside / "test_one.py").write_text(LEAVES_A_LOG.replace("SAID", text))
    command = [
        sys.executable,
        "-m",
        "pytest",
        "-p",
        "tests.support.secrets",
        "-p",
        "no:cacheprovider",
    ]
    ran = subprocess.run(
        [*command, "--basetemp", str(outside / "temporary"), *workers],
        cwd=outside,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert "1 passed" in ran.stdout
    assert ran.returncode == code, ran.stdout
    assert ("test_that_leaves_a_log0/service.log: …password=x-" in ran.stdout) == bool(code)
