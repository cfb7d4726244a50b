"""The directory of one worker: its jobs' directories, and a record of each job.

With the records a restarted worker ends what is left of its predecessor's jobs, and reports the
outcomes its predecessor could not report.
"""

import asyncio
import contextlib
import fcntl
import hashlib
import logging
import os
import shutil
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path
from typing import Self
from uuid import UUID

from pydantic import AwareDatetime, BaseModel, ValidationError

from jobauto_prefect.errors import Conflict, NotReady, StartFailed, WorkerUnable
from jobauto_prefect.home import PASSABLE, PRIVATE, make_folder
from jobauto_prefect.runtime.exit_codes import NOT_EXECUTABLE
from jobauto_prefect.runtime.launch import input_files
from jobauto_prefect.runtime.launch.input_files import UNPLAIN, Owner
from jobauto_prefect.runtime.output.artifacts import Collector
from jobauto_prefect.runtime.protocol import TEMPORARY, Launch, OutputLines, Report
from jobauto_prefect.runtime.watchdog import process_table

logger = logging.getLogger(__name__)

RECORDS = "records"
LOCK = "lock"


class JobRecord(BaseModel):
    """The record of one job on disk; it contains no secrets.

    `pid` and `started` (clock ticks since boot) are its leader's, None before the start. `report`
    is set once the job has ended; `unsent` are the output lines that the ledger may not have then.
    `executor` is the one that ran it, `namespace` its place in a cluster.
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


class WorkerWorkspace:
    """A worker's directory, locked while the worker lives."""

    def __init__(self, path: Path, lock: int) -> None:
        self.path = path
        self._lock = lock

    @classmethod
    def open(cls, base: Path, worker: str, *, shared: bool = False) -> Self:
        """Open the directory of the worker of this name below `base`; create it if missing.

        `shared` lets other users pass through it to their own jobs' directories.

        Raises:
            Conflict: a live worker of this name has it.
            NotReady: the path of `base` has characters special to shells, or can't be created.
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
                pass  # its last user removed it meanwhile
            if lock < 0:
                message = f"a worker named {worker} already works in {path}; choose another --name"
                raise Conflict(message)
            path.chmod(PASSABLE if shared else PRIVATE)
            (path / RECORDS).mkdir(exist_ok=True, mode=PRIVATE)
        except OSError as error:
            raise NotReady(
                f"{path} can't be created for jobs ({error.strerror}); make room, or set"
                " JOBAUTO_WORKER_DIRECTORY to another place"
            ) from None
        return cls(path, lock)

    @staticmethod
    def is_held(base: Path, worker: str) -> bool:
        """Whether a live worker of this name has its directory below `base`."""
        try:
            with (base / _folder_name(worker) / LOCK).open() as file:
                fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError:
            return True
        except OSError:
            pass  # it is unused, or its worker will report why it can't be used
        return False

    def close(self) -> None:
        """Unlock the directory, and remove it if no job left anything."""
        with contextlib.suppress(OSError):
            (self.path / RECORDS).rmdir()
            if [entry.name for entry in self.path.iterdir()] == [LOCK]:
                (self.path / LOCK).unlink()
                self.path.rmdir()
        os.close(self._lock)

    def make(self, record: JobRecord, *, owner: tuple[int, int] | None, folder: str) -> None:
        """Create a job's record and its directory, which contains only `folder`.

        `owner` are uid and gid; None means this process's own.

        Raises:
            StartFailed: the directory is not one of this workspace.
            WorkerUnable: it can't be created.
        """
        directory = Path(record.directory)
        if directory.parent != self.path or directory.name == RECORDS:
            raise StartFailed(f"{directory} is not a job directory in {self.path}", NOT_EXECUTABLE)
        try:
            self.write(record)
            shutil.rmtree(directory, ignore_errors=True)
            for path in (directory, directory / folder):
                path.mkdir(mode=0o700)
                if owner is not None:
                    os.chown(path, *owner)
        except OSError as error:
            message = f"can't create a job directory in {self.path}: {error.strerror}"
            raise WorkerUnable(message, "disk") from None

    def record_path(self, job_id: int) -> Path:
        """Return the path of a job's record."""
        return self.path / RECORDS / f"{job_id}.json"

    def write(self, record: JobRecord) -> None:
        """Replace a job's record atomically."""
        path = self.record_path(record.job_id)
        fresh = path.with_suffix(".new")
        fresh.write_text(record.model_dump_json())
        fresh.replace(path)

    def records(self) -> Iterator[JobRecord]:
        """Return the records of unsettled jobs; skip unreadable ones."""
        for path in sorted((self.path / RECORDS).glob("*.json")):
            with contextlib.suppress(OSError, ValidationError):
                yield JobRecord.model_validate_json(path.read_text())

    def remove(self, job_id: int, directory: str) -> None:
        """Remove a job's record and directory; what can't be removed now stays."""
        if Path(directory).parent == self.path:
            shutil.rmtree(directory, ignore_errors=True)
        with contextlib.suppress(OSError):
            self.record_path(job_id).unlink()


def _folder_name(worker: str) -> str:
    """Return the worker's name; if it has special characters, a digest keeps it unique."""
    plain = UNPLAIN.sub("-", worker.replace("/", " "))
    if plain == worker and not worker.startswith("."):
        return worker
    return f"{plain.lstrip('.')}-{hashlib.sha256(worker.encode()).hexdigest()[:8]}"


def _locked(path: Path) -> int | None:
    """Try to lock. Returns: the descriptor, -1 if another process holds it, None to retry."""
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


class JobWorkspace:
    """A job's directory and record; `make` creates them.

    `owner` is whose the files are; None: this process's user.
    """

    def __init__(self, workspace: WorkerWorkspace, launch: Launch) -> None:
        self._workspace = workspace
        self._launch = launch
        self._owner: Owner | None = None
        self.record_path = str(workspace.record_path(launch.job_id))
        self._record = JobRecord(
            job_id=launch.job_id,
            claim_id=launch.claim_id,
            directory=launch.directory,
            boot_id=process_table.boot_id(),
            executor=launch.executor,
        )

    def make(self, owner: Owner | None, namespace: str | None = None) -> None:
        """Create the record and the directory; `namespace` is its place in a cluster.

        Raises:
            StartFailed: they can't be created.
        """
        self._owner, self._record.namespace = owner, namespace
        self._workspace.make(self._record, owner=owner, folder=TEMPORARY)

    async def put(self, path: str, content: bytes) -> None:
        """Write an input file of the job."""
        directory = self._launch.directory
        await asyncio.to_thread(input_files.write_file, directory, path, content, self._owner)

    def collector(self) -> Collector:
        """Return the collector of the job's artifacts."""
        owner = os.geteuid() if self._owner is None else self._owner[0]
        return Collector(self._launch.directory, owner, self._launch.artifact_limit_bytes)

    @property
    def pid(self) -> int | None:
        """The pid of the job's leading process here, or None."""
        return self._record.pid

    def note_start(self, moment: datetime, pid: int | None = None) -> None:
        """Record when the job started, and its process on this machine; None: it has none here."""
        leader = process_table.read_process(pid) if pid else None
        self._record.pid = pid
        self._record.started = leader.started if leader else None
        self._record.started_at = moment
        self._write()

    def keep(self, report: Report, unsent: list[OutputLines]) -> None:
        """Record the outcome, and the output still to be sent."""
        self._record.report, self._record.unsent = report, unsent
        self._write()

    def _write(self) -> None:
        try:
            self._workspace.write(self._record)
        except OSError as error:  # a full disk must not cost the job its outcome
            logger.warning("the record of job %s was not written: %s", self._record.job_id, error)

    async def discard(self) -> None:
        """Remove the directory and the record."""
        await asyncio.to_thread(self._workspace.remove, self._launch.job_id, self._launch.directory)
