"""A plugin of pytest: nothing slower than 50 ms runs in an event loop of the service.

All findings are shown, and one of more than `FAILING_MS` fails the session: on a busy machine a
callback takes more of a processor's time. Facades within this process are watched, and so is each
part of the service that a test starts. They use asyncio's own loop, as far as uvicorn chooses;
what is installed as people have it uses uvloop, which can't be watched.
"""

import os
import shutil
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.support.loops.watcher import LoopWatch

FOLDER, PREFIX = "WATCHED_LOOPS", "WATCHED_PREFIX"
FAILING_MS = 150
FINDINGS = pytest.StashKey[list[str]]()


@pytest.hookimpl(tryfirst=True)
def pytest_configure() -> None:
    """Watch this process, those of pytest-xdist, and what they start."""
    if FOLDER not in os.environ:
        os.environ[FOLDER] = tempfile.mkdtemp(prefix="watched-loops-")
        paths = [str(Path(__file__).parent), *filter(None, [os.environ.get("PYTHONPATH")])]
        os.environ["PYTHONPATH"] = os.pathsep.join(paths)
        os.environ[PREFIX] = sys.prefix
    sys.modules["uvloop"] = None  # type: ignore[assignment]
    LoopWatch(Path(os.environ[FOLDER])).start()


def findings() -> list[str]:
    """List all that was slow up to now, in this process and in others."""
    files = sorted(Path(os.environ[FOLDER]).iterdir())
    return [line for file in files for line in file.read_text().splitlines()]


@pytest.fixture
def slow_callbacks() -> Callable[[], list[str]]:
    """Lists what was slow since the test began."""
    before = set(findings())
    return lambda: [finding for finding in findings() if finding not in before]


@pytest.hookimpl(trylast=True)
def pytest_sessionfinish(session: pytest.Session) -> None:
    """Collect the findings; with pytest-xdist, once all its workers are through."""
    if hasattr(session.config, "workerinput"):
        return
    session.config.stash[FINDINGS] = findings()
    shutil.rmtree(os.environ[FOLDER], ignore_errors=True)
    if any(int(line.partition(" ")[0]) > FAILING_MS for line in session.config.stash[FINDINGS]):
        session.exitstatus = pytest.ExitCode.TESTS_FAILED


def pytest_terminal_summary(
    terminalreporter: pytest.TerminalReporter, config: pytest.Config
) -> None:
    """Say what was slow, in the test during which it was, or its process began."""
    lines = config.stash.get(FINDINGS, [])
    if lines:
        terminalreporter.section("event loops of the service stood still", red=True, bold=True)
        for line in lines:
            terminalreporter.line(line)
