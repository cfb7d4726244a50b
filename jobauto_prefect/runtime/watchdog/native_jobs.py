"""The jobs a watchdog watches: which processes are theirs, and how they are brought to an end."""

import os
import signal
import time
from collections.abc import Iterable
from datetime import datetime, timedelta
from typing import Protocol

from jobauto_prefect.clock import seconds_since_boot
from jobauto_prefect.runtime.watchdog import process_table
from jobauto_prefect.runtime.watchdog.framing import Message
from jobauto_prefect.runtime.watchdog.loss_reports import LostJob

MARKER = "JOBAUTO_JOB_DIR"
"""The variable whose value, the job's own directory, tells its processes from others."""


def current_time(message: Message) -> str:
    """Return this instant as ISO 8601 text, by the clock that the worker's message tells."""
    zero = datetime.fromisoformat(message["zero"])
    return (zero + timedelta(seconds=seconds_since_boot())).isoformat()


def lost_job(message: Message, why: str, started_at: str) -> LostJob:
    """Build the report of a job that was ended; `message` is the one that started it."""
    return LostJob(
        job_id=message["job"],
        claim_id=message["claim"],
        directory=message["directory"],
        record=message["record"],
        started_at=started_at,
        ended_at=current_time(message),
        message=why,
    )


class OtherJob(Protocol):
    """Another job, as far as needed to decide whose a process is."""

    @property
    def pid(self) -> int:
        """Of its group and session."""

    @property
    def started(self) -> int:
        """Clock ticks since boot."""

    @property
    def marker(self) -> str:
        """`NAME=value` of a variable that only its processes carry."""


class NativeJob:
    """One process group and what escaped from it. `exit_code` is None while its leader lives."""

    def __init__(self, message: Message, pid: int) -> None:
        self.message = message
        self.id: int = message["job"]
        self.pid = pid
        self.marker = f"{MARKER}={message['directory']}"
        self.started_at = current_time(message)
        leader = process_table.read_process(pid)
        self.started = leader.started if leader else 0
        self.exit_code: int | None = None
        self.exited = 0.0  # monotonic seconds
        self.kill_at: float | None = None  # monotonic seconds
        self._stopping = self._killing = False

    def stop(self, seconds: float, others: Iterable[OtherJob]) -> None:
        """Send TERM now, KILL after so many seconds; a second call can only shorten them."""
        kill_at = time.monotonic() + seconds
        self.kill_at = kill_at if self.kill_at is None else min(self.kill_at, kill_at)
        if not self._stopping:
            self._stopping = True
            self._signal(self.members(process_table.snapshot(), others), signal.SIGTERM)
            self._signal((), signal.SIGCONT)

    def leader_exited(self, exit_code: int) -> None:
        """Note the end of the first process; what it left is killed unless it is being stopped."""
        self.exit_code = exit_code
        self.exited = time.monotonic()
        self._killing = self._killing or not self._stopping

    def is_ending(self, now: float) -> bool:
        """Whether the job needs attention: its leader ended or its time to stop is over."""
        return self.exit_code is not None or (self.kill_at is not None and now >= self.kill_at)

    def bring_to_end(
        self, now: float, processes: dict[int, process_table.Process], others: Iterable[OtherJob]
    ) -> bool:
        """Kill what is overdue or left over; return whether nothing of it lives."""
        if self.kill_at is not None and now >= self.kill_at:
            self.kill_at, self._killing = None, True
        members = self.members(processes, others)
        if self._killing:
            self._signal(members, signal.SIGKILL)
        return self.exit_code is not None and not members

    def _signal(self, members: Iterable[int], number: signal.Signals) -> None:
        # The group's number is safe only as long as its leader is not reaped.
        process_table.signal_all(self.pid if self.exit_code is None else None, members, number)

    def members(
        self, processes: dict[int, process_table.Process], others: Iterable[OtherJob]
    ) -> set[int]:
        """Return the living processes of this job but its leader, all descendants of this process.

        A process belongs to the job by its session or group, by descent, by the job's directory
        in its environment, or, where it hides all that, when no other job can have started it.
        """
        others = list(others)
        ours = process_table.descendants([os.getpid()], processes)
        roots = {pid for pid in ours if self._owns(processes[pid], others)}
        members = roots | (process_table.descendants({self.pid} | roots, processes) & ours)
        return members - {self.pid} - {other.pid for other in others}

    def _owns(self, process: process_table.Process, others: list[OtherJob]) -> bool:
        if self.pid in (process.session, process.group):
            return True
        if process.parent != os.getpid():  # it is found by descent
            return False
        if any(other.pid in (process.session, process.group) for other in others):
            return False
        if process_table.has_marker(process.pid, self.marker):
            return True
        return not any(
            other.started <= process.started or process_table.has_marker(process.pid, other.marker)
            for other in others
        )
