"""The home and its files are closed to others, however they came to be."""

import os
import sqlite3
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from jobauto_prefect.home import close_home, make_home, open_paths
from jobauto_prefect.settings import RUN_AS_DIRECTORY, Settings

JOBAUTO = [sys.executable, "-m", "jobauto_prefect.cli"]


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def home_with(tmp_path: Path, home_mode: int, database: str = "") -> Settings:
    """A home with a file of each kind, all open to everybody."""
    home = tmp_path / "home"
    for name in (
        "ledger.db",
        "ledger.db-wal",
        "ledger.db-shm",
        "copy.db",
        "jobauto.env",
        "up.lock",
    ):
        (home / "logs").mkdir(parents=True, exist_ok=True)
        (home / name).write_text(name)
        (home / name).chmod(0o644)
    (home / "logs" / "facade.log").touch(0o644)
    (home / "logs" / "facade.log.1").touch(0o664)
    (home / "prefect").mkdir()
    (home / "work").mkdir()
    home.chmod(home_mode)
    return Settings(home=home, database_url=database)


@pytest.mark.parametrize(
    ("found", "left"),
    [
        (0o755, 0o700),
        (0o777, 0o700),
        (0o750, 0o700),
        (0o715, 0o700),
        (0o711, 0o711),
        (0o700, 0o700),
    ],
)
def test_a_start_closes_what_is_wider_but_no_home_that_was_opened_for_passing(
    tmp_path: Path, found: int, left: int
) -> None:
    settings = home_with(tmp_path, found)
    make_home(settings)
    home = settings.home
    assert mode(home) == left
    assert mode(home / "logs") == mode(home / "prefect") == 0o700
    files = [*home.glob("*.*"), *(home / "logs").iterdir()]
    assert len(files) == 8
    assert {path.name: mode(path) for path in files} == dict.fromkeys(
        (path.name for path in files), 0o600
    )
    assert list(open_paths(settings)) == []


def test_a_ledger_elsewhere_is_closed_and_its_folder_is_left(tmp_path: Path) -> None:
    database = tmp_path / "shared" / "jobs.db"
    settings = home_with(tmp_path, 0o700, f"sqlite:///{database}")
    database.parent.mkdir(mode=0o755)
    for suffix in ("", "-wal", "-shm"):
        Path(f"{database}{suffix}").touch(0o644)
    assert Path(f"{database}-wal") in open_paths(settings)
    close_home(settings)
    assert {mode(path) for path in database.parent.iterdir()} == {0o600}
    assert mode(database.parent) == 0o755


def test_links_the_key_and_what_is_meant_for_many_users_are_left(tmp_path: Path) -> None:
    settings = home_with(tmp_path, 0o1777)
    elsewhere = tmp_path / "elsewhere"
    elsewhere.touch(0o644)
    (settings.home / "link").symlink_to(elsewhere)
    settings.key_path.touch(0o644)
    close_home(settings)
    assert (mode(settings.home), mode(elsewhere), mode(settings.key_path)) == (0o1777, 0o644, 0o644)


def test_a_home_that_is_not_there_is_not_made_by_closing_it(tmp_path: Path) -> None:
    close_home(Settings(home=tmp_path / "none"))
    assert not (tmp_path / "none").exists()


@pytest.mark.parametrize(
    "words", [["secrets", "init"], ["db", "upgrade"], ["db", "check"], ["prefect", "start"]]
)
def test_every_command_that_makes_a_home_makes_it_and_its_files_closed(
    tmp_path: Path, words: list[str]
) -> None:
    home = tmp_path / "var" / "home"
    environment = {"PATH": os.environ["PATH"], "JOBAUTO_HOME": str(home)}
    subprocess.run([*JOBAUTO, *words], env=environment, umask=0, check=False, capture_output=True)
    assert mode(home) == 0o700
    made = [path for path in home.rglob("*") if path.is_file()]
    assert made or words == ["prefect", "start"]  # which lacks a key, and says so
    assert {path.name: mode(path) for path in made} == {path.name: 0o600 for path in made}


def test_the_ledger_is_closed_from_its_first_moment(tmp_path: Path) -> None:
    home = tmp_path / "home"
    environment = {"PATH": os.environ["PATH"], "JOBAUTO_HOME": str(home)}
    upgrade = [*JOBAUTO, "db", "upgrade"]
    subprocess.run(upgrade, env=environment, umask=0, check=True, capture_output=True)
    with sqlite3.connect(home / "ledger.db") as ledger:
        ledger.execute("CREATE TABLE more (n)")
        modes = {path.name: mode(path) for path in home.glob("ledger.db*")}
    assert modes == dict.fromkeys(["ledger.db", "ledger.db-wal", "ledger.db-shm"], 0o600)


def test_jobs_that_run_as_others_have_their_directories_outside_of_the_home(tmp_path: Path) -> None:
    home = tmp_path / "home"
    assert Settings(home=home).work_directory == home / "work"
    assert Settings(home=home, run_as=("nobody",)).work_directory == RUN_AS_DIRECTORY
    named = Settings(home=home, run_as=("nobody",), worker_directory=tmp_path / "jobs")
    assert named.work_directory == tmp_path / "jobs"
