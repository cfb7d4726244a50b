"""What several tests share: a real Prefect server, free ports, processes that end."""

import asyncio
import contextlib
import gc
import os
import signal
import socket
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import settings as hypothesis_settings

from jobauto_prefect.engine.prefect_server.process import prefect_command, wait_ready
from jobauto_prefect.settings import Settings

pytest_plugins = ("tests.support.secrets",)

# To look for garbage every 700 objects is a fifth of what the tests take.
gc.set_threshold(20_000)

# No test asserts how long something takes: on a busy machine an example may take its time.
hypothesis_settings.register_profile("ours", deadline=None)
hypothesis_settings.load_profile("ours")

ENDS_WITHIN = 10  # seconds
START_WITHIN = 240  # of a Prefect server on a busy machine


def free_port() -> int:
    """A TCP port of this machine that nobody uses at the moment."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@contextlib.contextmanager
def running(
    argv: list[str], environment: dict[str, str], log: Path
) -> Iterator[subprocess.Popen[bytes]]:
    """A process with its output in `log`; it and its children are gone afterwards."""
    with log.open("ab") as output:
        process = subprocess.Popen(
            argv, env=environment, stdout=output, stderr=output, start_new_session=True
        )
    try:
        yield process
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGTERM)
        try:
            process.wait(ENDS_WITHIN)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()


def clean_environment() -> dict[str, str]:
    """This process's environment without what it says about Prefect and jobauto."""
    return {
        name: value
        for name, value in os.environ.items()
        if not name.startswith(("PREFECT_", "JOBAUTO_", "DB_"))
    }


@pytest.fixture(scope="session")
def prefect_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The API address of a real Prefect server with its own SQLite database."""
    home = tmp_path_factory.mktemp("prefect")
    port = free_port()
    url = f"http://127.0.0.1:{port}/api"
    settings = Settings(home=home, prefect_port=port, prefect_api_url=url)
    argv, environment = prefect_command(settings, clean_environment())
    # Silent workers show as offline within seconds.
    environment["PREFECT_SERVER_SERVICES_FOREMAN_LOOP_SECONDS"] = "2"
    with running(argv, environment, home / "server.log"):
        asyncio.run(wait_ready(url, START_WITHIN))
        yield url
