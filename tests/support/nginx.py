"""nginx with a configuration that a page shows."""

import contextlib
import os
import shutil
import socket
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.container_engines import require

PATIENCE = 20  # seconds


@contextlib.contextmanager
def nginx(directory: Path, configuration: str, port: int) -> Iterator[None]:
    """Run nginx with this in its block `http`, where something listens on this port."""
    paths = ("client_body", "proxy", "fastcgi", "uwsgi", "scgi")
    temporary = "".join(f"{name}_temp_path {directory}/{name};\n" for name in paths)
    (directory / "nginx.conf").write_text(
        f"daemon off;\npid {directory}/pid;\nerror_log stderr;\nevents {{}}\n"
        f"http {{\naccess_log off;\n{temporary}{configuration}}}\n"
    )
    program = shutil.which("nginx", path=f"{os.environ['PATH']}:/usr/sbin")
    require(program, "nginx")
    argv = [str(program), "-p", str(directory), "-c", str(directory / "nginx.conf"), "-e", "stderr"]
    with subprocess.Popen(argv, stderr=subprocess.PIPE, text=True) as process:
        try:
            _wait_for(port, process)
            yield
        finally:
            process.terminate()
            process.wait(PATIENCE)


def _wait_for(port: int, process: subprocess.Popen[str]) -> None:
    until = time.monotonic() + PATIENCE
    while time.monotonic() < until and process.poll() is None:
        with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), 1):
            return
        time.sleep(0.05)
    pytest.fail("nginx does not start")
