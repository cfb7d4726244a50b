"""The addresses that people open: those of the service of this home, whether it runs or not."""

from collections.abc import Mapping
from pathlib import Path

from jobauto_prefect.cli.service.home_lock import read_addresses
from jobauto_prefect.cli.service.ports import read_ports
from jobauto_prefect.variables import home, variable

CONSOLE = "/"
PAGES = "/api/v1/index.html"
DOCUMENTATION = "/docs"
DEFAULT_PORTS: Mapping[str, int] = {"api_port": 8000, "prefect_port": 4200}


def public_addresses(url: str, prefect_ui: str) -> dict[str, str]:
    """Collect what people open, by its name."""
    return {
        "Console": url + CONSOLE,
        "Prefect UI": prefect_ui,
        "Pages": url + PAGES,
        "REST": url + DOCUMENTATION,
    }


def help_epilog() -> str:
    """Write the end of `jobauto --help`."""
    named = " · ".join(f"{what}: {address}" for what, address in _home_addresses(home()).items())
    return f"With `jobauto up` you open {named}"


def _home_addresses(folder: Path) -> dict[str, str]:
    running = read_addresses(folder)
    ports = {**DEFAULT_PORTS, **read_ports(folder)}
    url = running.get("url") or variable("JOBAUTO_URL") or _local_url(ports["api_port"])
    prefect = running.get("prefect_api_url") or _local_url(ports["prefect_port"])
    return public_addresses(url.rstrip("/"), prefect.removesuffix("/api"))


def _local_url(port: int) -> str:
    return f"http://127.0.0.1:{port}"
