"""A job's page: what it is, why it waits or failed, its log, its files, and what can be done."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any
from uuid import uuid4

from fastapi import Request, Response

from jobauto_prefect.console_addresses import CONSOLE, CONTRACT
from jobauto_prefect.facade.console.contract import Contract, ContractError, CurrentContract
from jobauto_prefect.facade.console.jobs.artifact_previews import preview_artifacts
from jobauto_prefect.facade.console.jobs.job_actions import (
    JobAction,
    Record,
    allowed_actions,
    cancel_job,
    excuse_task,
    retry_job,
)
from jobauto_prefect.facade.console.jobs.labels import JobWords
from jobauto_prefect.facade.console.jobs.log_section import read_log
from jobauto_prefect.facade.console.jobs.workers import worker_address
from jobauto_prefect.facade.console.moments import CurrentTime
from jobauto_prefect.facade.console.notifications import redirect_after
from jobauto_prefect.facade.console.page_response import language_of, respond_in_console
from jobauto_prefect.facade.console.records.forms import Form, SentForm
from jobauto_prefect.facade.formats import View
from jobauto_prefect.facade.formats.html.page_language import translator
from jobauto_prefect.facade.http import late_routes
from jobauto_prefect.ledger.states import LIVE_JOBS

JOBS = f"{CONSOLE}/jobs"
MAX_ATTEMPTS = 100

router = late_routes.router(include_in_schema=False)


@dataclass(frozen=True, slots=True)
class Refusal:
    """Why a form of the page was refused; `typed` is what was sent with it."""

    action: JobAction
    message: str
    typed: Form
    status: int


@router.get(f"{JOBS}/{{job_id:int}}")
async def show_job(
    job_id: int, request: Request, contract: CurrentContract, now: CurrentTime
) -> Response:
    """Show a job."""
    return await _respond(request, contract, now, job_id)


@router.post(f"{JOBS}/{{job_id:int}}/{JobAction.CANCEL}")
async def cancel(
    job_id: int, form: SentForm, request: Request, contract: CurrentContract, now: CurrentTime
) -> Response:
    """Cancel the job; it is over at once, or as soon as its worker has ended it."""
    job = (await contract.read(f"/job/{job_id}")).data
    try:
        await cancel_job(contract, job, form.get("reason", "").strip())
    except ContractError as error:
        return await _refuse(request, contract, now, job_id, JobAction.CANCEL, error, form)
    return redirect_after(request, f"{JOBS}/{job_id}", "cancelled")


@router.post(f"{JOBS}/{{job_id:int}}/{JobAction.RETRY}")
async def retry(
    job_id: int, form: SentForm, request: Request, contract: CurrentContract, now: CurrentTime
) -> Response:
    """Run the job once more, and lead to the new one."""
    job = (await contract.read(f"/job/{job_id}")).data
    try:
        task = await read_task(contract, job)
        new_id = await retry_job(contract, job, task, form.get("key", ""))
    except ContractError as error:
        return await _refuse(request, contract, now, job_id, JobAction.RETRY, error, form)
    return redirect_after(request, f"{JOBS}/{new_id}", "retried")


@router.post(f"{JOBS}/{{job_id:int}}/{JobAction.EXCUSE}")
async def excuse(
    job_id: int, form: SentForm, request: Request, contract: CurrentContract, now: CurrentTime
) -> Response:
    """Keep why it is all right that the window of the job failed or was missed."""
    job = (await contract.read(f"/job/{job_id}")).data
    try:
        await excuse_task(contract, job["task_id"], form.get("why", ""))
    except ContractError as error:
        return await _refuse(request, contract, now, job_id, JobAction.EXCUSE, error, form)
    return redirect_after(request, f"{JOBS}/{job_id}", "excused")


async def _refuse(
    request: Request,
    contract: Contract,
    now: datetime,
    job_id: int,
    action: JobAction,
    error: ContractError,
    form: Form,
) -> Response:
    """Show the page with the form as it was sent, and why it was refused."""
    refusal = Refusal(action, error.reason, form, error.status)
    return await _respond(request, contract, now, job_id, refusal)


async def _respond(
    request: Request,
    contract: Contract,
    now: datetime,
    job_id: int,
    refusal: Refusal | None = None,
) -> Response:
    view = await contract.read(f"/job/{job_id}")
    job: Record = view.data
    task = await read_task(contract, job)
    query = request.query_params
    before, sought = query.get("before", ""), query.get("find", "")
    log = await read_log(
        contract,
        job_id,
        before=int(before) if _is_line_number(before) else None,
        sought=sought,
    )
    translate = translator(language_of(request))
    words = JobWords(view, now, translate)
    is_live = job["state"] in LIVE_JOBS
    return respond_in_console(
        request,
        contract.who,
        "jobs/job.html",
        f"{words.template} · {translate('job {number}', number=job_id)}",
        here="Jobs",
        status=refusal.status if refusal else 200,
        is_live=is_live,
        job=job,
        task=task,
        words=words,
        badge=words.badge_of(job),
        actions=allowed_actions(contract.who.rights, job, task),
        attempts=[words.line_of(attempt) for attempt in await _read_attempts(contract, job, task)],
        log=log,
        files=await preview_artifacts(contract, job["artifacts"]),
        refusal=refusal,
        key=uuid4().hex,
        worker_href=worker_address(job["worker"]) if is_live and job["worker"] else "",
        contract_page=f"{CONTRACT}/job/{job_id}.html",
    )


def _is_line_number(text: str) -> bool:
    return text.isascii() and text.isdecimal() and 0 < int(text[:12]) < 2**31


async def read_task(contract: Contract, job: Record) -> Record | None:
    """Read the task that a job is an attempt for; None: nobody owed it."""
    if job["task_id"] is None:
        return None
    task: Record = (await contract.read(f"/task/{job['task_id']}")).data
    return task


async def _read_attempts(
    contract: Contract, job: Record, task: Record | None
) -> Sequence[Mapping[str, Any]]:
    """Read all attempts at what a job is one of, in their order."""
    if task is not None:
        jobs: Sequence[Record] = task["jobs"]
        return jobs[-MAX_ATTEMPTS:]
    first_id = job["retry_of"] or job["id"]
    query = {"retry_of": first_id, "order": "-id", "limit": MAX_ATTEMPTS}
    others = list(_records(await contract.read("/jobs", query)))
    first = job if job["id"] == first_id else await _read_first(contract, first_id)
    return [*([first] if first else []), *reversed(others)]


async def _read_first(contract: Contract, job_id: int) -> Record | None:
    """Read the first attempt; None: it was deleted."""
    try:
        job: Record = (await contract.read(f"/job/{job_id}")).data
    except ContractError:
        return None
    return job


def _records(view: View) -> Sequence[Record]:
    records: Sequence[Record] = list(view.data.values())
    return records
