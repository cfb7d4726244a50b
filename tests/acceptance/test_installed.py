"""What people have who install the wheel: nothing of the checkout is on their machine."""

import json
import stat
import subprocess
from pathlib import Path

from tests.support.installed import installed_programs
from tests.support.paths import ROOT
from tests.support.processes import clean_environment


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

    again = subprocess.run(
        argv, env=clean_environment(), capture_output=True, text=True, check=False
    )
    assert again.returncode == 1
    assert "is not an empty folder; name a new one" in again.stderr
