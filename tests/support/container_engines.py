"""Container engines for tests: Podman and Docker, each with a storage of its own.

Their image is made of busybox. `JOBAUTO_TEST_REQUIRE_SERVICES=1`: without an engine, or where it
runs nothing, the test fails instead of being skipped.
"""

import contextlib
import os
import shutil
import subprocess
import tarfile
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import docker
import pytest

IMAGE = "localhost/jobauto-test:latest"
PROBE_IMAGE = "docker.io/vitexsoftware/multiflexi-probe"
"""What the probe of the collection names; it is never pulled, as it is there."""

# What also works inside of another container, where groups and limits can't all be had.
RUNTIME = "runc"
EXECUTOR_SETTINGS: Mapping[str, Any] = {
    "network": "none",
    "runtime": RUNTIME,
    "ulimits": {"nofile": "1024", "nproc": "1024"},
}
CONTAINERS_CONF = f"""
[engine]
runtime = "{RUNTIME}"
cgroup_manager = "cgroupfs"
events_logger = "file"
"""
STORAGE_CONF = """
[storage]
driver = "vfs"
runroot = "{folder}/run"
graphroot = "{folder}/graph"
"""

PROBE = """#!/bin/sh
# What a job is given, and what becomes of it.
echo "arguments: $*"
env | grep -v -E '^(HOME|HOSTNAME|PATH|PWD|OLDPWD|SHLVL|TERM|container|_)=' | sort > "$RESULT_FILE"
echo "to stderr" >&2
exit "${FORCE_EXITCODE:-0}"
"""


@dataclass(frozen=True, slots=True)
class Engine:
    """A running engine; `environment` is for the command `podman`."""

    name: str
    url: str
    environment: Mapping[str, str] = field(default_factory=dict, repr=False)

    def client(self) -> Any:
        """For looking."""
        return docker.APIClient(base_url=self.url, version="auto")

    def containers(self) -> list[dict[str, Any]]:
        """All there are, ended ones too."""
        with contextlib.closing(self.client()) as client:
            containers: list[dict[str, Any]] = client.containers(all=True)
            return containers


@contextlib.contextmanager
def podman() -> Iterator[Engine]:
    """An engine of its own, with the image; it and its containers are gone afterwards."""
    require(shutil.which("podman") and shutil.which("busybox"), "podman and busybox-static")
    # Its sockets have long names below this folder, and names of sockets can't be long.
    folder = Path(tempfile.mkdtemp(prefix="jp"))
    (folder / "containers.conf").write_text(CONTAINERS_CONF)
    (folder / "storage.conf").write_text(STORAGE_CONF.format(folder=folder))
    environment = os.environ | {
        "CONTAINERS_CONF": str(folder / "containers.conf"),
        "CONTAINERS_STORAGE_CONF": str(folder / "storage.conf"),
        "XDG_RUNTIME_DIR": str(folder),
    }
    url = f"unix://{folder}/podman.sock"
    try:
        _import_image(folder, environment)
        argv = ["podman", "system", "service", "--time", "0", url]
        with _service(url, argv, environment, folder / "log"):
            yield Engine("Podman", url, environment)
        _podman(["rm", "-fa", "-t", "0"], environment)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


@contextlib.contextmanager
def dockerd() -> Iterator[Engine]:
    """A Docker daemon of its own, without networks, with the image; gone afterwards."""
    there = shutil.which("dockerd") and shutil.which("busybox") and os.geteuid() == 0
    require(there, "dockerd and busybox-static")
    folder = Path(tempfile.mkdtemp(prefix="jd"))
    url = f"unix://{folder}/docker.sock"
    argv = ["dockerd", "--host", url, "--pidfile", f"{folder}/pid", "--bridge", "none"]
    argv += ["--data-root", f"{folder}/data", "--exec-root", f"{folder}/exec"]
    argv += ["--iptables=false", "--storage-driver", "vfs"]
    try:
        with _service(url, argv, os.environ, folder / "log"):
            running = Engine("Docker", url)
            with contextlib.closing(running.client()) as client:
                client.import_image(src=str(_archive(folder)), repository=IMAGE)
                client.tag(IMAGE, PROBE_IMAGE)
            yield running
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def require(there: Any, what: str) -> None:
    """Skip, or fail, the test where something is not there."""
    if not there:
        if os.environ.get("JOBAUTO_TEST_REQUIRE_SERVICES") == "1":
            pytest.fail(f"{what} can't be used")
        pytest.skip(f"{what} can't be used")


def _import_image(folder: Path, environment: Mapping[str, str]) -> None:
    imported = _podman(["import", str(_archive(folder)), IMAGE], environment)
    _podman(["tag", IMAGE, PROBE_IMAGE], environment)
    limits = ["--ulimit", "nofile=1024", "--ulimit", "nproc=1024"]
    tried = _podman(["run", "--rm", "--network", "none", *limits, IMAGE, "true"], environment)
    require(imported.returncode == tried.returncode == 0, f"podman ({tried.stderr})")


def _archive(folder: Path) -> Path:
    archive = folder / "image.tar"
    with tarfile.open(archive, "w") as tar:
        _add_programs(tar, folder)
    return archive


def _podman(
    arguments: list[str], environment: Mapping[str, str]
) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(
        ["podman", *arguments], env=environment, capture_output=True, text=True, check=False
    )


def _add_programs(tar: tarfile.TarFile, folder: Path) -> None:
    busybox = shutil.which("busybox")
    assert busybox is not None
    applets = subprocess.run([busybox, "--list"], capture_output=True, text=True, check=True)
    modes = {".": 0o755, "bin": 0o755, "usr": 0o755, "usr/bin": 0o755, "tmp": 0o1777, "etc": 0o1777}
    for name, mode in modes.items():
        directory = tarfile.TarInfo(name)
        directory.type, directory.mode = tarfile.DIRTYPE, mode
        tar.addfile(directory)
    tar.add(busybox, "bin/busybox")
    for applet in set(applets.stdout.split()) - {"busybox"}:
        link = tarfile.TarInfo(f"bin/{applet}")
        link.type, link.linkname = tarfile.SYMTYPE, "busybox"
        tar.addfile(link)
    probe = folder / "multiflexi-probe"
    probe.write_text(PROBE)
    probe.chmod(0o755)
    tar.add(probe, "usr/bin/multiflexi-probe")
    (folder / "plain").write_text("no program")
    tar.add(folder / "plain", "usr/bin/plain")


@contextlib.contextmanager
def _service(
    url: str, argv: Sequence[str], environment: Mapping[str, str], log: Path
) -> Iterator[None]:
    with (
        log.open("wb") as output,
        subprocess.Popen(
            argv,
            env=environment,
            stdout=output,
            stderr=output,
            start_new_session=True,
        ) as service,
    ):
        socket = Path(url.removeprefix("unix://"))
        deadline = time.monotonic() + 30
        while not socket.exists():
            assert time.monotonic() < deadline, log.read_text()
            time.sleep(0.05)
        try:
            yield
        finally:
            service.terminate()
