"""What one job has on the disk of its worker: a directory of its own and a record."""

import asyncio
import logging
import os
from datetime import datetime

from jobauto_prefect.runtime import inputs
from jobauto_prefect.runtime.artifacts import Collector
from jobauto_prefect.runtime.inputs import Owner
from jobauto_prefect.runtime.launch import TEMPORARY
from jobauto_prefect.runtime.protocol import Launch, OutputLines, Report
from jobauto_prefect.runtime.watchdog import tree
from jobauto_prefect.runtime.workplace import JobRecord, Workplace

logger = logging.getLogger(__name__)


class JobPlace:
    """Nothing is there before `make`. `owner` is whose the files are; None: this process's user."""

    def __init__(self, workplace: Workplace, launch: Launch) -> None:
        self._workplace = workplace
        self._launch = launch
        self._owner: Owner | None = None
        self.record_path = str(workplace.record_path(launch.job_id))
        self._record = JobRecord(
            job_id=launch.job_id,
            claim_id=launch.claim_id,
            directory=launch.directory,
            boot_id=tree.boot_id(),
            executor=launch.executor,
        )

    def make(self, owner: Owner | None, namespace: str | None = None) -> None:
        """The record and the empty directory; `namespace` is where the job runs in a cluster.

        Raises:
            StartFailed: they can't be made.
        """
        self._owner, self._record.namespace = owner, namespace
        self._workplace.make(self._record, owner=owner, folder=TEMPORARY)

    async def put(self, path: str, content: bytes) -> None:
        """Write a file the job is given."""
        directory = self._launch.directory
        await asyncio.to_thread(inputs.put, directory, path, content, self._owner)

    def collector(self) -> Collector:
        """What takes the artifacts from the directory."""
        owner = os.geteuid() if self._owner is None else self._owner[0]
        return Collector(self._launch.directory, owner, self._launch.artifact_limit_bytes)

    @property
    def pid(self) -> int | None:
        """The number of the job's leading process here."""
        return self._record.pid

    def note_start(self, moment: datetime, pid: int | None = None) -> None:
        """Write down when it began, and as which process of this machine."""
        leader = tree.read(pid) if pid else None
        self._record.pid = pid
        self._record.started = leader.started if leader else None
        self._record.started_at = moment
        self._write()

    def keep(self, report: Report, unsent: list[OutputLines]) -> None:
        """Write its outcome down, and the output that is still to be sent."""
        self._record.report, self._record.unsent = report, unsent
        self._write()

    def _write(self) -> None:
        try:
            self._workplace.write(self._record)
        except OSError as error:  # a full disk must not cost the job its outcome
            logger.warning("the record of job %s was not written: %s", self._record.job_id, error)

    async def discard(self) -> None:
        """Remove both."""
        await asyncio.to_thread(self._workplace.remove, self._launch.job_id, self._launch.directory)
