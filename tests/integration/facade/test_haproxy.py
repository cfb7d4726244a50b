"""Several facades behind haproxy, with the configuration that is shipped."""

import re
import shutil
import ssl
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import httpx
import pytest

from jobauto_prefect.ledger.store import Ledger
from jobauto_prefect.settings import Settings
from tests.support.breakable import Part
from tests.support.certificates import self_made
from tests.support.paths import JOBAUTO, ROOT
from tests.support.podman import require
from tests.support.ports import free_port
from tests.support.processes import clean_environment
from tests.support.servers import user_token
from tests.support.waits import eventually

PROGRAM = shutil.which("haproxy", path="/usr/local/sbin:/usr/sbin:/usr/local/bin:/usr/bin")
SHIPPED = (ROOT / "deployments" / "haproxy.cfg").read_text()
NAMES = ("one", "two")
HOST = "jobauto.acme.example"


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
        port, own, text = free_port(), {name: (free_port(), free_port()) for name in NAMES}, SHIPPED
        for name, number in zip(NAMES, (11, 12), strict=True):
            text = text.replace(
                f"10.0.0.{number}:8000 check port 9400",
                "127.0.0.1:{} check port {}".format(*own[name]),
            )
        self.certificate, key = self_made(folder, HOST)
        (folder / "jobauto.pem").write_text(self.certificate.read_text() + key.read_text())
        text = text.replace("bind :443", f"bind 127.0.0.1:{port}")
        text = text.replace("/etc/haproxy/jobauto.pem", str(folder / "jobauto.pem"))
        text = text.replace("local0 notice", "local0 info")  # which requests went where
        (folder / "haproxy.cfg").write_text(text)
        self.url, self.log = f"https://127.0.0.1:{port}", folder / "haproxy.log"
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
        argv = [str(PROGRAM), "-db", "-f", str(folder / "haproxy.cfg")]
        self.proxy = Part("haproxy", argv, clean_environment(), self.log)

    def served(self) -> Counter[str]:
        """How many requests each facade got."""
        return Counter(re.findall(r" facade/(one|two) ", self.log.read_text()))


@pytest.fixture
def balanced(ledger_settings: Settings, ledger: Ledger, tmp_path: Path) -> Iterator[Balanced]:
    """Both facades are ready, and haproxy knows."""
    require(PROGRAM, "haproxy")
    running = Balanced(tmp_path, ledger_settings)
    with ExitStack() as stack:
        for part in (*running.facades.values(), running.proxy):
            stack.callback(part.end)
            part.start()
        eventually(lambda: running.log.read_text().count(" is UP") == len(NAMES), 60)
        yield running


@pytest.mark.parametrize("migrated", ["postgresql"], indirect=True)
def test_requests_go_on_while_a_facade_is_killed(balanced: Balanced, ledger: Ledger) -> None:
    trusted = ssl.create_default_context(cafile=str(balanced.certificate))
    headers = {"Host": HOST, "Authorization": f"Bearer {user_token(ledger, 'eva', ['admin'])}"}
    asked = {"headers": headers, "extensions": {"sni_hostname": HOST}}
    with httpx.Client(base_url=balanced.url, verify=trusted) as client:

        def ask(times: int) -> set[int]:
            return {client.get("/api/v1/companies.json", **asked).status_code for _ in range(times)}  # type: ignore[arg-type]

        assert ask(10) == {200}
        eventually(lambda: set(balanced.served()) == set(NAMES))
        balanced.facades["one"].kill()
        assert ask(20) == {200}  # before haproxy has noticed, and after
        eventually(lambda: "facade/one is DOWN" in balanced.log.read_text())
        balanced.facades["one"].start()
        eventually(lambda: balanced.log.read_text().count("facade/one is UP") == 2, 60)
        before = balanced.served()["one"]
        assert ask(10) == {200}
        eventually(lambda: balanced.served()["one"] > before)
