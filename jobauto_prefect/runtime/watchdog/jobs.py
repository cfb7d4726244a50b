"""The jobs of a watchdog: starting them, assigning processes to them, ending them.

Some run elsewhere, for example in containers: the worker registers these before their start, so
that they can always be ended.
"""

import errno
import os
import signal
import subprocess
import time
from collections.abc import Callable, Iterable
from datetime import datetime, timedelta
from typing import NamedTuple, Protocol

from jobauto_prefect.clock import seconds_since_boot
from jobauto_prefect.runtime.exit_codes import NOT_EXECUTABLE, NOT_FOUND
from jobauto_prefect.runtime.watchdog import process_table
from jobauto_prefect.runtime.watchdog.framing import Message
from jobauto_prefect.runtime.watchdog.loss_reports import LostJob

MARKER = "JOBAUTO_JOB_DIR"
"""The variable whose value, the job's own directory, identifies its processes."""


def current_time(message: Message) -> str:
    """Return the present time as ISO 8601 text, by the clock in the worker's message."""
    zero = datetime.fromisoformat(message["zero"])
    return (zero + timedelta(seconds=seconds_since_boot())).isoformat()


def lost_job(message: Message, why: str, started_at: str) -> LostJob:
    """Build the report of an ended job; `message` is the one that started it."""
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
    """Another job, with what is needed to assign a process."""

    @property
    def pid(self) -> int:
        """The pid of its leader, group and session."""

    @property
    def started(self) -> int:
        """The leader's start in clock ticks since boot."""

    @property
    def marker(self) -> str:
        """`NAME=value` of a variable that only its processes have."""


class NativeJob:
    """One process group and what escaped from it. `exit_code` is None while its leader is alive."""

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
        """Send TERM now and KILL after `seconds`; a second call can only shorten them."""
        kill_at = time.monotonic() + seconds
        self.kill_at = kill_at if self.kill_at is None else min(self.kill_at, kill_at)
        if not self._stopping:
            self._stopping = True
            self._signal(self.members(process_table.snapshot(), others), signal.SIGTERM)
            self._signal((), signal.SIGCONT)

    def leader_exited(self, exit_code: int) -> None:
        """Note the leader's end; processes it left are killed unless the job is being stopped."""
        self.exit_code = exit_code
        self.exited = time.monotonic()
        self._killing = self._killing or not self._stopping

    def is_ending(self, now: float) -> bool:
        """Whether the job needs attention: its leader ended, or its time to stop has expired."""
        return self.exit_code is not None or (self.kill_at is not None and now >= self.kill_at)

    def bring_to_end(
        self, now: float, processes: dict[int, process_table.Process], others: Iterable[OtherJob]
    ) -> bool:
        """Kill what is overdue or left over; return whether all of it has ended."""
        if self.kill_at is not None and now >= self.kill_at:
            self.kill_at, self._killing = None, True
        members = self.members(processes, others)
        if self._killing:
            self._signal(members, signal.SIGKILL)
        return self.exit_code is not None and not members

    def _signal(self, members: Iterable[int], number: signal.Signals) -> None:
        # The group's number is only safe while its leader is not reaped.
        process_table.signal_all(self.pid if self.exit_code is None else None, members, number)

    def members(
        self, processes: dict[int, process_table.Process], others: Iterable[OtherJob]
    ) -> set[int]:
        """Return the live processes of this job except its leader, all descendants of this process.

        A process belongs to the job by its session or group, by descent, by the job's directory in
        its environment, or, if it hides all that, because no other job can have started it.
        """
        others = list(others)
        ours = process_table.descendants([os.getpid()], processes)
        roots = {pid for pid in ours if self._owns(processes[pid], others)}
        members = roots | (process_table.descendants({self.pid} | roots, processes) & ours)
        return members - {self.pid} - {other.pid for other in others}

    def _owns(self, process: process_table.Process, others: list[OtherJob]) -> bool:
        if self.pid in (process.session, process.group):
            return True
        if process.parent != os.getpid():  # it is found by its ancestors
            return False
        if any(other.pid in (process.session, process.group) for other in others):
            return False
        if process_table.has_marker(process.pid, self.marker):
            return True
        return not any(
            other.started <= process.started or process_table.has_marker(process.pid, other.marker)
            for other in others
        )


FIRST_PAUSE_SECONDS = 0.5
LONGEST_PAUSE_SECONDS = 15.0
PATIENCE_SECONDS = 600.0
NOBODY = -1


class ExternalJobGuard:
    """One external job. Its command, `undo`, returns 0 once nothing of it is running or can start.

    `done` is None until then; False: it could not be ended within some minutes, and is left to the
    worker's successor.
    """

    started = 2**63  # as if it started last: no process of another job is taken for its own

    def __init__(self, message: Message) -> None:
        self.message = message
        self.id: int = message["job"]
        self.marker = f"{MARKER}={message['directory']}"
        self.started_at = current_time(message)
        self.pid = NOBODY  # of the command
        self.done: bool | None = None
        self.due: float | None = None  # monotonic seconds
        self._pause = FIRST_PAUSE_SECONDS
        self._until = 0.0

    def end(self) -> None:
        """Run the command repeatedly until it succeeds."""
        self.due = time.monotonic()
        self._until = self.due + PATIENCE_SECONDS

    def run_if_due(self) -> None:
        """Start the command if it is due."""
        if self.due is None or time.monotonic() < self.due:
            return
        self.due = None
        try:
            process = subprocess.Popen(
                self.message["undo"],
                cwd="/",
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                start_new_session=True,
            )
        except OSError:
            self._try_later()
            return
        process.returncode = 0  # the watchdog reaps it; Popen must not
        self.pid = process.pid

    def exited(self, exit_code: int) -> None:
        """Handle the command's end: done, or try again later."""
        self.pid = NOBODY
        if exit_code == 0:
            self.done = True
        else:
            self._try_later()

    def _try_later(self) -> None:
        moment = time.monotonic()
        if moment >= self._until:
            self.done = False
            return
        self.due = moment + self._pause
        self._pause = min(2 * self._pause, LONGEST_PAUSE_SECONDS)


UNABLE = (errno.EAGAIN, errno.ENOMEM, errno.EMFILE, errno.ENFILE)

REASONS = {
    errno.EACCES: "may not be executed",
    errno.ENOEXEC: "is not a program this system can run (a script needs a first line with #!)",
    errno.E2BIG: "can't be started: arguments and environment together are too long",
    errno.EAGAIN: "can't be started: too many processes",
    errno.ENOMEM: "can't be started: not enough memory",
}


NO_DESCRIPTOR = -1
"""Stands for one that could not be received."""


class NotStarted(NamedTuple):
    """Why a process could not start. `unable`: no job could have started just now."""

    exit_code: int
    message: str
    unable: bool = False


def spawn(
    message: Message, outputs: tuple[int, int], before_exec: Callable[[], None]
) -> subprocess.Popen[bytes] | NotStarted:
    """Start `argv` in a new session, with exactly this `environment`.

    Keys of `message`: argv, environment, folder, user (None, or uid, gid, groups).
    `outputs` are the descriptors of stdout and stderr.
    """
    user = message["user"] or {}
    argv = [_bytes(word) for word in message["argv"]]
    if NO_DESCRIPTOR in outputs:
        error = OSError(errno.EMFILE, os.strerror(errno.EMFILE))
        return _reason(error, argv[0], message)
    try:
        return subprocess.Popen(
            argv,
            env={_bytes(name): _bytes(text) for name, text in message["environment"].items()},
            cwd=_bytes(message["folder"]),
            stdin=subprocess.DEVNULL,
            stdout=outputs[0],
            stderr=outputs[1],
            start_new_session=True,
            user=user.get("uid"),
            group=user.get("gid"),
            extra_groups=user.get("groups"),
            preexec_fn=before_exec,  # noqa: PLW1509 - this process has one thread
        )
    except (OSError, ValueError, subprocess.SubprocessError) as error:
        return _reason(error, argv[0], message)


def _bytes(text: str) -> bytes:
    """Return UTF-8, whatever the locale."""
    return text.encode("utf-8", "surrogateescape")


def _reason(error: Exception, executable: bytes, message: Message) -> NotStarted:
    name = message["argv"][0]
    number = error.errno if isinstance(error, OSError) else None
    if isinstance(error, OSError) and error.filename == _bytes(message["folder"]):
        return NotStarted(NOT_EXECUTABLE, f"the job's directory can't be entered: {error.strerror}")
    if number in (errno.ENOENT, errno.ENOTDIR):
        return NotStarted(NOT_FOUND, _not_found(name, executable, message))
    said = error.strerror or "" if isinstance(error, OSError) else type(error).__name__
    reason = REASONS.get(number or 0) or f"can't be started: {said}"
    return NotStarted(NOT_EXECUTABLE, f"{name} {reason}", number in UNABLE)


def _not_found(name: str, executable: bytes, message: Message) -> str:
    if b"/" in executable:
        # The program's path is relative to where the process would run.
        place = os.path.join(_bytes(message["folder"]), executable)  # noqa: PTH118 - bytes
        if os.path.exists(place):  # noqa: PTH110
            return f"{name} can't be started: the program named in its first line does not exist"
        return f"{name} does not exist"
    path = message["environment"].get("PATH", "")
    return (
        f"{name} is not found on PATH ({path}); install it where the worker runs, or give its full"
        " path"
    )
