"""The watchdog: one small process per worker that starts its jobs and outlives it.

Because it alone starts processes, a worker that was suspended and resumes can't start a job that
has been given up. It ends all jobs and reports them as lost when the worker's socket closes or
stays silent for one lease.

Messages from the worker: hello (url, token, worker, lease, stop), beat, start (job, claim, argv,
environment, directory, folder, user, record, zero; with two descriptors), stop (job, seconds), hold
(job, claim, directory, record, undo, zero), release (job), bye. `zero` is the ledger's time when
this machine started.
Messages to it: started (job, pid), not_started (job, exit_code, message, unable), held (job), ended
(job, exit_code, lost: why, or None).
"""

import contextlib
import os
import select
import signal
import socket
import time

from jobauto_prefect.runtime.watchdog import loss_reports, process_table
from jobauto_prefect.runtime.watchdog.framing import Inbox, Message, pack
from jobauto_prefect.runtime.watchdog.jobs import (
    NO_DESCRIPTOR,
    ExternalJobGuard,
    NativeJob,
    NotStarted,
    OtherJob,
    current_time,
    lost_job,
    spawn,
)

LOOK_SECONDS = 0.02  # between checks of jobs whose leader has exited
LATER_LOOK_SECONDS = 0.5  # if something of them does not end within a second
STALL_SECONDS = 1.0  # when its wakeup is this late, this process itself was suspended


class WatchdogServer:
    """All state of the process."""

    def __init__(self, connection: socket.socket, wakeup: int) -> None:
        connection.setblocking(False)
        self._socket = connection
        self._wakeup = wakeup
        self._inbox = Inbox()
        self._outgoing = bytearray()
        self._descriptors: list[int] = []
        self._jobs: dict[int, NativeJob] = {}
        self._holds: dict[int, ExternalJobGuard] = {}
        self._lost: list[loss_reports.LostJob] = []
        self._facade: loss_reports.Facade | None = None
        self._lease = self._stop_seconds = 0.0
        self._awake = self._heard = time.monotonic()
        self._leaving = False  # the worker has said bye
        self._given_up: str | None = None  # the reason
        self._before_exec = process_table.die_with_parent()
        self._before_exec_as_other = process_table.die_with_parent(gains_nothing=True)

    def run(self) -> None:
        """Watch until the worker says bye, or is given up and its jobs have ended."""
        while self._jobs or self._holds or not (self._leaving or self._given_up):
            self._wait()
            self._receive()
            self._check_silence()
            self._reap()
            self._end_jobs()
            self._end_external_jobs()
            self._send()
        self._socket.close()
        if self._lost and self._facade:
            loss_reports.report_lost_jobs(self._facade, self._lost)

    # waiting

    def _wait(self) -> None:
        timeout = self._timeout(time.monotonic())
        poll = select.poll()
        poll.register(self._wakeup, select.POLLIN)
        if not self._closed:
            poll.register(self._socket, select.POLLIN | (select.POLLOUT if self._outgoing else 0))
        poll.poll(None if timeout is None else timeout * 1000)
        with contextlib.suppress(BlockingIOError):
            os.read(self._wakeup, 4096)
        awoke, self._awake = self._awake, time.monotonic()
        if timeout is not None and self._awake - awoke > timeout + STALL_SECONDS:
            self._heard = self._awake  # this process was suspended; the worker was not silent

    @property
    def _closed(self) -> bool:
        return self._socket.fileno() < 0

    def _timeout(self, now: float) -> float | None:
        """Return seconds until something has to be done; None if only messages matter."""
        moments = [job.kill_at for job in self._jobs.values() if job.kill_at is not None]
        moments += [hold.due for hold in self._holds.values() if hold.due is not None]
        if self._lease and not self._given_up:
            moments.append(self._heard + self._lease)
        for job in self._jobs.values():
            if job.exit_code is not None:
                pause = LOOK_SECONDS if now - job.exited < 1 else LATER_LOOK_SECONDS
                moments.append(now + pause)
        return max(0.0, min(moments) - now) if moments else None

    # the worker

    def _receive(self) -> None:
        if self._closed:
            return
        messages, ended = self._read()
        if messages:
            self._heard = time.monotonic()
        for message in messages:
            if ended and message["type"] in ("start", "hold"):
                # The worker is already gone: the job never starts.
                self._lost.append(
                    lost_job(message, "the worker died before the start", current_time(message))
                )
            else:
                self._handle(message)
        if ended:
            self._socket.close()
            if self._jobs or self._holds or not self._leaving:
                self._give_up("the worker died")

    def _read(self) -> tuple[list[Message], bool]:
        """Read what has arrived. Returns: the data, and whether the worker's end is closed."""
        messages: list[Message] = []
        while True:
            try:
                data, descriptors, flags, _ = socket.recv_fds(self._socket, 1 << 16, 8)
            except BlockingIOError:
                return messages, False
            except OSError:
                return messages, True
            if flags & socket.MSG_CTRUNC:  # this process has no room for the outputs of a start
                for descriptor in descriptors:
                    os.close(descriptor)
                descriptors = [NO_DESCRIPTOR] * 2
            self._descriptors += descriptors
            if not data:
                return messages, True
            messages += self._inbox.feed(data)

    def _handle(self, message: Message) -> None:
        kind = message["type"]
        if kind == "start":
            self._start(message)
        elif kind == "stop" and message["job"] in self._jobs:
            job = self._jobs[message["job"]]
            job.stop(message["seconds"], self._others(job))
        elif kind == "hold":
            if self._given_up:
                self._say("ended", message["job"], exit_code=None, lost=self._given_up)
            else:
                self._holds[message["job"]] = ExternalJobGuard(message)
                self._say("held", message["job"])
        elif kind == "release":
            self._holds.pop(message["job"], None)
        elif kind == "hello":
            self._facade = loss_reports.Facade(message["url"], message["token"], message["worker"])
            self._lease, self._stop_seconds = message["lease"], message["stop"]
        elif kind == "bye":
            self._leaving = True

    def _say(self, kind: str, job: int, **members: object) -> None:
        self._outgoing += pack({"type": kind, "job": job, **members})

    def _send(self) -> None:
        """Send without blocking: a worker that does not read must not keep jobs alive."""
        if self._outgoing and not self._closed:
            with contextlib.suppress(OSError):
                del self._outgoing[: self._socket.send(self._outgoing)]

    def _check_silence(self) -> None:
        silent = self._awake - self._heard  # a later suspension shows at the next wait
        if self._lease and silent >= self._lease:
            self._give_up(f"the worker was silent for {silent:.0f} s")

    def _give_up(self, why: str) -> None:
        if self._given_up:
            return
        self._given_up = why
        for job in self._jobs.values():
            job.stop(self._stop_seconds, self._others(job))
        for hold in self._holds.values():
            hold.end()

    # the jobs

    def _others(self, job: NativeJob) -> list[OtherJob]:
        return [other for other in self._jobs.values() if other is not job] + [
            *self._holds.values()
        ]

    def _start(self, message: Message) -> None:
        outputs = (self._descriptors.pop(0), self._descriptors.pop(0))
        try:
            if self._given_up:
                self._say("ended", message["job"], exit_code=None, lost=self._given_up)
                return
            as_other = message["user"] is not None
            before_exec = self._before_exec_as_other if as_other else self._before_exec
            process = spawn(message, outputs, before_exec)
        finally:
            for descriptor in outputs:
                if descriptor != NO_DESCRIPTOR:
                    os.close(descriptor)
        if isinstance(process, NotStarted):
            self._say("not_started", message["job"], **process._asdict())
        else:
            process.returncode = 0  # reaped here, with the adopted orphans; Popen must not
            self._jobs[message["job"]] = NativeJob(message, process.pid)
            self._say("started", message["job"], pid=process.pid)

    def _end_external_jobs(self) -> None:
        for hold in list(self._holds.values()):
            hold.run_if_due()
            if hold.done is None:
                continue
            del self._holds[hold.id]
            self._say("ended", hold.id, exit_code=None, lost=self._given_up)
            if hold.done and self._given_up:
                self._lost.append(lost_job(hold.message, self._given_up, hold.started_at))

    def _reap(self) -> None:
        leaders = {job.pid: job for job in self._jobs.values()}
        commands = {hold.pid: hold for hold in self._holds.values()}
        with contextlib.suppress(ChildProcessError):
            while (ended := os.waitpid(-1, os.WNOHANG)) != (0, 0):
                pid, status = ended
                code = os.waitstatus_to_exitcode(status)
                if pid in leaders:
                    leaders[pid].leader_exited(code if code >= 0 else 128 - code)
                elif pid in commands:
                    commands[pid].exited(code)

    def _end_jobs(self) -> None:
        now = time.monotonic()
        ending = [job for job in self._jobs.values() if job.is_ending(now)]
        processes = process_table.snapshot() if ending else {}
        for job in ending:
            if job.bring_to_end(now, processes, self._others(job)):
                del self._jobs[job.id]
                self._say("ended", job.id, exit_code=job.exit_code, lost=self._given_up)
                if self._given_up:
                    self._lost.append(lost_job(job.message, self._given_up, job.started_at))


def main(descriptor: int) -> None:
    """Serve the worker at the other end of this socket."""
    connection = socket.socket(fileno=descriptor)
    reading, writing = os.pipe()
    os.set_blocking(reading, False)
    os.set_blocking(writing, False)
    signal.set_wakeup_fd(writing, warn_on_full_buffer=False)
    # Only the socket ends this process; handlers are empty, as jobs would inherit SIG_IGN.
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGCHLD):
        signal.signal(number, lambda *_: None)
    for number in (signal.SIGQUIT, signal.SIGUSR1, signal.SIGUSR2, signal.SIGALRM):
        signal.signal(number, signal.SIG_DFL)
    process_table.adopt_orphans()
    process_table.hide_memory()
    os.chdir("/")
    WatchdogServer(connection, reading).run()
