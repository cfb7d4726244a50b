"""A whole service started by `jobauto up`, and the command line beside it."""

import json
import os
import signal
import subprocess
import threading
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx

from tests.support.installed import installed_programs
from tests.support.paths import ROOT
from tests.support.ports import free_port
from tests.support.prefect_database import provide_prefect_database
from tests.support.processes import clean_environment, commands, environment_of
from tests.support.secrets import SAYS_NO_SECRET
from tests.support.servers import prefect_client
from tests.support.waits import eventually
from tests.support.webhook_receiver import Receiver

EXAMPLES = ROOT / "deployments" / "examples"
READY_WITHIN = 120  # seconds
ENDS_WITHIN = 40

PROBE = """\
#!/usr/bin/env python3
import json, os, sys, time
report = {"argv": sys.argv[1:], "environment": dict(os.environ)}
with open(os.environ["RESULT_FILE"], "w") as file:
    json.dump(report, file)
print(json.dumps(report), flush=True)
time.sleep(int(os.environ.get("PROBE_SLEEP", "0")))
sys.exit(int(os.environ.get("FORCE_EXITCODE", "0")))
"""


class Service:
    """A home, the `jobauto up` that runs with it, and what that has said.

    `programs`: where it is installed; None: as for all tests.
    """

    def __init__(self, home: Path, *, programs: Path | None = None, **settings: str) -> None:
        self.home = home
        installed = programs or installed_programs()
        self._jobauto = str(installed / "jobauto")
        self.url = f"http://127.0.0.1:{free_port()}"
        self.prefect = f"http://127.0.0.1:{free_port()}"
        probe = home.parent / "bin" / "multiflexi-probe"
        probe.parent.mkdir(exist_ok=True)
        probe.write_text(PROBE)
        probe.chmod(0o755)
        folders = [str(installed), str(probe.parent), str(EXAMPLES / "bin"), os.environ["PATH"]]
        self.environment = clean_environment() | {
            "JOBAUTO_HOME": str(home),
            "JOBAUTO_CONFIG_DIR": str(home),
            "PATH": os.pathsep.join(folders),
            **settings,
        }
        self.events: list[dict[str, Any]] = []
        self.process: subprocess.Popen[str] | None = None

    def start(self, *options: str) -> None:
        """Start it and wait until it says that it is ready."""
        ports = ["--api-port", self.url.rpartition(":")[2]]
        ports += ["--prefect-port", self.prefect.rpartition(":")[2]]
        self.events.clear()
        provide_prefect_database(self.home)
        self.process = subprocess.Popen(
            [self._jobauto, "up", *ports, "--json", *options],
            env=self.environment,
            stdout=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )
        threading.Thread(target=self._listen, args=(self.process,), daemon=True).start()
        try:
            eventually(lambda: self.said("ready") or self.process_has_ended(), READY_WITHIN)
        finally:
            if not self.said("ready"):
                self.stop()
        assert self.said("ready"), self.logs()

    def _listen(self, process: "subprocess.Popen[str]") -> None:
        assert process.stdout is not None
        for line in process.stdout:
            self.events.append(json.loads(line))

    def said(self, event: str, **members: Any) -> dict[str, Any] | None:
        """The last event of that name with these members."""
        wanted = {"event": event, **members}
        matching = [members for members in self.events if wanted.items() <= members.items()]
        return matching[-1] if matching else None

    def process_has_ended(self) -> bool:
        """Whether `jobauto up` is gone."""
        return self.process is None or self.process.poll() is not None

    def stop(self) -> int:
        """SIGTERM; its exit code."""
        assert self.process is not None
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
        try:
            return self.process.wait(ENDS_WITHIN)
        finally:
            if self.process.poll() is None:
                self.process.kill()

    def logs(self) -> str:
        """The ends of all logs."""
        files = sorted((self.home / "logs").glob("*.log"))
        return "\n".join(f"== {file.name}\n{file.read_text()[-3000:]}" for file in files)

    def processes(self) -> dict[int, str]:
        """The processes that know of this home, by their environment, and their commands."""
        mark = f"JOBAUTO_HOME={self.home}".encode()
        return {pid: line for pid, line in commands().items() if mark in environment_of(pid)}

    def jobauto(
        self,
        *words: str,
        stdin: str = "",
        environment: dict[str, str] | None = None,
        timeout: float = 120,
    ) -> "subprocess.CompletedProcess[str]":
        """Run the command line beside the service."""
        return subprocess.run(
            [self._jobauto, *words],
            env=self.environment | (environment or {}),
            input=stdin,
            capture_output=True,
            text=True,
            timeout=timeout,
            check=False,
        )

    def json(self, *words: str) -> Any:
        """What a command says with --json, once it has succeeded."""
        ran = self.jobauto(*words, "--json")
        assert ran.returncode == 0, ran.stderr
        return json.loads(ran.stdout)

    def job(self, job_id: int) -> dict[str, Any]:
        """A job as the facade shows it."""
        record: dict[str, Any] = self.rest().get(f"/api/v1/job/{job_id}.json").json()
        return record

    def job_in(self, job_id: int, *states: str, seconds: float = 60) -> dict[str, Any]:
        """The job once it is in one of these states."""
        seen: dict[str, Any] = {}

        def look() -> dict[str, Any] | None:
            seen.update(self.job(job_id))
            return seen if seen["state"] in states else None

        try:
            return eventually(look, seconds)
        except AssertionError as error:
            error.add_note(json.dumps(seen, indent=1))
            raise

    def admin(self) -> tuple[str, str]:
        """Login and password of the first user."""
        admin = self.said("admin")
        assert admin is not None
        return admin["login"], admin["password"]

    def rest(self) -> httpx.Client:
        """A client of the facade that is signed in."""
        if not hasattr(self, "_rest"):
            self._rest = httpx.Client(
                base_url=self.url, auth=self.admin(), timeout=30, event_hooks=SAYS_NO_SECRET
            )
        return self._rest

    def prefect_api(self) -> httpx.Client:
        """A client of Prefect's API that is signed in."""
        return prefect_client(f"{self.prefect}/api", auth=self.admin())


@dataclass(frozen=True, slots=True)
class Watched:
    """A service whose parts tell at management ports and trace, and where their spans go."""

    service: Service
    first_port: int
    spans: Receiver
