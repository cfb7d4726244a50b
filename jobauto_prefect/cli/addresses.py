"""The addresses that people open: of the service of this home, whether it runs just now or not."""

from collections.abc import Mapping
from pathlib import Path

from jobauto_prefect.cli.ports import remembered
from jobauto_prefect.cli.running import addresses_in
from jobauto_prefect.variables import home, variable

PAGES = "/api/v1/index.html"
DOCUMENTATION = "/docs"
DEFAULT_PORTS: Mapping[str, int] = {"api_port": 8000, "prefect_port": 4200}


def people_open(url: str, prefect_ui: str) -> dict[str, str]:
    """What is at which address, for people."""
    return {
        "Prefect UI": prefect_ui,
        "Pages": url + PAGES,
        "REST": url + DOCUMENTATION,
    }


def epilog() -> str:
    """The end of `jobauto --help`."""
    named = " · ".join(f"{what}: {address}" for what, address in _of_this_home(home()).items())
    return f"With `jobauto up` you open {named}"


def _of_this_home(folder: Path) -> dict[str, str]:
    running = addresses_in(folder)
    ports = {**DEFAULT_PORTS, **remembered(folder)}
    url = running.get("url") or variable("JOBAUTO_URL") or _here(ports["api_port"])
    prefect = running.get("prefect_api_url") or _here(ports["prefect_port"])
    return people_open(url.rstrip("/"), prefect.removesuffix("/api"))


def _here(port: int) -> str:
    return f"http://127.0.0.1:{port}"
