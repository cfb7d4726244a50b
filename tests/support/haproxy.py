"""haproxy with the configuration that is shipped."""

import re
import shutil
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

import httpx

from tests.support.breakable import Part
from tests.support.certificates import self_made
from tests.support.container_engines import require
from tests.support.paths import ROOT
from tests.support.ports import free_port
from tests.support.processes import clean_environment

PROGRAM = shutil.which("haproxy", path="/usr/local/sbin:/usr/sbin:/usr/local/bin:/usr/bin")
SHIPPED = (ROOT / "deployments" / "haproxy.cfg").read_text()
HOST = "jobauto.acme.example"
HOSTS = ("127.0.0.1", "127.0.0.2")
"""The addresses of the facades and of the Prefect servers, in place of two names."""

NAMES = ("one", "two")
"""What the configuration calls the servers of each kind."""


def is_ready(host: str, management_port: int) -> bool:
    """Whether a part says so."""
    try:
        return httpx.get(f"http://{host}:{management_port}/readyz", timeout=5).is_success
    except httpx.HTTPError:
        return False


Server = tuple[int, int]
"""The port of a server, and its management port."""


class Balancer:
    """haproxy before two facades, `one` and `two`, and two Prefect servers.

    It listens at these further addresses, too.
    """

    def __init__(
        self,
        folder: Path,
        facades: Sequence[Server],
        prefects: Sequence[Server] = (),
        further: Sequence[str] = (),
    ) -> None:
        require(PROGRAM, "haproxy")
        port, text = free_port(), SHIPPED
        for own, shipped, offset in ((facades, 8000, 0), (prefects, 4200, 1)):
            for number, server in enumerate(own, 11):
                text = text.replace(
                    f"10.0.0.{number}:{shipped} check port {9400 + offset}",
                    "127.0.0.1:{} check port {}".format(*server),
                )
        self.certificate, key = self_made(folder, HOST, addresses=HOSTS)
        (folder / "jobauto.pem").write_text(self.certificate.read_text() + key.read_text())
        listens = ",".join(f"{host}:{port}" for host in (*HOSTS, *further))
        text = text.replace("bind :443", f"bind {listens}")
        text = text.replace("-i prefect.acme.example", f"-i {HOSTS[1]}:{port}")
        text = text.replace("/etc/haproxy/jobauto.pem", str(folder / "jobauto.pem"))
        text = text.replace("local0 notice", "local0 info")  # which requests went where
        (folder / "haproxy.cfg").write_text(text)
        self.url, self.prefect_url = (f"https://{host}:{port}" for host in HOSTS)
        self.port, self.log = port, folder / "haproxy.log"
        argv = [str(PROGRAM), "-db", "-f", str(folder / "haproxy.cfg")]
        self.part = Part("haproxy", argv, clean_environment(), self.log)

    def served(self, backend: str) -> Counter[str]:
        """How many requests each server of a backend got."""
        return Counter(re.findall(rf"~ {backend}/(one|two) ", self.log.read_text()))
