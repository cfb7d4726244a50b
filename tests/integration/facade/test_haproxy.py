"""Several facades behind haproxy, with the configuration that is shipped."""

import socket
import ssl
from collections.abc import Iterator
from contextlib import ExitStack, suppress
from pathlib import Path

import httpx
import pytest

from jobauto_prefect.ledger.store import Ledger
from jobauto_prefect.settings import Settings
from tests.support.breakable import Part
from tests.support.haproxy import HOST, NAMES, Balancer, is_ready
from tests.support.paths import JOBAUTO
from tests.support.ports import free_port
from tests.support.processes import clean_environment
from tests.support.servers import user_token
from tests.support.waits import eventually


class Balanced:
    """Two facades of one ledger, and haproxy before them."""

    def __init__(self, folder: Path, settings: Settings) -> None:
        variables = clean_environment() | {
            "JOBAUTO_HOME": str(settings.home),
            "JOBAUTO_CONFIG_DIR": str(settings.home),
            "JOBAUTO_DATABASE_URL": settings.ledger_url,
            "JOBAUTO_PREFECT_API_URL": "http://127.0.0.1:9/api",
            "JOBAUTO_TRUSTED_PROXIES": "127.0.0.1",
        }
        own = {name: (free_port(), free_port()) for name in NAMES}
        self.management = [management for _, management in own.values()]
        self.balancer = Balancer(folder, [*own.values()])
        self.facades = {
            name: Part(
                name,
                [JOBAUTO, "api", "start"],
                variables
                | {"JOBAUTO_API_PORT": str(ports[0]), "JOBAUTO_MANAGEMENT_PORT": str(ports[1])},
                folder / f"{name}.log",
            )
            for name, ports in own.items()
        }


@pytest.fixture
def balanced(ledger_settings: Settings, ledger: Ledger, tmp_path: Path) -> Iterator[Balanced]:
    """Both facades are ready, and haproxy runs."""
    running = Balanced(tmp_path, ledger_settings)
    with ExitStack() as stack:
        for facade in running.facades.values():
            stack.callback(facade.end)
            facade.start()
        eventually(lambda: all(is_ready("127.0.0.1", port) for port in running.management), 60)
        stack.callback(running.balancer.part.end)
        running.balancer.part.start()
        eventually(lambda: is_open(running.balancer.port), 60)
        yield running


def is_open(port: int) -> bool:
    """Whether somebody listens there."""
    with suppress(OSError), socket.create_connection(("127.0.0.1", port)):
        return True
    return False


@pytest.mark.parametrize("migrated", ["postgresql"], indirect=True)
def test_requests_go_on_while_a_facade_is_killed(balanced: Balanced, ledger: Ledger) -> None:
    trusted = ssl.create_default_context(cafile=str(balanced.balancer.certificate))
    headers = {"Host": HOST, "Authorization": f"Bearer {user_token(ledger, 'eva', ['admin'])}"}
    asked = {"headers": headers, "extensions": {"sni_hostname": HOST}}
    with httpx.Client(base_url=balanced.balancer.url, verify=trusted) as client:

        def ask(times: int) -> set[int]:
            return {client.get("/api/v1/companies.json", **asked).status_code for _ in range(times)}  # type: ignore[arg-type]

        assert ask(10) == {200}
        eventually(lambda: set(balanced.balancer.served("facade")) == set(NAMES))
        assert "facade/one is" not in balanced.balancer.log.read_text()
        balanced.facades["one"].kill()
        assert ask(20) == {200}  # before haproxy has noticed, and after
        eventually(lambda: "facade/one is DOWN" in balanced.balancer.log.read_text())
        balanced.facades["one"].start()
        eventually(lambda: "facade/one is UP" in balanced.balancer.log.read_text(), 60)
        before = balanced.balancer.served("facade")["one"]
        assert ask(10) == {200}
        eventually(lambda: balanced.balancer.served("facade")["one"] > before)
