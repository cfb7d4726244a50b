"""Homes whose commands are run: in processes, or in the tests' own."""

import contextlib
import functools
import io
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import typer.main

from jobauto_prefect.cli import main
from jobauto_prefect.local_socket import FOLDER, is_answering
from tests.support.documents import smallest
from tests.support.paths import JOBAUTO
from tests.support.ports import free_port
from tests.support.processes import clean_environment

APPLICATION = smallest(
    name={"en": "Probe", "cs": "Sonda"},
    environment={"COUNT": {"type": "integer"}, "KEY": {"type": "password"}},
)
COMPANY = "kind: company\nslug: acme\nname: Acme\n"
STARTS_WITHIN = 60  # seconds
TEMPLATE = "kind: runtemplate\ncompany: acme\napp: Sonda\nname: Nightly\n"


_make_command = functools.lru_cache(8)(lambda app, _epilog, make=typer.main.get_command: make(app))


def _get_command(app: typer.Typer) -> Any:
    """Return all commands as a process has them; to make them takes longer than most of them do."""
    return _make_command(app, app.info.epilog)


typer.main.get_command = _get_command


class Home:
    """A home whose key and tables were made from the command line."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.environment = clean_environment() | {
            "JOBAUTO_HOME": str(path / "home"),
            "JOBAUTO_CONFIG_DIR": str(path / "home"),
            "PREFECT_API_URL": "http://127.0.0.1:9/api",
        }

    def run(self, *words: str, stdin: str = "", **more: str) -> "subprocess.CompletedProcess[str]":
        """What a command did; `more` is for its environment."""
        return subprocess.run(
            [JOBAUTO, *words],
            env=self.environment | more,
            cwd=self.path,
            input=stdin,
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )

    def told(self, *words: str, code: int = 0, stdin: str = "") -> Any:
        """What a command says as JSON."""
        done = self.run(*words, "--json", stdin=stdin)
        assert done.returncode == code, (done.stdout, done.stderr)
        return json.loads(done.stdout)

    def write(self, **files: str) -> None:
        """Write the files that are applied; an underscore in a name stands for its dot."""
        for name, text in files.items():
            (self.path / "files").mkdir(exist_ok=True)
            (self.path / "files" / name.replace("_", ".")).write_text(text)


class Served(Home):
    """A home, and the `jobauto api start` that runs in it."""

    def __init__(self, path: Path) -> None:
        super().__init__(path)
        self.environment["JOBAUTO_API_PORT"] = str(free_port())
        self.log = path / "api.log"
        self.start()

    def start(self) -> None:
        with self.log.open("a") as log:
            self.service = subprocess.Popen(
                [JOBAUTO, "api", "start"], env=self.environment, stderr=log, stdout=log
            )
        until = time.monotonic() + STARTS_WITHIN
        while not is_answering(self.path / "home"):
            assert time.monotonic() < until, self.log.read_text()
            assert self.service.poll() is None, self.log.read_text()
            time.sleep(0.05)

    def end(self, how: signal.Signals = signal.SIGTERM) -> None:
        self.service.send_signal(how)
        self.service.wait(30)

    @property
    def folder(self) -> Path:
        return self.path / "home" / FOLDER

    def has_asked(self, request: str) -> bool:
        """Whether the facade was asked this."""
        return f"jobauto_prefect.access: {request} " in self.log.read_text()


class InProcessHome(Home):
    """Runs the commands in this process: each would take seconds to import what it needs."""

    def run(self, *words: str, stdin: str = "", **more: str) -> "subprocess.CompletedProcess[str]":
        out, err = (io.TextIOWrapper(io.BytesIO(), "utf-8", newline="") for _ in range(2))
        streams = {
            "stdin": io.TextIOWrapper(io.BytesIO(stdin.encode())),
            "stdout": out,
            "stderr": err,
            "argv": ["jobauto", *words],
        }
        with replaced(streams, self.environment | more), contextlib.chdir(self.path):
            try:
                main()
            except SystemExit as end:
                code = end.code
        texts = [stream.detach().getvalue().decode() for stream in (out, err)]
        return subprocess.CompletedProcess(words, int(code or 0), *texts)


@contextlib.contextmanager
def replaced(streams: dict[str, Any], environment: dict[str, str]) -> Iterator[None]:
    """What a process is started with."""
    before, variables = {name: getattr(sys, name) for name in streams}, dict(os.environ)
    vars(sys).update(streams)
    os.environ.clear()
    os.environ.update(environment)
    try:
        yield
    finally:
        out, err = sys.stdout, sys.stderr
        out.flush()
        err.flush()
        vars(sys).update(before)
        os.environ.clear()
        os.environ.update(variables)
