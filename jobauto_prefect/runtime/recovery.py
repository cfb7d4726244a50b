"""What a worker does about the jobs of its predecessor before it takes any of its own."""

import logging
from collections.abc import Iterable

from jobauto_prefect.clock import Clock, utc_now
from jobauto_prefect.errors import Forbidden, JobautoError, Unauthorized
from jobauto_prefect.runtime.client import FacadeClient, insist
from jobauto_prefect.runtime.protocol import Ending, LeftOver, Report
from jobauto_prefect.runtime.survivors import Traces, end_all
from jobauto_prefect.runtime.watchdog import tree
from jobauto_prefect.runtime.watchdog.jobs import MARKER
from jobauto_prefect.runtime.workplace import JobRecord, Workplace

logger = logging.getLogger(__name__)


async def recover(
    client: FacadeClient,
    workplace: Workplace,
    worker: str,
    left_over: Iterable[LeftOver],
    *,
    stop_seconds: float,
    clock: Clock = utc_now,
) -> list[int]:
    """End what is left of a predecessor's jobs and tell all outcomes it could not tell.

    Jobs that were not in this workplace are nobody's here and are left to their leases. Returns
    the ids of the jobs that are settled.

    Raises:
        Unauthorized, Forbidden: the token is not good for them.
    """
    records = {record.job_id: record for record in workplace.records()}
    for left in left_over:
        if left.directory.rpartition("/")[0] == str(workplace.path):
            records.setdefault(left.job_id, _unrecorded(left))
    await end_all([_traces(record) for record in records.values()], stop_seconds)
    for record in records.values():
        report = record.report or _lost(record, worker, clock)
        await _tell(client, record, report)
        workplace.remove(record.job_id, record.directory)
    return list(records)


def _unrecorded(left: LeftOver) -> JobRecord:
    """Claimed, but its predecessor did not come to write anything down."""
    return JobRecord(
        job_id=left.job_id,
        claim_id=left.claim_id,
        directory=left.directory,
        boot_id=tree.boot_id(),
    )


def _traces(record: JobRecord) -> Traces:
    same_boot = record.boot_id == tree.boot_id()
    return Traces(
        record.pid if same_boot and record.started is not None else None,
        record.started,
        f"{MARKER}={record.directory}",
    )


def _lost(record: JobRecord, worker: str, clock: Clock) -> Report:
    same_boot = record.boot_id == tree.boot_id()
    return Report(
        claim_id=record.claim_id,
        worker=worker,
        ending=Ending.LOST,
        pid=record.pid,
        message="its worker died" if same_boot else "its machine was restarted",
        started_at=record.started_at,
        ended_at=clock(),
    )


async def _tell(client: FacadeClient, record: JobRecord, report: Report) -> None:
    try:
        await insist(client.report, record.job_id, report)
    except (Unauthorized, Forbidden):
        raise
    except JobautoError as error:
        logger.warning("the outcome of job %s was refused: %s", record.job_id, error)
