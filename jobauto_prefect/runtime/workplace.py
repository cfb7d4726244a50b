"""The directory of one worker: its jobs' directories, and a record of each job.

The records let a worker that starts again end what is left of its predecessor's jobs, and tell
the outcomes its predecessor could not tell.
"""

import contextlib
import fcntl
import hashlib
import os
import re
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Self
from uuid import UUID

from pydantic import AwareDatetime, BaseModel, ValidationError

from jobauto_prefect.errors import Conflict, NotReady, StartFailed, WorkerUnable
from jobauto_prefect.home import PASSABLE, PRIVATE, make_folder
from jobauto_prefect.runtime.protocol import OutputLines, Report

RECORDS = "records"
LOCK = "lock"
UNPLAIN = re.compile(r"[^\w./+@-]+")
"""What unquoted paths in scripts would be taken apart by, or taken for something else."""


class JobRecord(BaseModel):
    """What is known of one job on disk; no secret is in it.

    `pid` and `started` (clock ticks since boot) are its leader's, None before the start.
    `report` is there once the job has ended, `unsent` are the lines of its output that the ledger
    may not have then. `executor` is the one that ran it, `namespace` where
    it ran in a cluster.
    """

    job_id: int
    claim_id: UUID
    directory: str
    boot_id: str
    executor: str = "Native"
    namespace: str | None = None
    pid: int | None = None
    started: int | None = None
    started_at: AwareDatetime | None = None
    report: Report | None = None
    unsent: list[OutputLines] = []


class Workplace:
    """A worker's directory, which no other process uses while this one lives."""

    def __init__(self, path: Path, lock: int) -> None:
        self.path = path
        self._lock = lock

    @classmethod
    def open(cls, base: Path, worker: str, *, shared: bool = False) -> Self:
        """The directory of the worker of this name below `base`, made where it is missing.

        `shared` lets other users pass through it to their own jobs' directories.

        Raises:
            Conflict: a living worker of this name has it.
            NotReady: the path of `base` has characters with a meaning to shells, or it can't be
                made.
        """
        path = (base / _folder_name(worker)).absolute()
        if UNPLAIN.search(str(path)):
            raise NotReady(
                f"directories of jobs can't be in {base}: scripts that don't quote it would fail;"
                " set JOBAUTO_WORKER_DIRECTORY to a path without spaces and shell characters"
            )
        try:
            make_folder(path.parent, PASSABLE if shared else PRIVATE)
            while (lock := _locked(path)) is None:
                pass  # its last user removed it in the meantime
            if lock < 0:
                message = f"a worker named {worker} works in {path} already; choose another --name"
                raise Conflict(message)
            path.chmod(PASSABLE if shared else PRIVATE)
            (path / RECORDS).mkdir(exist_ok=True, mode=PRIVATE)
        except OSError as error:
            raise NotReady(
                f"{path} can't be made for jobs ({error.strerror}); make room, or set"
                " JOBAUTO_WORKER_DIRECTORY to another place"
            ) from None
        return cls(path, lock)

    def close(self) -> None:
        """Let another process have it; nothing stays of it where no job left anything."""
        with contextlib.suppress(OSError):
            (self.path / RECORDS).rmdir()
            if [entry.name for entry in self.path.iterdir()] == [LOCK]:
                (self.path / LOCK).unlink()
                self.path.rmdir()
        os.close(self._lock)

    def make(self, record: JobRecord, *, owner: tuple[int, int] | None, folder: str) -> None:
        """An empty directory for a job, with one folder in it, and its record.

        `owner` are uid and gid; None means this process's own.

        Raises:
            StartFailed: the directory is not one of this workplace.
            WorkerUnable: it can't be made.
        """
        directory = Path(record.directory)
        if directory.parent != self.path or directory.name == RECORDS:
            raise StartFailed(f"{directory} is no directory for a job in {self.path}", 126)
        try:
            self.write(record)
            shutil.rmtree(directory, ignore_errors=True)
            for path in (directory, directory / folder):
                path.mkdir(mode=0o700)
                if owner is not None:
                    os.chown(path, *owner)
        except OSError as error:
            message = f"no directory for a job can be made in {self.path}: {error.strerror}"
            raise WorkerUnable(message, "disk") from None

    def record_path(self, job_id: int) -> Path:
        """Where a job's record is."""
        return self.path / RECORDS / f"{job_id}.json"

    def write(self, record: JobRecord) -> None:
        """Replace a job's record at once."""
        path = self.record_path(record.job_id)
        fresh = path.with_suffix(".new")
        fresh.write_text(record.model_dump_json())
        fresh.replace(path)

    def records(self) -> Iterator[JobRecord]:
        """The records of jobs that were not settled; one that can't be read is as good as none."""
        for path in sorted((self.path / RECORDS).glob("*.json")):
            with contextlib.suppress(OSError, ValidationError):
                yield JobRecord.model_validate_json(path.read_text())

    def remove(self, job_id: int, directory: str) -> None:
        """Forget a job, with everything it left; what can't be removed now stays."""
        if Path(directory).parent == self.path:
            shutil.rmtree(directory, ignore_errors=True)
        with contextlib.suppress(OSError):
            self.record_path(job_id).unlink()


def _folder_name(worker: str) -> str:
    """The worker's name; where it is not plain it ends in a digest, so that no two are the same."""
    plain = UNPLAIN.sub("-", worker.replace("/", " "))
    if plain == worker and not worker.startswith("."):
        return worker
    return f"{plain.lstrip('.')}-{hashlib.sha256(worker.encode()).hexdigest()[:8]}"


def _locked(path: Path) -> int | None:
    """A descriptor that holds the lock, -1 where somebody else holds it, None to try again."""
    path.mkdir(exist_ok=True)
    try:
        lock = os.open(path / LOCK, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    except FileNotFoundError:
        return None
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        os.close(lock)
        return -1
    with contextlib.suppress(FileNotFoundError):
        if os.fstat(lock).st_ino == (path / LOCK).stat().st_ino:
            return lock
    os.close(lock)
    return None
