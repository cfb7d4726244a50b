"""The package as people have it: this checkout's wheel in an environment of its own.

What it depends on comes from the environment of the tests; the checkout is not on its path.
"""

import fcntl
import functools
import hashlib
import shutil
import subprocess
import sys
import sysconfig
import venv
from pathlib import Path

from tests.support.paths import ROOT

KEPT = ROOT / ".pytest_cache" / "d" / "installed"
"""Where it is kept for the next run of the tests."""

SOURCES = ("jobauto_prefect", "deployments", "constraints.txt", "pyproject.toml", "README.md")
PROGRAMS = ("prefect", "uvicorn")
"""Commands of other packages that guides name."""


@functools.cache
def installed_programs() -> Path:
    """The folder with `jobauto`; one of the tests' processes installs it for all."""
    KEPT.mkdir(parents=True, exist_ok=True)
    with (KEPT / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        of = KEPT / "digest"
        digest = _digest()
        if not of.exists() or of.read_text() != digest:
            install(KEPT / "venv")
            of.write_text(digest)
    return KEPT / "venv" / "bin"


def install(folder: Path) -> Path:
    """Install this checkout's wheel in a new virtual environment; its folder of programs."""
    wheels = folder.with_suffix(".wheel")
    for old in (folder, wheels):
        shutil.rmtree(old, ignore_errors=True)
    venv.create(folder)
    python = folder / "bin" / "python"
    _run("wheel", "--no-build-isolation", "--wheel-dir", str(wheels), str(ROOT))
    _run("--python", str(python), "install", "--no-index", *map(str, wheels.glob("*.whl")))
    site = sysconfig.get_path("purelib", vars={"base": str(folder), "platbase": str(folder)})
    # Files of this kind within the folder that is named are not read: nothing is editable here.
    Path(site, "dependencies.pth").write_text(sysconfig.get_path("purelib") + "\n")
    for program in PROGRAMS:
        text = Path(sys.executable).with_name(program).read_text().partition("\n")[2]
        (folder / "bin" / program).write_text(f"#!{python}\n{text}")
        (folder / "bin" / program).chmod(0o755)
    return folder / "bin"


def _run(*words: str) -> None:
    argv = [sys.executable, "-m", "pip", "--quiet", *words, "--no-deps"]
    ran = subprocess.run(argv, capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stdout + ran.stderr


def _digest() -> str:
    made = hashlib.sha256(sys.executable.encode())
    for source in SOURCES:
        for path in sorted(
            (ROOT / source).rglob("*") if (ROOT / source).is_dir() else [ROOT / source]
        ):
            if path.is_file() and path.suffix != ".pyc":
                made.update(str(path).encode() + path.read_bytes())
    return made.hexdigest()
