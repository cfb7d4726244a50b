"""What a worker sends to its watchdog, and what it gets back about a job."""

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from uuid import UUID

from jobauto_prefect.errors import StartFailed
from jobauto_prefect.runtime.watchdog.framing import Message
from jobauto_prefect.runtime.watchdog.jobs import MARKER


@dataclass(frozen=True, slots=True)
class User:
    """The user of a job; `groups` are the supplementary ones."""

    uid: int
    gid: int
    groups: tuple[int, ...]
    home: str


@dataclass(frozen=True, slots=True)
class ProcessStart:
    """A process to start. `record` is the job's file in the work directory.

    It runs in the job's directory, or in `folder` if given.
    """

    job: int
    claim: UUID
    argv: Sequence[str] = field(repr=False)
    environment: Mapping[str, str] = field(repr=False)
    directory: str
    record: str
    user: User | None = None
    folder: str | None = None

    def message(self) -> Message:
        """Return the message to send."""
        user = self.user and {
            "uid": self.user.uid,
            "gid": self.user.gid,
            "groups": list(self.user.groups),
        }
        return {
            "type": "start",
            "job": self.job,
            "claim": str(self.claim),
            "argv": list(self.argv),
            "environment": dict(self.environment),
            "directory": self.directory,
            "record": self.record,
            "folder": self.folder or self.directory,
            "user": user,
        }


@dataclass(frozen=True, slots=True)
class ExternalJob:
    """A job that runs elsewhere and is ended by the watchdog, see `ExternalJobGuard`.

    `undo` is a command without secrets that ends it and returns 0 once nothing of it is running or
    can start; it also returns 0 if the job does not exist.
    """

    job: int
    claim: UUID
    directory: str
    record: str
    undo: Sequence[str]

    def message(self) -> Message:
        """Return the message to send."""
        return {
            "type": "hold",
            "job": self.job,
            "claim": str(self.claim),
            "directory": self.directory,
            "record": self.record,
            "undo": list(self.undo),
        }


@dataclass(frozen=True, slots=True)
class Ended:
    """The end of all processes of a job.

    `exit_code` is None if unknown. `lost` says why watchdog or worker gave up the job; None if it
    ended by itself or on request.
    """

    exit_code: int | None
    lost: str | None = None


class Group:
    """A job's processes, or an external job, which counts as started, with pid 0, once registered.

    `pid` is None if it has no process here, or not yet.
    """

    def __init__(self, start: ProcessStart | ExternalJob) -> None:
        loop = asyncio.get_running_loop()
        self.is_external = isinstance(start, ExternalJob)
        self.marker = f"{MARKER}={start.directory}"
        self.started: asyncio.Future[int] = loop.create_future()
        self.ended: asyncio.Future[Ended] = loop.create_future()

    @property
    def pid(self) -> int | None:
        """The leader's pid, which is also the group's and the session's, or None."""
        if self.started.done() and not self.started.cancelled() and not self.started.exception():
            return self.started.result() or None
        return None

    def settle(self, ended: Ended) -> None:
        """Set the end, also for a caller that still waits for the start."""
        if not self.ended.done():
            self.ended.set_result(ended)
        if not self.started.done():
            self.started.set_exception(StartFailed(ended.lost or "the job ended before its start"))
            self.started.exception()  # retrieved, because perhaps nobody waits for it
