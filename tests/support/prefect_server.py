"""A real Prefect server for all tests that need one."""

import asyncio
from collections.abc import Iterator
from pathlib import Path

import pytest

from jobauto_prefect.engine.prefect_server.process import prefect_command, wait_ready
from jobauto_prefect.settings import Settings
from tests.support.ports import free_port
from tests.support.prefect_database import provide_prefect_database
from tests.support.processes import clean_environment, running

SERVICES = {
    # Silent workers show as offline within seconds.
    "PREFECT_SERVER_SERVICES_FOREMAN_LOOP_SECONDS": "2",
    # What no test is about; each is a question of its database every few seconds.
    "PREFECT_SERVER_SERVICES_CLEANUP_RECONCILER_ENABLED": "false",
    "PREFECT_SERVER_SERVICES_LATE_RUNS_ENABLED": "false",
    "PREFECT_SERVER_SERVICES_PAUSE_EXPIRATIONS_ENABLED": "false",
    "PREFECT_SERVER_SERVICES_REPOSSESSOR_ENABLED": "false",
}
STARTS_WITHIN = 240  # seconds, on a busy machine


@pytest.fixture(scope="session")
def prefect_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The home of that server."""
    return tmp_path_factory.mktemp("prefect")


@pytest.fixture(scope="session")
def prefect_server(prefect_folder: Path) -> Iterator[str]:
    """The API address of a real Prefect server with its own SQLite database."""
    home = prefect_folder
    provide_prefect_database(home)
    port = free_port()
    url = f"http://127.0.0.1:{port}/api"
    settings = Settings(home=home, prefect_port=port, prefect_api_url=url)
    argv, environment = prefect_command(settings, clean_environment())
    environment |= SERVICES
    with running(argv, environment, home / "server.log"):
        asyncio.run(wait_ready(url, STARTS_WITHIN))
        yield url
