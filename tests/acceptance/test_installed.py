"""What people have who install the wheel: nothing of the checkout is on their machine."""

import json
import os
import re
import shutil
import stat
import subprocess
import tempfile
from collections.abc import Iterator
from email import message_from_string
from pathlib import Path

import httpx
import pytest

from tests.support.installed import installed_programs
from tests.support.paths import ROOT
from tests.support.prefect_database import provide_prefect_database
from tests.support.processes import clean_environment
from tests.support.secrets import secret
from tests.support.service import Service


def _files(folder: Path) -> dict[str, tuple[bytes, int]]:
    """The contents of its files, and whether they are programs."""
    return {
        str(path.relative_to(folder)): (path.read_bytes(), path.stat().st_mode & stat.S_IXUSR)
        for path in folder.rglob("*")
        if path.is_file()
    }


def test_the_files_that_come_with_the_package_are_written(tmp_path: Path) -> None:
    argv = [str(installed_programs() / "jobauto"), "files", str(tmp_path / "new"), "--json"]
    done = subprocess.run(argv, env=clean_environment(), capture_output=True, text=True, check=True)
    written = _files(tmp_path / "new")
    assert json.loads(done.stdout)["files"] == sorted(written)
    assert written.pop("constraints.txt")[0] == (ROOT / "constraints.txt").read_bytes()
    shipped = _files(ROOT / "deployments")
    assert written == {f"deployments/{name}": file for name, file in shipped.items()}

    kinds = ("systemd/*.service", "compose.yaml", "helm/Chart.yaml", "examples/*", "man/jobauto.1")
    assert all([*(tmp_path / "new" / "deployments").glob(kind)] for kind in kinds)

    again = subprocess.run(
        argv, env=clean_environment(), capture_output=True, text=True, check=False
    )
    assert again.returncode == 1
    assert "is not an empty folder; name a new one" in again.stderr


def test_the_page_of_the_package_needs_no_files_beside_it() -> None:
    (metadata,) = installed_programs().parent.glob("lib/python*/site-packages/jobauto_*/METADATA")
    page = message_from_string(metadata.read_text())
    assert page["Description-Content-Type"] == "text/markdown"
    text = page.get_payload()
    assert "# jobauto-prefect" in text
    assert re.findall(r"\]\((?!https://)[^)]*\)", text) == []
    assert "Programming Language :: Python :: 3.13" in page.get_all("Classifier")


def test_man_finds_the_page_beside_the_programs() -> None:
    page = installed_programs().parent / "share" / "man" / "man1" / "jobauto.1"
    assert page.read_bytes() == (ROOT / "deployments" / "man" / "jobauto.1").read_bytes()


# May read everything, as Python itself can be in root's home; may write what everybody may.
ANOTHER_USER = """#!/bin/sh
exec setpriv --reuid nobody --regid nogroup --clear-groups --no-new-privs \\
    --inh-caps +dac_read_search --ambient-caps +dac_read_search {jobauto} "$@"
"""


@pytest.fixture
def place() -> Iterator[Path]:
    """A folder that the other user can write to."""
    with tempfile.TemporaryDirectory() as folder:
        shutil.chown(folder, "nobody", "nogroup")
        yield Path(folder)


@pytest.mark.skipif(os.getuid() != 0, reason="only root can run programs as others")
def test_the_service_runs_for_a_user_who_can_only_read_the_installation(place: Path) -> None:
    jobauto = place / "bin" / "jobauto"
    jobauto.parent.mkdir()
    jobauto.write_text(ANOTHER_USER.format(jobauto=installed_programs() / "jobauto"))
    jobauto.chmod(0o755)
    own = {"HOME": str(place), "USER": "nobody", "TMPDIR": str(place), "JOBAUTO_GRACE_SECONDS": "1"}
    first, second = (
        Service(place / name, programs=jobauto.parent, **own) for name in ("first", "second")
    )
    passphrase, file = f"{secret('correct horse battery')}\n", str(place / "whole.backup")
    provide_prefect_database(first.home)
    subprocess.run(["chown", "-R", "nobody:nogroup", first.home], check=True)

    first.start("--examples")
    try:
        assert first.json("run", "acme/Probe", "--wait")["state"] == "succeeded"
        page = httpx.get(first.prefect, auth=first.admin(), follow_redirects=True)
        assert "<html" in page.text
        made = first.jobauto("backup", file, "--passphrase-stdin", stdin=passphrase)
        assert made.returncode == 0, made.stderr
    finally:
        first.stop()
    restored = second.jobauto("restore", file, "--passphrase-stdin", stdin=passphrase)
    assert restored.returncode == 0, restored.stderr
    assert second.home.owner() == "nobody"
    assert second.json("job", "list")
    from_bash = ["bash", "-c", f"{jobauto} --install-completion; exit $?"]  # it looks for the shell
    completed = subprocess.run(
        from_bash, env=first.environment, capture_output=True, text=True, check=False
    )
    assert completed.returncode == 0, completed.stderr
    assert list(place.glob(".bash_completions/jobauto.sh"))
    # Other tests write bytecode there, as root.
    search = ["find", installed_programs().parent, "-user", "nobody"]
    assert subprocess.run(search, capture_output=True, text=True, check=False).stdout == ""
