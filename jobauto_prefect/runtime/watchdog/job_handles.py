"""What a worker hands to its watchdog, and what it gets back about a job."""

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from uuid import UUID

from jobauto_prefect.errors import StartFailed
from jobauto_prefect.runtime.watchdog.framing import Message
from jobauto_prefect.runtime.watchdog.jobs import MARKER


@dataclass(frozen=True, slots=True)
class User:
    """Whom a job runs as; `groups` are the supplementary ones."""

    uid: int
    gid: int
    groups: tuple[int, ...]
    home: str


@dataclass(frozen=True, slots=True)
class ProcessStart:
    """What a watchdog starts. `record` is the job's file in the work directory.

    It runs in the job's directory, or in a `folder` where there is one.
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
        """Return the message as it goes over the wire."""
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

    `undo` is a command without secrets that ends it and returns 0 once nothing of it runs nor can
    be started; asked for what is not there it returns 0 as well.
    """

    job: int
    claim: UUID
    directory: str
    record: str
    undo: Sequence[str]

    def message(self) -> Message:
        """Return the message as it goes over the wire."""
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
    """The end of a job's processes, all of them.

    `exit_code` is None where nobody saw it. `lost` says why watchdog or worker gave the job up;
    None where it ended by itself or was asked to.
    """

    exit_code: int | None
    lost: str | None = None


class Group:
    """A job's processes, or what is held for it; then it is started when it is held, as number 0.

    A pid of None: it has no process here, or not yet.
    """

    def __init__(self, start: ProcessStart | ExternalJob) -> None:
        loop = asyncio.get_running_loop()
        self.marker = f"{MARKER}={start.directory}"
        self.started: asyncio.Future[int] = loop.create_future()
        self.ended: asyncio.Future[Ended] = loop.create_future()

    @property
    def pid(self) -> int | None:
        """The leader's, which is the group's and the session's; None: it has none yet."""
        if self.started.done() and not self.started.cancelled() and not self.started.exception():
            return self.started.result() or None
        return None

    def settle(self, ended: Ended) -> None:
        """Set the end, also for a caller that still waits for the start."""
        if not self.ended.done():
            self.ended.set_result(ended)
        if not self.started.done():
            self.started.set_exception(StartFailed(ended.lost or "the job ended before its start"))
            self.started.exception()  # seen: perhaps nobody waits for it
