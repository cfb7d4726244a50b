"""This program as a child process: its command line and its environment."""

import sys
from collections.abc import Callable, Mapping
from urllib.parse import urlsplit

from jobauto_prefect.settings import Settings
from jobauto_prefect.variables import variable

WITHHELD = ("JOBAUTO_TOKEN", "JOBAUTO_WORKER_TOKEN")
"""Variables that no part of the service gets."""


def load_service_settings(load: Callable[..., Settings], **ports: int | None) -> Settings:
    """Load the settings of a service with all parts on this machine.

    If the settings set the facade's address, it stays; Prefect's address is always that of the
    server started here.
    """
    named = {name: port for name, port in ports.items() if port is not None}
    settings = load(**named)
    host, scheme = reachable_host(settings.api_host), "http"
    if settings.tls_cert is not None:
        scheme = "https"
        if "url" in settings.model_fields_set:  # its host is that of the certificate
            host = urlsplit(settings.url).hostname or host
    own = {"prefect_api_url": f"{scheme}://{host}:{settings.prefect_port}/api"}
    if "url" not in settings.model_fields_set:
        own["url"] = facade_address(settings)
    return load(**named, **own)


def facade_address(settings: Settings) -> str:
    """Return the address at which this machine reaches its own facade."""
    scheme = "http" if settings.tls_cert is None else "https"
    return f"{scheme}://{reachable_host(settings.api_host)}:{settings.api_port}"


def reachable_host(host: str) -> str:
    """Translate a server's listening address to one to connect to."""
    anywhere = {"0.0.0.0": "127.0.0.1", "::": "[::1]"}  # noqa: S104 - what to connect to instead
    return anywhere.get(host, host)


def part_environment(settings: Settings, inherited: Mapping[str, str]) -> dict[str, str]:
    """Make the environment of a part of the service."""
    kept = {name: value for name, value in inherited.items() if name not in WITHHELD}
    return kept | part_variables(settings)


def part_variables(settings: Settings) -> dict[str, str]:
    """Make the variables that pass the settings to the parts of the service; none is secret."""
    return {
        "JOBAUTO_HOME": str(settings.home),
        "JOBAUTO_URL": settings.url,
        "JOBAUTO_API_PORT": str(settings.api_port),
        "JOBAUTO_PREFECT_PORT": str(settings.prefect_port),
        "PREFECT_API_URL": settings.prefect_api_url,
        "PREFECT_HOME": variable("PREFECT_HOME") or str(settings.home / "prefect"),
    }


def program_command(*words: str) -> list[str]:
    """Make the command line of this program; `-P`: don't import from the current folder."""
    return [sys.executable, "-P", "-m", "jobauto_prefect.cli", *words]
