"""Homes whose commands are run: in processes, or in the tests' own."""

import contextlib
import io
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from jobauto_prefect.cli import main
from tests.support.paths import JOBAUTO
from tests.support.processes import clean_environment

APPLICATION = {
    "$schema": "https://example.org/schema.json",
    "name": {"en": "Probe", "cs": "Sonda"},
    "description": "Looks",
    "executable": "probe",
    "environment": {"COUNT": {"type": "integer"}, "KEY": {"type": "password"}},
}
COMPANY = "kind: company\nslug: acme\nname: Acme\n"
TEMPLATE = "kind: runtemplate\ncompany: acme\napp: Sonda\nname: Nightly\n"


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

    def write(self, **files: str) -> None:
        """Write the files that are applied; an underscore in a name stands for its dot."""
        for name, text in files.items():
            (self.path / "files").mkdir(exist_ok=True)
            (self.path / "files" / name.replace("_", ".")).write_text(text)


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
