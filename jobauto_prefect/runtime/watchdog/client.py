"""The worker's side of its watchdog."""

import asyncio
import contextlib
import os
import socket
import subprocess
import sys
from collections.abc import Awaitable, Callable, Sequence
from datetime import timedelta
from pathlib import Path
from typing import Self

from jobauto_prefect.clock import Clock, seconds_since_boot, utc_now
from jobauto_prefect.errors import StartFailed, WorkerUnable
from jobauto_prefect.runtime.orphan_processes import ProcessFingerprint, terminate_all
from jobauto_prefect.runtime.watchdog.framing import Inbox, Message, pack
from jobauto_prefect.runtime.watchdog.job_handles import Ended, ExternalJob, Group, ProcessStart

BEATS_PER_LEASE = 6
BYE_SECONDS = 5.0

PASSED_VARIABLES = ("PATH", "HOME", "LANG", "TZ", "SSL_CERT_FILE", "SSL_CERT_DIR",
             "http_proxy", "https_proxy", "no_proxy", "HTTPS_PROXY", "NO_PROXY",
             "DOCKER_TLS_VERIFY", "DOCKER_CERT_PATH", "KUBECONFIG", "KUBERNETES_SERVICE_HOST",
             "KUBERNETES_SERVICE_PORT")  # fmt: skip
"""Variables of the worker's environment that a watchdog and its commands need to reach servers."""


class Watchdog:
    """A running watchdog process. When it dies, the worker ends its jobs itself."""

    def __init__(
        self, process: subprocess.Popen[bytes], connection: socket.socket, clock: Clock
    ) -> None:
        self._process = process
        self._clock = clock
        self._socket = connection
        self._sending = asyncio.Lock()
        self._groups: dict[int, Group] = {}
        self._tasks: list[asyncio.Task[None]] = []
        self.alive = True

    @property
    def pid(self) -> int:
        """The pid of the watchdog itself."""
        return self._process.pid

    @classmethod
    async def start(
        cls,
        *,
        url: str,
        token: str,
        worker: str,
        lease_seconds: float,
        stop_seconds: float,
        clock: Clock = utc_now,
    ) -> Self:
        """Start the process and send it what it needs; the token only goes over the socket.

        `stop_seconds` pass between TERM and KILL if the watchdog ends jobs on its own; its reports
        use `clock`.
        """
        ours, theirs = socket.socketpair()
        ours.setblocking(False)
        with theirs:
            process = _open(theirs.fileno())
        watchdog = cls(process, ours, clock)
        await watchdog._send(
            {
                "type": "hello",
                "url": url,
                "token": token,
                "worker": worker,
                "lease": lease_seconds,
                "stop": stop_seconds,
            }
        )
        watchdog._tasks = [
            asyncio.create_task(watchdog._listen()),
            asyncio.create_task(watchdog._beat(lease_seconds / BEATS_PER_LEASE)),
        ]
        return watchdog

    async def spawn(self, start: ProcessStart, stdout: int, stderr: int) -> Group:
        """Start a process whose output goes to these two descriptors, which the caller closes.

        Raises:
            StartFailed: the system can't start it, or (without an exit code) the watchdog gave up
                this worker, or died.
        """
        if not self.alive:
            raise StartFailed("the watchdog of this worker is gone")
        group = self._groups[start.job] = Group(start)
        try:
            await self._send(self._timed(start), [stdout, stderr])
            await asyncio.shield(group.started)
        except StartFailed:
            self._groups.pop(start.job, None)
            raise
        except asyncio.CancelledError:
            # It may already be running, and nobody would ever end it.
            with contextlib.suppress(OSError):
                await asyncio.shield(self.stop(start.job, 0))
            raise
        return group

    async def hold(self, held: ExternalJob) -> Group:
        """Register an external job before its start: the watchdog ends it if this worker can't.

        The group's `ended` is set if the watchdog ended it, or died.

        Raises:
            StartFailed: (without an exit code) the watchdog gave up this worker, or died.
        """
        if not self.alive:
            raise StartFailed("the watchdog of this worker is gone")
        group = self._groups[held.job] = Group(held)
        try:
            await self._send(self._timed(held))
            await asyncio.shield(group.started)
        except BaseException:
            await asyncio.shield(self.release(held.job))
            raise
        return group

    async def release(self, job: int) -> None:
        """Release an external job that has ended."""
        if self._groups.pop(job, None) is not None:
            await self._send({"type": "release", "job": job})

    async def stop(self, job: int, seconds: float) -> None:
        """End a job's processes: TERM, and KILL after `seconds`."""
        await self._send({"type": "stop", "job": job, "seconds": seconds})

    async def close(self) -> None:
        """Close the watchdog; it ends and reports jobs that are still running."""
        await self._send({"type": "bye"})
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        self.alive = False
        self._socket.close()
        if not self._groups:
            await asyncio.to_thread(self._say_bye)
        for group in self._groups.values():
            group.settle(Ended(None, "the worker has stopped"))

    def _say_bye(self) -> None:
        """Wait for a watchdog without jobs to exit at once after bye; otherwise kill it."""
        try:
            self._process.wait(BYE_SECONDS)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()

    def _timed(self, start: ProcessStart | ExternalJob) -> Message:
        zero = self._clock() - timedelta(seconds=seconds_since_boot())
        return start.message() | {"zero": zero.isoformat()}

    async def _send(self, message: Message, descriptors: Sequence[int] = ()) -> None:
        data = pack(message)
        async with self._sending:
            # A dead watchdog is noticed by `_listen`.
            with contextlib.suppress(BrokenPipeError, ConnectionResetError):
                if self.alive:
                    sent = await self._send_first(data, descriptors)
                    await asyncio.get_running_loop().sock_sendall(self._socket, data[sent:])

    async def _send_first(self, data: bytes, descriptors: Sequence[int]) -> int:
        """Send the first chunk, which carries the descriptors."""
        while True:
            try:
                return socket.send_fds(self._socket, [data[: 1 << 16]], list(descriptors))
            except BlockingIOError:
                await asyncio.sleep(0.01)

    async def _beat(self, pause: float) -> None:
        while self.alive:
            await asyncio.sleep(pause)
            await self._send({"type": "beat"})

    async def _listen(self) -> None:
        loop = asyncio.get_running_loop()
        inbox = Inbox()
        with contextlib.suppress(ConnectionResetError):
            while data := await loop.sock_recv(self._socket, 1 << 16):
                for message in inbox.feed(data):
                    self._handle(message)
        self.alive = False
        async with self._sending:
            self._socket.close()
        await asyncio.to_thread(self._process.wait)
        groups, self._groups = list(self._groups.values()), {}
        lost = Ended(None, "the watchdog of this worker died")
        for group in groups:
            if group.is_external:  # first, because its killed processes look like its own end
                group.settle(lost)
        # The leaders of its groups died with the watchdog; the rest is killed here.
        traces = [ProcessFingerprint(group.pid, None, group.marker) for group in groups]
        await terminate_all(traces, stop_seconds=0)
        for group in groups:
            group.settle(lost)

    def _handle(self, message: Message) -> None:
        group = self._groups.get(message["job"])
        if group is None:
            return
        if message["type"] == "started":
            group.started.set_result(message["pid"])
        elif message["type"] == "not_started":
            failure = StartFailed(message["message"], exit_code=message["exit_code"])
            if message["unable"]:
                failure = WorkerUnable(message["message"], "processes")
            group.started.set_exception(failure)
        elif message["type"] == "held":
            group.started.set_result(0)
        else:
            del self._groups[message["job"]]
            group.settle(Ended(message["exit_code"], message["lost"]))


def _open(descriptor: int) -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        [sys.executable, "-I", "-S", str(Path(__file__).with_name("__main__.py")), str(descriptor)],
        pass_fds=(descriptor,),
        env={name: os.environ[name] for name in PASSED_VARIABLES if name in os.environ},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,  # it outlives the worker, whose stderr may be a pipe
        start_new_session=True,
    )


class WatchdogSupervisor:
    """Shared by the executors of a worker."""

    def __init__(self, start: Callable[[], Awaitable[Watchdog]]) -> None:
        self._start = start
        self._watchdog: Watchdog | None = None
        self._starting = asyncio.Lock()

    async def get(self) -> Watchdog:
        """Return the running watchdog, starting one if needed."""
        async with self._starting:
            if self._watchdog is None or not self._watchdog.alive:
                self._watchdog = await self._start()
            return self._watchdog

    async def close(self) -> None:
        """Close the watchdog, which ends what is still running."""
        if self._watchdog is not None and self._watchdog.alive:
            await self._watchdog.close()
