"""Bulk actions: cancel, retry or excuse the selected jobs one by one, and show each result."""

from dataclasses import dataclass

from fastapi import Response

from jobauto_prefect.console_addresses import page_of
from jobauto_prefect.facade.console.contract import ContractError
from jobauto_prefect.facade.console.jobs.job_actions import (
    JobAction,
    cancel_job,
    excuse_task,
    retry_job,
)
from jobauto_prefect.facade.console.jobs.job_page import JOBS, read_task
from jobauto_prefect.facade.console.jobs.saved_searches import SavedSearch, is_possible
from jobauto_prefect.facade.console.records.forms import Form, SentForm
from jobauto_prefect.facade.console.visit import CurrentVisit, Visit, is_number
from jobauto_prefect.facade.http import late_routes
from jobauto_prefect.ledger.base import BIGGEST_ID

MAX_SELECTED = 100

TITLES = {
    JobAction.CANCEL: "Cancelled: {done} of {total}",
    JobAction.RETRY: "Retried: {done} of {total}",
    JobAction.EXCUSE: "Excused: {done} of {total}",
}

router = late_routes.router(include_in_schema=False)


@dataclass(frozen=True, slots=True)
class JobResult:
    """The result for one job; `refusal` is "" on success. `href` is the job, or its retry."""

    job_id: int
    name: str
    href: str
    refusal: str = ""


@router.post(f"{JOBS}/selected")
async def change_selected(visit: CurrentVisit, form: SentForm) -> Response:
    """Apply an action to each selected job and show the results."""
    translate = visit.translate
    action = JobAction(form["action"]) if form.get("action") in set(JobAction) else None
    ids = [
        int(job_id)
        for job_id in dict.fromkeys(form.all("job"))
        if is_number(job_id) and len(job_id) < 20 and int(job_id) <= BIGGEST_ID
    ]
    if action is None or not ids:
        raise ContractError(400, translate("Nothing was selected. Choose jobs and an action."))
    results = [await _change(visit, action, job_id, form) for job_id in sorted(ids)[:MAX_SELECTED]]
    done = sum(not result.refusal for result in results)
    search = SavedSearch("back", form.get("back", ""))
    return visit.respond(
        "jobs/selected.html",
        translate(TITLES[action], done=done, total=len(results)),
        results=results,
        back=search.href if is_possible(search) else JOBS,
    )


async def _change(visit: Visit, action: JobAction, job_id: int, form: Form) -> JobResult:
    name, href, contract = f"#{job_id}", page_of("job", job_id), visit.contract
    try:
        job = await visit.get(f"/job/{job_id}")
        name = visit.named(job, "runtemplate_id", name)
        if action == JobAction.CANCEL:
            await cancel_job(contract, job, form.get("reason", "").strip())
        elif action == JobAction.RETRY:
            task = await read_task(visit, job)
            new_id = await retry_job(contract, job, task, f"{form.get('key', '')}-{job_id}")
            href = page_of("job", new_id)
        else:
            await excuse_task(contract, job["task_id"], form.get("why", ""))
    except ContractError as error:
        return JobResult(job_id, name, href, error.reason)
    return JobResult(job_id, name, href)
