"""The actions on a job: who may use them, and their calls of the contract."""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from jobauto_prefect.facade.auth.permissions import Rights
from jobauto_prefect.facade.console.contract import Contract, ContractError
from jobauto_prefect.ledger.states import LIVE_JOBS, LIVE_TASKS, UNFULFILLED, TaskState

FULFILLED = (TaskState.FULFILLED, TaskState.FULFILLED_LATE)

Record = Mapping[str, Any]


class JobAction(StrEnum):
    """The buttons of a job."""

    CANCEL = "cancel"
    RETRY = "retry"
    EXCUSE = "excuse"


@dataclass(frozen=True, slots=True)
class AllowedActions:
    """The buttons to show. `is_repetition`: the retry is a new run for no window."""

    cancel: bool = False
    retry: bool = False
    excuse: bool = False
    is_repetition: bool = False

    def __bool__(self) -> bool:
        return self.cancel or self.retry or self.excuse


def allowed_actions(rights: Rights, job: Record, task: Record | None) -> AllowedActions:
    """Return the possible and permitted actions; `task` is what the job was an attempt for."""
    company = job["company_id"]
    if job["state"] in LIVE_JOBS:
        return AllowedActions(cancel=rights.may("jobs.execute", company))
    if task is not None and task["state"] in LIVE_TASKS:
        return AllowedActions()  # another attempt follows
    is_owed = task is not None and task["state"] in UNFULFILLED
    needed = "jobs.execute" if is_owed else "jobs.create"
    return AllowedActions(
        retry=rights.may(needed, company),
        excuse=is_owed and rights.may("jobs.update", company),
        is_repetition=not is_owed,
    )


async def cancel_job(contract: Contract, job: Record, reason: str) -> None:
    """Cancel a job.

    Raises:
        ContractError: it has ended, or the visitor may not.
    """
    body = {"state": "cancelled"} | ({"reason": reason} if reason else {})
    await contract.write("POST", f"/job/{job['id']}.json", body)


async def retry_job(contract: Contract, job: Record, task: Record | None, key: str) -> int:
    """Run a job again, for its window unless that is fulfilled; return the new job's id.

    `key` is the Idempotency-Key.

    Raises:
        ContractError: it has not ended, a retry exists already, or the visitor may not.
    """
    if task is not None and task["state"] not in FULFILLED:
        made = await contract.write("POST", f"/task/{task['id']}/retry.json", key=key)
    elif task is not None:
        body = {"runtemplate_id": job["runtemplate_id"]}
        made = await contract.write("POST", "/job/", body, key=key)
    else:
        made = await contract.write("POST", "/job/", {"retry_of": job["id"]}, key=key)
    job_id: int = made["id"]
    return job_id


async def excuse_task(contract: Contract, task_id: int | None, why: str) -> None:
    """Excuse a failed or missed window; `task_id` is None for a job without a window.

    Raises:
        ContractError: no window, no reason, neither failed nor missed, or the visitor may not.
    """
    if task_id is None:
        raise ContractError(404, "the job is for no window")
    await contract.write("POST", f"/task/{task_id}/excuse.json", {"why": why})
