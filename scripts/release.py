"""Builds what a release ships into dist/, checks and tries it: `make release`.

What is committed is built twice, and the wheel once more from the source distribution. Both are
installed as people do it, in environments outside the checkout, and run the demo there. No network
is used but the package index of pip. What is left for a person is printed at the end.
"""

import hashlib
import json
import subprocess
import sys
import tarfile
import tempfile
import time
import tomllib
import venv
from collections.abc import Iterable
from io import BytesIO
from pathlib import Path

ROOT = Path(__file__).parent.parent
DIST = ROOT / "dist"
PROGRAMS = Path(sys.executable).parent
DONE_ELSEWHERE = {"dev", "docs", "release"}
"""Extras for work on the checkout."""

LEFT = """
Left for a person, of version {version}:
1. make test, make soak, make try-lowest, make try-image, make try-compose,
   and make try-prefect V=… with the newest Prefect.
2. Make its homes: python -m scripts.former_homes {wheel}
   and set FORMER in tests/integration/workers/test_rolling_upgrade.py to the commit.
3. In CHANGELOG.md give what is under Unreleased the version and the date; commit.
4. git tag -s v{version} && git push --tags
5. twine upload dist/*.whl dist/*.tar.gz; attach dist/*.cdx.json to the release.
6. Build and push the image: docker build -f deployments/Dockerfile -t jobauto:{version} .
7. Announce it, with the changelog's entries.
"""


def run(*argv: str | Path, cwd: Path = ROOT, environment: dict[str, str] | None = None) -> str:
    """What a command prints; it has to succeed."""
    done = subprocess.run(
        argv, cwd=cwd, env=environment, text=True, stdout=subprocess.PIPE, check=False
    )
    if done.returncode:
        sys.exit(f"{' '.join(map(str, argv))}\n{done.stdout}failed with {done.returncode}")
    return done.stdout


def build(source: Path, target: Path, *kinds: str) -> dict[str, str]:
    """Build these kinds of distribution of a folder; the digests of the files by their names."""
    run(PROGRAMS / "hatchling", "build", "-d", target, *kinds, cwd=source)
    files = sorted(target.iterdir())
    return {path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in files}


def build_reproducibly(place: Path) -> list[Path]:
    """Build what is committed into dist; wheel and source distribution."""
    archive = subprocess.run(
        ["git", "archive", "HEAD"], cwd=ROOT, stdout=subprocess.PIPE, check=True
    )
    for name in ("one", "two"):
        with tarfile.open(fileobj=BytesIO(archive.stdout)) as packed:
            packed.extractall(place / name, filter="data")
    for old in DIST.glob("*"):
        old.unlink()
    first = build(place / "one", DIST)
    if build(place / "two", place / "again") != first:
        sys.exit("two builds of one commit differ")
    wheel, source = sorted(DIST.iterdir())
    with tarfile.open(source) as packed:
        packed.extractall(place / "three", filter="data")
    (unpacked,) = (place / "three").iterdir()
    if build(unpacked, place / "from-source", "-t", "wheel")[wheel.name] != first[wheel.name]:
        sys.exit("the source distribution builds another wheel")
    for name, digest in first.items():
        print(f"{digest}  {name}")
    return [wheel, source]


def install(what: str, user: Path) -> float:
    """Install a distribution with the tested versions; seconds that it took."""
    began = time.monotonic()
    venv.create(user / "venv", with_pip=True)
    pip = [user / "venv" / "bin" / "pip", "install", "--quiet", "--disable-pip-version-check"]
    run(*pip, "-c", ROOT / "constraints.txt", what, cwd=user)
    return time.monotonic() - began


def try_out(user: Path, version: str) -> float:
    """Run what a new user runs first, without settings; seconds of the demo."""
    programs = user / "venv" / "bin"
    environment = {
        "PATH": f"{programs}:/usr/bin:/bin",
        "HOME": str(user),
        "LANG": "C.UTF-8",
        "_TYPER_COMPLETE_TEST_DISABLE_SHELL_DETECTION": "1",  # the command names the shell
    }

    def jobauto(*words: str) -> str:
        return run(programs / "jobauto", *words, cwd=user, environment=environment)

    if version not in jobauto("--version"):
        sys.exit(f"jobauto --version does not say {version}")
    for shell in ("bash", "zsh", "fish"):
        jobauto("--show-completion", shell)
    jobauto("files", str(user / "files"))
    began = time.monotonic()
    jobauto("demo")
    return time.monotonic() - began


def list_components(user: Path, version: str) -> None:
    """Write the bill of materials of an installation, and name what has no licence in it."""
    bill = DIST / f"jobauto_prefect-{version}.cdx.json"
    options = ["--pyproject", ROOT / "pyproject.toml", "--output-reproducible", "-o", bill]
    run(PROGRAMS / "cyclonedx-py", "environment", *options, user / "venv" / "bin" / "python")
    components = json.loads(bill.read_text())["components"]
    without = [each["name"] for each in components if not each.get("licenses")]
    print(f"{bill.name}: {len(components)} packages; without a licence: {names(without)}")


def names(each: Iterable[str]) -> str:
    return ", ".join(each) or "none"


def main() -> None:
    """Do all that needs no person."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    version = project["version"]
    if changed := run("git", "status", "--porcelain"):
        sys.exit(f"commit or remove this first; what is committed is released:\n{changed}")
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder)
        files = build_reproducibly(place)
        print(run(PROGRAMS / "twine", "check", "--strict", *files), end="")
        for path in files:
            user = place / path.suffix[1:]
            user.mkdir()
            installed = install(str(path), user)
            if path.suffix == ".whl":
                list_components(user, version)
            demo = try_out(user, version)
            print(f"{path.name}: installed in {installed:.0f} s, demo in {demo:.0f} s")
        extras = sorted(set(project["optional-dependencies"]) - DONE_ELSEWHERE)
        (place / "extras").mkdir()
        install(f"{files[0]}[{','.join(extras)}]", place / "extras")
        try_out(place / "extras", version)
        print(f"with {names(extras)}: the demo passes")
    print(LEFT.format(version=version, wheel=files[0].relative_to(ROOT)))


if __name__ == "__main__":
    main()
