"""Build the container image on a fresh Debian, and try it as deployments/compose.yaml runs it.

    python -m scripts.image [OPTION…]

Needs podman and mmdebstrap, and root. Options go to `podman build`, such as `--volume` for the
files of a package index. The base is the Python of this machine's Debian release; that of the
Dockerfile needs a registry.
"""

import contextlib
import json
import platform
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[1]
BASE, IMAGE = "localhost/jobauto-base", "localhost/jobauto"
PACKAGES = "ca-certificates,python-is-python3,python3,python3-venv"
OWN_MB = 20
"""What the image may add to its base and its environment."""

# As in compose.yaml; limits and network also work inside of another container.
AS_SHIPPED = (
    "--read-only", "--tmpfs", "/tmp", "--cap-drop", "ALL",
    "--security-opt", "no-new-privileges",
    "--ulimit", "nofile=1024", "--ulimit", "nproc=1024", "--network", "host",
)  # fmt: skip
GRACE_SECONDS = 40


def _run(*command: str) -> str:
    return subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout.strip()


def _build(options: list[str]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        archive = f"{folder}/base.tar"
        release = platform.freedesktop_os_release()["VERSION_CODENAME"]
        _run(
            "mmdebstrap", "--quiet", "--variant=minbase", f"--include={PACKAGES}", release, archive
        )
        _run("podman", "import", "--quiet", archive, BASE)
        source = f"{folder}/source"  # what is committed, nothing else
        _run("git", "clone", "--quiet", str(ROOT), source)
        _run(
            "podman", "build", "--quiet", "--isolation", "chroot", "--network", "host", *options,
            "--build-arg", f"PYTHON={BASE}", "--target", "jobauto",
            "--file", f"{source}/deployments/Dockerfile", "--tag", IMAGE, source,
        )  # fmt: skip


def _megabytes(image: str) -> float:
    return int(json.loads(_run("podman", "image", "inspect", image))[0]["Size"]) / 1e6


@contextlib.contextmanager
def _volume() -> Iterator[str]:
    name = _run("podman", "volume", "create")
    try:
        yield name
    finally:
        _run("podman", "volume", "rm", "--force", name)


def _in_image(volume: str, *command: str) -> str:
    where = ("--volume", f"{volume}:/var/lib/jobauto")
    return _run("podman", "run", "--rm", *AS_SHIPPED, *where, IMAGE, *command)


def _stop_seconds(volume: str) -> float:
    """How long the whole service takes to end; it must end by itself."""
    where = ("--volume", f"{volume}:/var/lib/jobauto")
    container = _run("podman", "run", "--detach", *AS_SHIPPED, *where, IMAGE, "jobauto", "up")
    try:
        while "Ready." not in (logs := _run("podman", "logs", container)):
            assert container in _run("podman", "ps", "--quiet", "--no-trunc"), logs
            time.sleep(0.2)
        began = time.monotonic()
        _run("podman", "stop", "--time", str(GRACE_SECONDS), container)
        taken = time.monotonic() - began
        code = json.loads(_run("podman", "inspect", container))[0]["State"]["ExitCode"]
        assert code == 0, f"it ended with {code}"
        return taken
    finally:
        _run("podman", "rm", "--force", container)


def main() -> None:
    """Print the figures; fail if one is not as it must be."""
    _build(sys.argv[1:])
    with _volume() as volume:
        environment = int(_in_image(volume, "du", "-sb", "/opt/jobauto").split()[0]) / 1e6
        own = _megabytes(IMAGE) - _megabytes(BASE) - environment
        print(f"image {_megabytes(IMAGE):.0f} MB: base {_megabytes(BASE):.0f} MB, environment "
              f"{environment:.0f} MB, the rest {own:.1f} MB")  # fmt: skip
        assert own <= OWN_MB
        user = _in_image(volume, "id", "--user")
        assert user != "0", "it runs as root"
        began = time.monotonic()
        assert "Everything is stopped" in _in_image(volume, "jobauto", "demo")
        print(f"user {user}, demo in {time.monotonic() - began:.0f} s")
        print(f"ends {_stop_seconds(volume):.1f} s after SIGTERM")


if __name__ == "__main__":
    main()
