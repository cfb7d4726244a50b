"""`jobauto run --wait` where nothing runs the job: what it says, and how it ends."""

import json
import os
import pty
import shutil
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from jobauto_prefect.cli.output import job_progress
from tests.support.homes import APPLICATION, COMPANY, TEMPLATE, Home, InProcessHome
from tests.support.paths import JOBAUTO

ENDS_WITHIN = 60  # seconds
TAKES_INTERRUPTS = ("env", "--default-signal=INT")
"""What is started in the background, as these tests may be, ignores interrupts."""


@pytest.fixture(scope="module")
def applied(tmp_path_factory: pytest.TempPathFactory, prepared_home: Path) -> Path:
    """A home with a run template, where no worker ever was and Prefect is away, to copy."""
    home = InProcessHome(tmp_path_factory.mktemp("applied"))
    shutil.copytree(prepared_home, home.path / "home")
    home.write(app_json=json.dumps(APPLICATION), rest_yaml=COMPANY + "---\n" + TEMPLATE)
    assert home.run("apply", "files", "--yes").returncode == 0
    return home.path


@pytest.fixture
def home(tmp_path: Path, applied: Path) -> Home:
    """A copy of `applied`."""
    shutil.copytree(applied, tmp_path, dirs_exist_ok=True)
    return InProcessHome(tmp_path)


class Waiting:
    """A `jobauto run --wait` that does not end by itself; `typing` is the terminal before it."""

    def __init__(self, home: Home, *, terminal: bool) -> None:
        self.typing, stdin = pty.openpty() if terminal else (-1, subprocess.DEVNULL)
        self.process = subprocess.Popen(
            [*TAKES_INTERRUPTS, JOBAUTO, "run", "acme/Nightly", "--wait"],
            env=home.environment,
            cwd=home.path,
            stdin=stdin,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )

    def says(self, words: str) -> str:
        """What it has said on standard error, once these words are in it."""
        assert self.process.stderr is not None
        output = b""
        while words.encode() not in output:
            more = os.read(self.process.stderr.fileno(), 4096)
            assert more, output
            output += more
        return output.decode()


@pytest.fixture
def waiting(home: Home) -> Iterator[Waiting]:
    """One without a terminal, which has said what it waits for."""
    running = Waiting(home, terminal=False)
    running.says("waits: ")
    yield running
    running.process.kill()
    running.process.communicate()


@pytest.fixture
def watched(home: Home) -> Iterator[Waiting]:
    """One at a terminal, which has said what it waits for."""
    running = Waiting(home, terminal=True)
    running.says("waits: ")
    yield running
    running.process.kill()
    running.process.communicate()


def state_of_job(home: Home) -> str:
    state: str = json.loads(home.run("job", "show", "1", "--json").stdout)["state"]
    return state


def test_who_waits_is_told_what_for(home: Home) -> None:
    running = Waiting(home, terminal=False)

    output = running.says("waits: ")

    running.process.kill()
    running.process.communicate()
    assert "job 1 waits: " in output


def test_a_timeout_ends_the_waiting_with_4_and_the_job_goes_on(
    home: Home, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(job_progress, "FIRST_TOLD_SECONDS", 0.1)
    ran = home.run("run", "acme/Nightly", "--wait", "--timeout", "4")

    assert ran.returncode == 4, ran.stderr
    assert "job 1 waits: " in ran.stderr
    assert ran.stderr.splitlines()[-1] == (
        "job 1 has not ended after 4.0 s and continues; "
        "follow it: jobauto job logs 1 --follow; cancel it: jobauto job cancel 1"
    )
    assert state_of_job(home) == "scheduled"


def test_after_a_timeout_json_has_the_job_as_it_is(home: Home) -> None:
    ran = home.run("run", "acme/Nightly", "--wait", "--timeout", "0.1", "--json")

    assert ran.returncode == 4, ran.stderr
    assert json.loads(ran.stdout)["state"] == "scheduled"


def test_a_timeout_without_waiting_is_a_wrong_use(home: Home) -> None:
    ran = home.run("run", "acme/Nightly", "--timeout", "5")

    assert ran.returncode == 2
    assert "--wait" in ran.stderr


def test_an_interrupt_without_a_terminal_says_that_the_job_goes_on_and_how_to_end_it(
    home: Home, waiting: Waiting
) -> None:
    waiting.process.send_signal(signal.SIGINT)
    _, output = waiting.process.communicate(timeout=ENDS_WITHIN)

    assert waiting.process.returncode == 130
    assert output.decode() == "job 1 continues; cancel it: jobauto job cancel 1\n"
    assert state_of_job(home) == "scheduled"


@pytest.mark.parametrize(("answer", "state"), [("y", "cancelled"), ("n", "scheduled")])
def test_an_interrupt_at_a_terminal_asks_whether_to_cancel_the_job(
    home: Home, watched: Waiting, answer: str, state: str
) -> None:
    watched.process.send_signal(signal.SIGINT)
    watched.says("Cancel job 1?")
    os.write(watched.typing, answer.encode() + b"\n")
    watched.process.communicate(timeout=ENDS_WITHIN)

    assert watched.process.returncode == 130
    assert state_of_job(home) == state
