"""The processes of this machine: their ancestry, and which belong to a job (Linux)."""

import contextlib
import ctypes
import os
import signal
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import NamedTuple

PROC = Path("/proc")
ZOMBIES = "ZX"
PR_SET_PDEATHSIG = 1
PR_SET_DUMPABLE = 4
PR_SET_CHILD_SUBREAPER = 36
PR_SET_NO_NEW_PRIVS = 38


class Process(NamedTuple):
    """One process. `started` counts in clock ticks since boot, `session` and `group` are pids."""

    pid: int
    state: str
    parent: int
    group: int
    session: int
    started: int


def read_process(pid: int) -> Process | None:
    """Read a process; return None if it does not exist."""
    try:
        text = (PROC / str(pid) / "stat").read_text(errors="replace")
    except OSError:
        return None
    # The second field is the name in brackets, which may contain spaces and brackets.
    fields = text[text.rindex(")") + 2 :].split()
    parent, group, session, started = (int(fields[index]) for index in (1, 2, 3, 19))
    return Process(pid, fields[0], parent, group, session, started)


def snapshot() -> dict[int, Process]:
    """Return all live processes by pid; empty if the system has no process table."""
    try:
        names = os.listdir(PROC)  # noqa: PTH208 - only the names are needed
    except OSError:
        return {}
    entries = (read_process(int(name)) for name in names if name.isdigit())
    return {entry.pid: entry for entry in entries if entry and entry.state not in ZOMBIES}


def descendants(of: Iterable[int], processes: dict[int, Process]) -> set[int]:
    """Return the pids of all descendants of these processes."""
    children: dict[int, list[int]] = {}
    for entry in processes.values():
        children.setdefault(entry.parent, []).append(entry.pid)
    pids: set[int] = set()
    waiting = list(of)
    while waiting:
        for child in children.get(waiting.pop(), ()):
            if child not in pids:
                pids.add(child)
                waiting.append(child)
    return pids


def has_marker(pid: int, marker: str) -> bool:
    """Whether a process was started with this `NAME=value` in its environment."""
    try:
        environment = (PROC / str(pid) / "environ").read_bytes()
    except OSError:
        return False
    return marker.encode("utf-8", "surrogateescape") in environment.split(b"\0")


def boot_id() -> str:
    """Return an id that differs after each boot of the machine; empty if unavailable."""
    try:
        return (PROC / "sys/kernel/random/boot_id").read_text().strip()
    except OSError:
        return ""


def signal_all(group: int | None, pids: Iterable[int], number: signal.Signals) -> None:
    """Send a signal to a process group and to single processes, ignoring those that are gone."""
    if group is not None:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(group, number)
    for pid in pids:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.kill(pid, number)


def _prctl() -> Callable[[int, int], int]:
    try:
        library = ctypes.CDLL(None, use_errno=True)
        call = library.prctl
    except (OSError, AttributeError):  # not Linux
        return lambda _option, _value: -1

    def prctl(option: int, value: int) -> int:
        result: int = call(option, ctypes.c_ulong(value), 0, 0, 0)
        return result

    return prctl


def adopt_orphans() -> None:
    """Make descendants whose parent dies children of this process instead of init's."""
    _prctl()(PR_SET_CHILD_SUBREAPER, 1)


def hide_memory() -> None:
    """Hide this process's memory and environment from other processes of the same user."""
    _prctl()(PR_SET_DUMPABLE, 0)


def die_with_parent(*, gains_nothing: bool = False) -> Callable[[], None]:
    """Return what a child calls before exec, so that it dies with this process.

    With `gains_nothing` it can't gain privileges: setuid files, which a container may have left,
    have no effect.
    """
    parent, prctl = os.getpid(), _prctl()

    def before_exec() -> None:
        if gains_nothing and prctl(PR_SET_NO_NEW_PRIVS, 1) != 0:
            os._exit(126)
        prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
        if os.getppid() != parent:  # it died between fork and this call
            os._exit(1)

    return before_exec
