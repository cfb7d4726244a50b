"""Processes of a test: what they are told, and that they end."""

import contextlib
import multiprocessing
import os
import signal
import subprocess
from collections.abc import Callable, Iterator
from multiprocessing.process import BaseProcess
from pathlib import Path

ENDS_WITHIN = 10  # seconds


@contextlib.contextmanager
def running(
    argv: list[str], environment: dict[str, str], log: Path
) -> Iterator[subprocess.Popen[bytes]]:
    """A process with its output in `log`; it and its children are gone afterwards."""
    with log.open("ab") as output:
        process = subprocess.Popen(
            argv, env=environment, stdout=output, stderr=output, start_new_session=True
        )
    try:
        yield process
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGTERM)
        try:
            process.wait(ENDS_WITHIN)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()


_copies = multiprocessing.get_context("forkserver")
_copies.set_forkserver_preload(["jobauto_prefect.facade.main", "tests.support.homes"])


def forked(work: Callable[..., object], *given: object) -> BaseProcess:
    """A process that only calls this function of a module; it needs no time to load the package.

    It is a copy of a process without threads: in a copy of this one, locks of other threads would
    stay locked.
    """
    process = _copies.Process(target=work, args=given, daemon=True)
    process.start()
    return process


def clean_environment() -> dict[str, str]:
    """This process's environment without what it says about Prefect and jobauto."""
    return {
        name: value
        for name, value in os.environ.items()
        if not name.startswith(("PREFECT_", "JOBAUTO_", "DB_"))
    }


def is_alive(pid: int) -> bool:
    """Whether that process can still do something; a dead one may wait for its parent's look."""
    try:
        return "Z" not in Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except (FileNotFoundError, ProcessLookupError):
        return False


def commands() -> dict[int, str]:
    """The command lines of all processes there are."""
    lines = {}
    for folder in Path("/proc").iterdir():
        if folder.name.isdecimal():
            with contextlib.suppress(OSError):
                words = (folder / "cmdline").read_bytes().split(b"\0")
                lines[int(folder.name)] = b" ".join(words).decode(errors="replace").strip()
    return lines


def environment_of(pid: int) -> bytes:
    """What a process was told when it began; nothing if it is gone."""
    try:
        return Path(f"/proc/{pid}/environ").read_bytes()
    except OSError:
        return b""
