"""The log of a job's container, read to its end across connections, each line once.

Kubernetes prefixes each line with its time (`timestamps=true`) and returns a log from a whole
second on (`sinceTime`). So repeated lines are recognised by their time, and lines of the same time
by their number.
"""

import asyncio
import logging
import re
from dataclasses import dataclass

from jobauto_prefect.runtime.executor import Sink
from jobauto_prefect.runtime.executors.kubernetes.cluster import ApiError, Cluster
from jobauto_prefect.runtime.executors.kubernetes.manifest import JOB
from jobauto_prefect.runtime.executors.kubernetes.pod_watch import PodWatch
from jobauto_prefect.runtime.executors.kubernetes.pods import Finished, Pending

TIMED = re.compile(rb"(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d)(?:\.(\d{1,9}))?Z ")


@dataclass(slots=True)
class LogReader:
    """Takes the bytes of each connection and returns the new lines."""

    _last: bytes = b""  # the time of the last line
    _count: int = 0  # lines with this time
    _behind: bool = False  # the incoming lines have been read before
    _again: int = 0  # repeated lines with the last time
    _partial: bytes = b""

    @property
    def since(self) -> str | None:
        """The time from which to resume reading the log; None means from its beginning."""
        return f"{self._last[:19].decode('ascii')}Z" if self._last else None

    def connected(self) -> None:
        """Start a new connection, which repeats the line the former one left unfinished."""
        self._behind, self._again, self._partial = bool(self._last), 0, b""

    def feed(self, data: bytes) -> bytes:
        """Return the new lines that this chunk completes, without their times."""
        *lines, self._partial = (self._partial + data).split(b"\n")
        return b"".join(self._new(line + b"\n") for line in lines)

    def finish(self) -> bytes:
        """Return an unfinished last line."""
        line, self._partial = self._partial, b""
        return self._new(line) if line else b""

    def _new(self, line: bytes) -> bytes:
        match = TIMED.match(line)
        if match is None:  # a message from the node itself
            return b"" if self._behind else line
        # With all nine digits the order of bytes is the order of time.
        time = match[1] + b"." + (match[2] or b"").ljust(9, b"0")
        if self._behind:
            self._again += time == self._last
            if time <= self._last and self._again <= self._count:
                return b""
        self._behind = False
        self._count = self._count + 1 if time == self._last else 1
        self._last = time
        return line[match.end() :]


logger = logging.getLogger(__name__)

PAUSE_SECONDS = 0.3


async def follow_log(cluster: Cluster, namespace: str, watch: PodWatch, sink: Sink) -> None:
    """Pass all lines to `sink`, and finally a notice if some may be missing."""
    await watch.wait_until(lambda: watch.gone or not isinstance(watch.state, Pending))
    reader = LogReader()
    while True:
        is_over = isinstance(watch.state, Finished)
        is_all = await _read(cluster, namespace, watch, reader, sink)
        if watch.gone or (is_over and is_all):
            break
        # A connection mostly ends because the job does: its state comes soon.
        await asyncio.sleep(PAUSE_SECONDS)
    await sink("stdout", reader.finish())
    if isinstance(watch.state, Finished) and watch.state.note:
        await sink("stderr", f"{watch.state.note}\n".encode())
    await sink("stdout", b"")
    await sink("stderr", b"")


async def _read(
    cluster: Cluster, namespace: str, watch: PodWatch, reader: LogReader, sink: Sink
) -> bool:
    """Read over one connection. Returns: True if the log is complete, or does not exist."""
    if watch.pod is None:
        return True
    name = watch.pod["metadata"]["name"]
    reader.connected()
    pieces = cluster.log(
        namespace, name, JOB, since=reader.since, follow=not isinstance(watch.state, Finished)
    )
    try:
        async for piece in pieces:
            if data := reader.feed(piece):
                await sink("stdout", data)
    except ApiError as error:
        logger.debug("reading the log of pod %s again: %s", name, error)
        return not error.is_transient
    return True
