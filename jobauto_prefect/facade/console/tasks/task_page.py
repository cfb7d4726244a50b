"""A task's page: its window, what came of it, its attempts, and what can be done."""

from datetime import datetime
from typing import Any
from zoneinfo import ZoneInfo

from fastapi import Request, Response

from jobauto_prefect.console_addresses import CONTRACT
from jobauto_prefect.facade.auth.permissions import Rights
from jobauto_prefect.facade.console.contract import Contract, ContractError, CurrentContract
from jobauto_prefect.facade.console.jobs.job_actions import (
    AllowedActions,
    JobAction,
    Record,
    excuse_task,
)
from jobauto_prefect.facade.console.jobs.job_page import JOBS, Refusal
from jobauto_prefect.facade.console.jobs.labels import JobWords
from jobauto_prefect.facade.console.moments import CurrentTime
from jobauto_prefect.facade.console.notifications import redirect_after
from jobauto_prefect.facade.console.page_response import language_of, respond_in_console
from jobauto_prefect.facade.console.records.forms import Form, SentForm
from jobauto_prefect.facade.console.tasks.task_list_page import TASKS
from jobauto_prefect.facade.console.tasks.windows import badge_of, tell_window
from jobauto_prefect.facade.formats.html.page_language import translator
from jobauto_prefect.facade.http import late_routes
from jobauto_prefect.facade.service import CurrentService, Service
from jobauto_prefect.ledger.states import UNFULFILLED

router = late_routes.router(include_in_schema=False)


@router.get(f"{TASKS}/{{task_id:int}}")
async def show_task(
    task_id: int,
    request: Request,
    contract: CurrentContract,
    service: CurrentService,
    now: CurrentTime,
) -> Response:
    """Show a task."""
    return await _respond(request, contract, service, now, task_id)


@router.post(f"{TASKS}/{{task_id:int}}/{JobAction.RETRY}")
async def retry(
    task_id: int,
    request: Request,
    contract: CurrentContract,
    service: CurrentService,
    now: CurrentTime,
) -> Response:
    """Start one more attempt, and lead to its job."""
    try:
        made = await contract.write("POST", f"/task/{task_id}/retry.json")
    except ContractError as error:
        refusal = _refusal(JobAction.RETRY, error)
        return await _respond(request, contract, service, now, task_id, refusal)
    return redirect_after(request, f"{JOBS}/{made['id']}", "retried")


@router.post(f"{TASKS}/{{task_id:int}}/{JobAction.EXCUSE}")
async def excuse(
    task_id: int,
    form: SentForm,
    request: Request,
    contract: CurrentContract,
    service: CurrentService,
    now: CurrentTime,
) -> Response:
    """Keep why it is all right that the window failed or was missed."""
    try:
        await excuse_task(contract, task_id, form.get("why", ""))
    except ContractError as error:
        refusal = _refusal(JobAction.EXCUSE, error, form)
        return await _respond(request, contract, service, now, task_id, refusal)
    return redirect_after(request, f"{TASKS}/{task_id}", "excused")


def _refusal(action: JobAction, error: ContractError, form: Form | None = None) -> Refusal:
    return Refusal(action, error.reason, form or Form([]), error.status)


async def _respond(
    request: Request,
    contract: Contract,
    service: Service,
    now: datetime,
    task_id: int,
    refusal: Refusal | None = None,
) -> Response:
    view = await contract.read(f"/task/{task_id}")
    task: dict[str, Any] = view.data
    translate = translator(language_of(request))
    words = JobWords(view, now, translate)
    start, end = (datetime.fromisoformat(task[f"window_{side}"]) for side in ("start", "end"))
    zone = ZoneInfo(service.settings.timezone)
    window = tell_window(start, end, zone, translate)
    return respond_in_console(
        request,
        contract.who,
        "tasks/task.html",
        f"{words.template} · {window}",
        here="Tasks",
        status=refusal.status if refusal else 200,
        task=task,
        words=words,
        window=window,
        zone=zone.key,
        badge=badge_of(task, translate),
        actions=_allowed_actions(contract.who.rights, task),
        attempts=[words.line_of(job) for job in task["jobs"]],
        refusal=refusal,
        contract_page=f"{CONTRACT}/task/{task_id}.html",
    )


def _allowed_actions(rights: Rights, task: Record) -> AllowedActions:
    is_owed = task["state"] in UNFULFILLED
    return AllowedActions(
        retry=is_owed and rights.may("jobs.execute", task["company_id"]),
        excuse=is_owed and rights.may("jobs.update", task["company_id"]),
    )
