"""Finds and terminates processes that outlived the watchdog that started them."""

import asyncio
import contextlib
import os
import signal
import time
from collections.abc import Iterable
from dataclasses import dataclass

from jobauto_prefect.runtime.watchdog import process_table

LOOK_SECONDS = 0.05


@dataclass(frozen=True, slots=True)
class ProcessFingerprint:
    """How to find a job's processes again.

    `pid` is its leader's, None if unknown; `started` is the leader's start in clock ticks since
    boot, None if the pid can't have been reused; `marker` is `NAME=value` of a variable that only
    its processes have.
    """

    pid: int | None
    started: int | None
    marker: str


def find_survivors(
    traces: ProcessFingerprint, processes: dict[int, process_table.Process]
) -> set[int]:
    """Return the pids of a job's live processes."""
    leader = processes.get(traces.pid) if traces.pid else None
    # A pid stays taken while its group has a process; otherwise it may be a stranger's by now.
    ours = leader is None or traces.started in (None, leader.started)
    return {
        process.pid
        for process in processes.values()
        if (ours and traces.pid and traces.pid in (process.group, process.session))
        or process_table.has_marker(process.pid, traces.marker)
    }


async def terminate_all(jobs: Iterable[ProcessFingerprint], stop_seconds: float) -> None:
    """Terminate all processes of these jobs: TERM, and KILL after `stop_seconds`."""
    jobs = list(jobs)
    kill_at = time.monotonic() + stop_seconds
    number = signal.SIGTERM
    signalled: set[tuple[int, signal.Signals]] = set()
    while left := await asyncio.to_thread(_left, jobs):
        if time.monotonic() >= kill_at:
            number = signal.SIGKILL
        process_table.signal_all(
            None, [pid for pid in left if (pid, number) not in signalled], number
        )
        signalled |= {(pid, number) for pid in left}
        await asyncio.sleep(LOOK_SECONDS)
    _reap({pid for pid, _ in signalled})


def _reap(pids: Iterable[int]) -> None:
    """Reap a dead watchdog's orphans, which this process may have inherited."""
    for pid in pids:
        with contextlib.suppress(ChildProcessError):
            os.waitpid(pid, os.WNOHANG)


def _left(jobs: list[ProcessFingerprint]) -> set[int]:
    processes = process_table.snapshot()
    return {pid for traces in jobs for pid in find_survivors(traces, processes)}
