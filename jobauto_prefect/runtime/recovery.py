"""Recovery at start: ends and reports a predecessor's jobs before any new ones."""

import logging
from collections.abc import Iterable, Mapping

from jobauto_prefect.clock import Clock
from jobauto_prefect.errors import Forbidden, JobautoError, StartFailed, Unauthorized
from jobauto_prefect.retries import retry_until_available
from jobauto_prefect.runtime.executor import Executor
from jobauto_prefect.runtime.facade_client import FacadeClient
from jobauto_prefect.runtime.output.sender import in_batches
from jobauto_prefect.runtime.protocol import Ending, LeftoverJob, Report
from jobauto_prefect.runtime.watchdog import process_table
from jobauto_prefect.runtime.workspace import JobRecord, WorkerWorkspace

logger = logging.getLogger(__name__)


async def recover(
    client: FacadeClient,
    workspace: WorkerWorkspace,
    executors: Mapping[str, Executor],
    worker: str,
    left_over: Iterable[LeftoverJob],
    *,
    stop_seconds: float,
) -> list[int]:
    """End what is left of a predecessor's jobs and report all outcomes it could not report.

    Jobs that were not in this workspace are left to their leases, and those of an unreachable
    executor to the next start. Returns the ids of the settled jobs.

    Raises:
        Unauthorized, Forbidden: the token is not valid for them.
    """
    records = {record.job_id: record for record in workspace.records()}
    for left in left_over:
        if left.directory.rpartition("/")[0] == str(workspace.path):
            # Claimed, but not recorded before the worker died.
            records.setdefault(
                left.job_id,
                JobRecord(
                    job_id=left.job_id,
                    claim_id=left.claim_id,
                    directory=left.directory,
                    boot_id=process_table.boot_id(),
                ),
            )
    ended = await _end_all(executors, records.values(), stop_seconds)
    for record in ended:
        report = record.report or _lost(record, worker, client.clock)
        # The ledger ignores lines that the predecessor already sent.
        try:
            for lines in in_batches(record.unsent):
                await retry_until_available(client.output, record.job_id, record.claim_id, lines)
        except (Unauthorized, Forbidden):
            raise
        except JobautoError as error:
            logger.warning("output of job %s was refused: %s", record.job_id, error)
        try:
            await retry_until_available(client.report, record.job_id, report)
        except (Unauthorized, Forbidden):
            raise
        except JobautoError as error:
            logger.warning("the outcome of job %s was refused: %s", record.job_id, error)
        workspace.remove(record.job_id, record.directory)
    return [record.job_id for record in ended]


async def _end_all(
    executors: Mapping[str, Executor], records: Iterable[JobRecord], stop_seconds: float
) -> list[JobRecord]:
    """Terminate the jobs of these records; return those that have ended."""
    ended: list[JobRecord] = []
    by_executor: dict[str, list[JobRecord]] = {}
    for record in records:
        by_executor.setdefault(record.executor, []).append(record)
    for name, those in by_executor.items():
        ids, executor = ", ".join(str(record.job_id) for record in those), executors.get(name)
        if executor is None:
            logger.warning("jobs %s ran with executor %s, which no longer exists", ids, name)
            continue
        try:
            await executor.terminate_leftovers(those, stop_seconds)
        except StartFailed as error:
            logger.warning("can't tell whether jobs %s are still running: %s", ids, error)
        else:
            ended += those
    return ended


def _lost(record: JobRecord, worker: str, clock: Clock) -> Report:
    same_boot = record.boot_id == process_table.boot_id()
    return Report(
        claim_id=record.claim_id,
        worker=worker,
        ending=Ending.LOST,
        pid=record.pid,
        message="its worker died" if same_boot else "its machine was restarted",
        started_at=record.started_at,
        ended_at=clock(),
    )
