"""Prefect's own server as a child process: starting it and waiting until it is ready."""

import asyncio
import contextlib
import os
import sys
from collections.abc import Mapping
from importlib.util import find_spec
from pathlib import Path

import httpx

from jobauto_prefect.engine.prefect_server.redis import redis_environment
from jobauto_prefect.errors import PrefectUnavailable
from jobauto_prefect.home import make_folder
from jobauto_prefect.settings import Settings

READY_POLL_SECONDS = 0.1

QUIET: Mapping[str, str] = {
    "PREFECT_SERVER_ANALYTICS_ENABLED": "false",
    "PREFECT_LOGGING_LEVEL": "WARNING",
    "PREFECT_SERVER_LOGGING_LEVEL": "WARNING",
    "PREFECT_CLI_PROMPT": "false",
    "DO_NOT_TRACK": "1",
    # Logs and artifacts of deleted runs are deleted, too.
    "PREFECT_SERVER_SERVICES_DB_VACUUM_ENABLED": "events,orphans",
}
"""Defaults of the Prefect server that is started here; the environment overrides them."""


def prefect_command(
    settings: Settings, inherited: Mapping[str, str] = os.environ
) -> tuple[list[str], dict[str, str]]:
    """Return argument vector and environment of a Prefect server without authentication.

    For tests and measurements; `jobauto prefect start` runs one behind the gateway.
    """
    argv = [sys.executable, "-m", "uvicorn", "--factory", f"{__package__}.app:create_app"]
    argv += ["--host", settings.api_host, "--port", str(settings.prefect_port)]
    argv += ["--log-level", "warning", "--timeout-keep-alive", "5"]
    return argv, prefect_environment(settings, inherited)


def prefect_environment(
    settings: Settings, inherited: Mapping[str, str], *, with_services: bool = True
) -> dict[str, str]:
    """Return the environment of a Prefect server, with its background services or without.

    Its files are in the folder `prefect` of the home. Inherited `PREFECT_*` variables win, except
    for the addresses, which come from the settings.

    Raises:
        NotReady: the package for JOBAUTO_REDIS_URL is not installed.
    """
    home = settings.home / "prefect"
    make_folder(home)  # Prefect creates no parent folders
    own = {"PREFECT_HOME": str(home), **QUIET}
    package = find_spec("prefect")
    if package and package.origin and not os.access(Path(package.origin).parent, os.W_OK):
        # Prefect writes its UI into its package by default. Its newer name of this setting wins.
        own["PREFECT_UI_STATIC_DIRECTORY"] = str(home / "ui")
    environment = {**own, **inherited}
    environment |= redis_environment(settings, inherited, with_services=with_services)
    return environment | {
        "PREFECT_SERVER_API_HOST": settings.api_host,
        "PREFECT_SERVER_API_PORT": str(settings.prefect_port),
        "PREFECT_API_URL": settings.prefect_api_url,
    }


BLOCK_KEY = "PREFECT_SERVER_ENCRYPTION_KEY"
READ_DIRECTLY = frozenset(
    {"PREFECT_PROFILE", BLOCK_KEY, "PREFECT_FLOW_RUN_EXECUTE_SIGTERM_BEHAVIOR"}
)
"""What Prefect reads from its environment besides its settings."""


def prefect_names() -> frozenset[str]:
    """Return the names of all environment variables that Prefect reads."""
    from prefect.settings import Settings as PrefectSettings
    from prefect.settings.legacy import _get_settings_fields

    names = _get_settings_fields(PrefectSettings)
    return frozenset(name for name in names if name.startswith("PREFECT_")) | READ_DIRECTLY


async def wait_ready(api_url: str, timeout_seconds: float = 60) -> None:
    """Return once the Prefect server at `api_url` (ending in `/api`) answers.

    Raises:
        PrefectUnavailable: after `timeout_seconds`.
    """
    # Whether its certificate matches this address does not matter here.
    async with httpx.AsyncClient(timeout=2, verify=False) as client:  # noqa: S501
        try:
            async with asyncio.timeout(timeout_seconds):
                while True:
                    with contextlib.suppress(httpx.TransportError):
                        if (await client.get(f"{api_url.rstrip('/')}/health")).is_success:
                            return
                    await asyncio.sleep(READY_POLL_SECONDS)
        except TimeoutError:
            raise PrefectUnavailable(
                f"Prefect at {api_url} did not answer within {timeout_seconds:.0f} s; "
                "look at its log, or set PREFECT_API_URL"
            ) from None
