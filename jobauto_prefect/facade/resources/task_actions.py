"""What an operator may do about a task that has ended: have it tried again, or excuse it."""

from typing import Annotated

from fastapi import APIRouter, Request, Response
from pydantic import Field, StringConstraints

from jobauto_prefect.errors import Conflict
from jobauto_prefect.facade.answers import JsonObject
from jobauto_prefect.facade.auth.identity import CurrentUser, Identity
from jobauto_prefect.facade.http.field_types import Integer
from jobauto_prefect.facade.http.requests import Body, BodyFields, parse
from jobauto_prefect.facade.http.responses import respond_plain
from jobauto_prefect.facade.kinds.jobs import serialize_job
from jobauto_prefect.facade.kinds.tasks import serialize_task
from jobauto_prefect.facade.service import CurrentService, Service
from jobauto_prefect.jobs.windows import tasks
from jobauto_prefect.ledger.jobs.attempts import inactive_reason
from jobauto_prefect.ledger.queries.lookup import get_record
from jobauto_prefect.ledger.records import Task
from jobauto_prefect.ledger.store import ReadingSession

Why = Annotated[str, StringConstraints(strip_whitespace=True, min_length=1, max_length=1000)]


class ExcuseBody(Body):
    """Why it is all right that a window failed or was missed."""

    why: Why = Field(description="Why it is all right.")


def add_routes(router: APIRouter) -> None:
    """Add them to the contract."""
    for name, function in (("retry", retry), ("excuse", excuse)):
        path = f"/task/{{task_id}}/{name}"
        router.post(f"{path}.{{suffix}}", name=f"{name} task")(function)
        router.post(path, include_in_schema=False)(function)


def retry(
    task_id: Integer, request: Request, who: CurrentUser, service: CurrentService
) -> Response:
    """Start one more attempt at a failed or missed window, now; return its job."""
    with service.ledger.writing(who.actor) as session:
        task = _get_task(session, task_id, who, "execute")
        reason = inactive_reason(task.runtemplate)
        if reason is not None:
            raise Conflict(f"{reason}; activate it first")
        job = tasks.retry_task(session, task, who.user_id)
        session.flush()
        shown = serialize_job(job, service.settings)
    service.outbox_worker.wake()
    return respond_plain(request, who, f"Retry of task {task_id}", shown)


def excuse(
    task_id: Integer,
    fields: BodyFields,
    request: Request,
    who: CurrentUser,
    service: CurrentService,
) -> Response:
    """Keep with a failed or missed task why that is all right."""
    body = parse(ExcuseBody, fields)
    return respond_plain(
        request, who, f"Excuse of task {task_id}", _excuse(service, task_id, who, body)
    )


def _excuse(service: Service, task_id: int, who: Identity, body: ExcuseBody) -> JsonObject:
    with service.ledger.writing(who.actor) as session:
        task = _get_task(session, task_id, who, "update")
        tasks.excuse_task(session, task, body.why)
        return serialize_task(task, service.settings)


def _get_task(session: ReadingSession, task_id: int, who: Identity, action: str) -> Task:
    task = get_record(session, Task, task_id)
    who.rights.require("jobs", action, task.runtemplate.company_id, task)
    return task
