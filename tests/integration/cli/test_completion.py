"""Completion by TAB in real shells, on a terminal: a name becomes one word, and never runs."""

import json
import os
import pty
import shutil
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.homes import Served
from tests.support.paths import JOBAUTO
from tests.support.waits import eventually

WITH_TAB = "tab\there"
NAMES = (
    "plain",
    "two words, two  blanks, žluťoučký kůň",
    "$(touch ran-1) `touch ran-2` & touch ran-3 | touch ran-4; <(touch ran-5)>ran-6",
    "\\$(touch ran-7) \\`touch ran-8` back\\slash\\",
    "x'; touch ran-9; '",
    'x"; touch ran-10; "',
    "line\nend; touch ran-11",
    "line\n$(touch ran-12)",
    WITH_TAB,
    "$HOME ${HOME} !! !x ~ [a]{b,c}?#(d) a:b=c@d",
    "*",
)
SHELLS = ("bash", "zsh", "fish")
PROMPT = b"\x1b[?2004h"
"""What each of them writes when it begins to read a line."""

PROGRAM = f"""#!{sys.executable}
import json, os, sys
if "_JOBAUTO_COMPLETE" in os.environ or "--install-completion" in sys.argv:
    os.execv({JOBAUTO!r}, ["jobauto", *sys.argv[1:]])
with open(os.environ["TYPED"], "a") as typed:
    typed.write(json.dumps(sys.argv[1:]) + "\\n")
"""
"""Completes as `jobauto`, and writes down what it is otherwise called with."""


@pytest.fixture(scope="module")
def named(tmp_path_factory: pytest.TempPathFactory, prepared_home: Path) -> Iterator[Served]:
    """A service with a topic of each name, each with a beginning of its own."""
    path = tmp_path_factory.mktemp("named")
    shutil.copytree(prepared_home, path / "home")
    served = Served(path)
    topics = [{"kind": "topic", "name": f"n{no:02}{name}"} for no, name in enumerate(NAMES)]
    served.write(topics_json=json.dumps(topics))
    applied = served.run("apply", "files", "--yes")
    assert applied.returncode == 0, applied.stderr
    yield served
    served.end()


class Terminal:
    """A shell that a person types in, with the completion that `--install-completion` makes."""

    def __init__(self, shell: str, folder: Path, served: Served) -> None:
        self.typed = folder / "typed"
        program = folder / "bin" / "jobauto"
        program.parent.mkdir()
        program.write_text(PROGRAM)
        program.chmod(0o755)
        environment = served.environment | {
            "HOME": str(folder),
            "PATH": f"{program.parent}:{os.environ['PATH']}",
            "TYPED": str(self.typed),
            "TERM": "xterm",
            "LC_ALL": "C.UTF-8",
        }
        installs = [shell, "-c", "jobauto --install-completion; exit"]
        subprocess.run(installs, env=environment, cwd=folder, check=True, capture_output=True)
        self._terminal, theirs = pty.openpty()
        self._shell = subprocess.Popen(
            ["setsid", "--ctty", shell, "-i"],
            env=environment,
            cwd=folder,
            stdin=theirs,
            stdout=theirs,
            stderr=theirs,
        )
        os.close(theirs)
        self.shown = b""
        threading.Thread(target=self._read, daemon=True).start()
        self.typed.touch()
        eventually(lambda: PROMPT in self.shown)

    def _read(self) -> None:
        while self._shell.poll() is None:
            try:
                self.shown += os.read(self._terminal, 65536)
            except OSError:
                return

    def calls(self) -> list[list[str]]:
        return [json.loads(line) for line in self.typed.read_text().splitlines()]

    def called_with(self, text: str) -> list[str]:
        """What the program is called with when this is typed."""
        before, prompts = len(self.calls()), self.shown.count(PROMPT)
        os.write(self._terminal, text.encode())
        eventually(lambda: len(self.calls()) > before and self.shown.count(PROMPT) > prompts)
        return self.calls()[before]

    def end(self) -> None:
        self._shell.kill()
        self._shell.wait()
        os.close(self._terminal)


@pytest.mark.parametrize(
    "quote",
    ["", pytest.param("'", marks=pytest.mark.soak), pytest.param('"', marks=pytest.mark.soak)],
)
@pytest.mark.parametrize("shell", SHELLS)
def test_a_name_is_completed_to_one_word_and_never_run(
    shell: str, quote: str, tmp_path: Path, named: Served
) -> None:
    terminal = Terminal(shell, tmp_path, named)
    try:
        words = {
            name: terminal.called_with(f"jobauto topic show {quote}n{no:02}\t\r")
            for no, name in enumerate(NAMES)
        }
        (tmp_path / "records.yaml").touch()
        with_file = shell != "fish" and terminal.called_with(f"jobauto plan {quote}rec\t\r")
    finally:
        terminal.end()
    expected = {name: ["topic", "show", f"n{no:02}{name}"] for no, name in enumerate(NAMES)}
    if shell == "fish":  # which can't be given a name with a tab
        expected[WITH_TAB] = ["topic", "show", f"n{NAMES.index(WITH_TAB):02}"]

    assert words == expected
    assert shell == "fish" or with_file == ["plan", "records.yaml"]
    assert list(tmp_path.rglob("ran-*")) == []
