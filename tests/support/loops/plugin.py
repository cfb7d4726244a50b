"""A plugin of pytest: nothing slower than 50 ms runs in an event loop of the service.

All findings are shown. A function that takes more than `FAILING_MS` twice fails the session: a
machine that pauses counts as processor time of whatever runs, but hardly hits one function twice.
Tests of what may be large use `slow_callbacks`. Facades within this process are watched, and so is
each part of the service that a test starts. They use asyncio's own loop, as far as uvicorn chooses;
what is installed as people have it uses uvloop, which can't be watched.
"""

import os
import re
import shutil
import sys
import tempfile
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.support.loops.watcher import LoopWatch

FOLDER, PREFIX = "WATCHED_LOOPS", "WATCHED_PREFIX"
FAILING_MS = 150
IN_PACKAGE = re.compile(r"/jobauto_prefect/([^ ]+):\d+")
"""A place of the package in a finding, without its line."""
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


def slow_twice(lines: list[str]) -> set[str]:
    """Name the functions of the package in which more than one callback was far too slow."""
    slow = Counter(
        place[1]
        for line in lines
        if int(line.partition(" ")[0]) > FAILING_MS and (place := IN_PACKAGE.search(line))
    )
    return {function for function, times in slow.items() if times > 1}


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
    if slow_twice(session.config.stash[FINDINGS]):
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
