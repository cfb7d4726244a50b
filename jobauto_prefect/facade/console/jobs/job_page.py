"""A job's page: its facts, why it waits or failed, its log, its files and its actions."""

from collections.abc import Sequence
from dataclasses import dataclass
from uuid import uuid4

from fastapi import Response

from jobauto_prefect.console_addresses import CONTRACT, list_address, page_of
from jobauto_prefect.facade.console.contract import ContractError
from jobauto_prefect.facade.console.jobs.artifact_previews import preview_artifacts
from jobauto_prefect.facade.console.jobs.job_actions import (
    JobAction,
    Record,
    allowed_actions,
    cancel_job,
    excuse_task,
    retry_job,
)
from jobauto_prefect.facade.console.jobs.labels import badge_of, line_of, origin_of
from jobauto_prefect.facade.console.jobs.log import read_log
from jobauto_prefect.facade.console.jobs.workers import worker_address
from jobauto_prefect.facade.console.moments import tell_duration
from jobauto_prefect.facade.console.notifications import redirect_after
from jobauto_prefect.facade.console.records.forms import Form, SentForm
from jobauto_prefect.facade.console.visit import CurrentVisit, Visit, is_number
from jobauto_prefect.facade.http import late_routes
from jobauto_prefect.ledger.states import LIVE_JOBS

JOBS = list_address("job")
JOB = f"{JOBS}/{{job_id:int}}"
MAX_ATTEMPTS = 100

router = late_routes.router(include_in_schema=False)


@dataclass(frozen=True, slots=True)
class Refusal:
    """A refused form of the page; `typed` are the submitted values."""

    action: JobAction
    error: ContractError
    typed: Form


@router.get(JOB)
async def show_job(job_id: int, visit: CurrentVisit) -> Response:
    return await _respond(visit, job_id)


@router.post(f"{JOB}/{JobAction.CANCEL}")
async def cancel(job_id: int, form: SentForm, visit: CurrentVisit) -> Response:
    """Cancel the job; it ends at once, or as soon as its worker has stopped it."""
    job = await visit.get(f"/job/{job_id}")
    try:
        await cancel_job(visit.contract, job, form.get("reason", "").strip())
    except ContractError as error:
        return await _respond(visit, job_id, Refusal(JobAction.CANCEL, error, form))
    return redirect_after(visit.request, page_of("job", job_id), "cancelled")


@router.post(f"{JOB}/{JobAction.RETRY}")
async def retry(job_id: int, form: SentForm, visit: CurrentVisit) -> Response:
    """Run the job again and redirect to the new one."""
    job = await visit.get(f"/job/{job_id}")
    try:
        task = await read_task(visit, job)
        new_id = await retry_job(visit.contract, job, task, form.get("key", ""))
    except ContractError as error:
        return await _respond(visit, job_id, Refusal(JobAction.RETRY, error, form))
    return redirect_after(visit.request, page_of("job", new_id), "retried")


@router.post(f"{JOB}/{JobAction.EXCUSE}")
async def excuse(job_id: int, form: SentForm, visit: CurrentVisit) -> Response:
    """Excuse the failed or missed window of the job."""
    job = await visit.get(f"/job/{job_id}")
    try:
        await excuse_task(visit.contract, job["task_id"], form.get("why", ""))
    except ContractError as error:
        return await _respond(visit, job_id, Refusal(JobAction.EXCUSE, error, form))
    return redirect_after(visit.request, page_of("job", job_id), "excused")


async def _respond(visit: Visit, job_id: int, refusal: Refusal | None = None) -> Response:
    """Show the page; a refused form is shown as it was sent, with the reason."""
    job: Record = await visit.get(f"/job/{job_id}")
    task = await read_task(visit, job)
    asked = visit.asked("before", "find")
    before = asked.get("before", "")
    log = await read_log(
        visit.contract,
        job_id,
        job["state"],
        before=int(before) if is_number(before) and 0 < int(before[:12]) < 2**31 else None,
        sought=asked.get("find", ""),
    )
    is_live = job["state"] in LIVE_JOBS
    template = visit.named(job, "runtemplate_id")
    return visit.respond(
        "jobs/job.html",
        f"{template} · {visit.translate('job {number}', number=job_id)}",
        status=refusal.error.status if refusal else 200,
        is_live=is_live,
        job=job,
        task=task,
        visit=visit,
        badge=badge_of(job, visit),
        duration=tell_duration(job["begin"], job["end"], visit.now),
        origin=origin_of(job, visit),
        actions=allowed_actions(visit.who.rights, job, task),
        attempts=[line_of(attempt, visit) for attempt in await _read_attempts(visit, job, task)],
        log=log,
        files=await preview_artifacts(visit.contract, job["artifacts"]),
        refusal=refusal,
        key=uuid4().hex,
        worker_href=worker_address(job["worker"]) if is_live and job["worker"] else "",
        contract_page=f"{CONTRACT}/job/{job_id}.html",
    )


async def read_task(visit: Visit, job: Record) -> Record | None:
    """Read the task that a job is an attempt for; None if it is for no window."""
    if job["task_id"] is None:
        return None
    task: Record = await visit.get(f"/task/{job['task_id']}")
    return task


async def _read_attempts(visit: Visit, job: Record, task: Record | None) -> Sequence[Record]:
    """Read the attempts that a job belongs to, in order; the first may have been deleted."""
    if task is not None:
        jobs: Sequence[Record] = task["jobs"]
        return jobs[-MAX_ATTEMPTS:]
    first_id = job["retry_of"] or job["id"]
    query = {"retry_of": first_id, "order": "-id", "limit": MAX_ATTEMPTS}
    others = list((await visit.get("/jobs", query)).values())
    first = [job]
    if job["id"] != first_id:
        try:
            first = [await visit.get(f"/job/{first_id}")]
        except ContractError:
            first = []
    return [*first, *reversed(others)]
