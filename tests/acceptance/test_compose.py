"""The parts of `deployments/compose.yaml` as processes, with its commands and environments."""

import contextlib
import os
import re
import ssl
import subprocess
from pathlib import Path
from typing import Any

import httpx
import yaml

from tests.support.installed import installed_programs
from tests.support.paths import ROOT
from tests.support.ports import free_port, free_range
from tests.support.prefect_database import provide_prefect_database
from tests.support.processes import clean_environment, running
from tests.support.waits import eventually

FILE = (ROOT / "deployments" / "compose.yaml").read_text()
PARTS = ("facade", "prefect", "services", "worker")
GRACE = 10  # seconds, those of compose unless a service has its own
DEFAULT = re.compile(r"\$\{\w*URL:-([^}]*)\}")
REQUIRED = re.compile(r"\$\{(\w+)(?!\w|:-)")


class Composed:
    """The services of the file, with SQLite, ports of their own, and their volumes in `place`."""

    def __init__(self, place: Path) -> None:
        self.place = place
        self.api, self.prefect, self.management = free_port(), free_port(), free_range()
        text = DEFAULT.sub(r"\1", FILE)
        text = re.sub(r"(localhost|facade):8000", f"localhost:{self.api}", text)
        text = re.sub(r"(localhost|prefect):4200", f"localhost:{self.prefect}", text)
        text = re.sub(r"PORT: 9400$", f"PORT: {self.management}", text, flags=re.MULTILINE)
        text = re.sub(r"postgresql://\S*\$\{.*", f"sqlite:///{place}/ledger.db", text)
        text = re.sub(r" +PREFECT_SERVER_DATABASE_CONNECTION_URL: .*", "", text)
        self.services: dict[str, Any] = yaml.safe_load(text)["services"]

    def process(self, name: str) -> tuple[list[str], dict[str, str]]:
        """The command and the environment of a service."""
        service = self.services[name]
        ports = {"JOBAUTO_API_PORT": self.api, "JOBAUTO_PREFECT_PORT": self.prefect}
        environment = {"JOBAUTO_HOME": "/var/lib/jobauto", **service["environment"], **ports}
        words = [*service["command"], *map(str, environment.values())]
        for volume in service["volumes"]:
            source, _, folder = volume.rpartition(":")
            outside = str(self.volume(source))
            words = [re.sub(rf"{folder}(?![\w-])", outside, word) for word in words]
        count = len(service["command"])
        path = {"PATH": f"{installed_programs()}:{os.environ['PATH']}"}
        settings = dict(zip(environment, words[count:], strict=True))
        return words[:count], clean_environment() | path | settings

    def volume(self, source: str) -> Path:
        """The folder of a volume."""
        folder = self.place / re.sub(r"\W", "", source)
        folder.mkdir(mode=0o700, exist_ok=True)
        return folder

    def prepare(self) -> dict[str, bytes]:
        """Run the service that the others wait for; the files that there are then."""
        argv, environment = self.process("prepare")
        done = subprocess.run(argv, env=environment, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
        files = [path for path in self.place.glob("*/*") if path.is_file()]
        return {str(path.relative_to(self.place)): path.read_bytes() for path in files}


def test_the_parts_start_and_the_only_secret_is_the_password_of_the_database(
    tmp_path: Path,
) -> None:
    assert set(REQUIRED.findall(FILE)) == {"DB_PASSWORD"}
    composed = Composed(tmp_path)

    made = composed.prepare()
    assert composed.prepare() == made
    assert {name for name in made if name.startswith("work/")} == {
        "work/ca.crt",
        "work/worker.token",
    }

    provide_prefect_database(tmp_path / "home")
    trusted = ssl.create_default_context(cafile=str(tmp_path / "home" / "ca.crt"))
    with contextlib.ExitStack() as stack:
        processes = {
            part: stack.enter_context(running(*composed.process(part), tmp_path / f"{part}.log"))
            for part in PARTS
        }
        ports = range(composed.management, composed.management + len(PARTS))
        try:
            eventually(lambda: all(is_ready(port) for port in ports))
        except AssertionError as error:
            for part in PARTS:
                error.add_note((tmp_path / f"{part}.log").read_text()[-2000:])
            raise
        page = httpx.get(f"https://localhost:{composed.api}/login.html", verify=trusted)
        assert page.status_code == 200
        # The first process of a container is ended by signals that it handles, only.
        for part in ("worker", "services"):
            processes[part].terminate()
            assert processes[part].wait(GRACE) == 0, part


def is_ready(port: int) -> bool:
    """Whether the part with this management port can do its work."""
    with contextlib.suppress(httpx.TransportError):
        return httpx.get(f"http://127.0.0.1:{port}/readyz").status_code == 200
    return False
